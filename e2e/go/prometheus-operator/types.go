// Package types pins the API of prometheus-operator, of which controller-gen makes the CRDs for the tests.
package types

import _ "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
