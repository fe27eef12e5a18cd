package main

import (
	"context"
	"fmt"
	"os"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/fluxcd/pkg/apis/kustomize"
	"github.com/fluxcd/pkg/runtime/cel"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// verdict is what one tool says of an object. Error is set where the tool could not say anything.
type verdict struct {
	Status  string `json:"status"`
	Message string `json:"message"`
	Error   string `json:"error,omitempty"`
}

type verdicts struct {
	ArgoCD  verdict `json:"argocd"`
	Flux    verdict `json:"flux"`
	KStatus verdict `json:"kstatus"`
}

type checks struct {
	script string
	flux   *cel.StatusEvaluator
}

func newChecks(script, expressions string) (*checks, error) {
	lua, err := os.ReadFile(script)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(expressions)
	if err != nil {
		return nil, err
	}
	var check kustomize.CustomHealthCheck
	if err := yaml.UnmarshalStrict(content, &check); err != nil {
		return nil, fmt.Errorf("%s: %w", expressions, err)
	}
	evaluator, err := cel.NewStatusEvaluator(&check.HealthCheckExpressions)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", expressions, err)
	}
	return &checks{script: string(lua), flux: evaluator}, nil
}

func (c *checks) health(raw []byte) (verdicts, error) {
	u, err := object(raw)
	if err != nil {
		return verdicts{}, err
	}
	return verdicts{ArgoCD: argoCD(c.script, u), Flux: fromResult(c.evaluate(u)), KStatus: fromResult(compute(u))}, nil
}

func (c *checks) evaluate(u *unstructured.Unstructured) (*status.Result, error) {
	return c.flux.Evaluate(context.Background(), u)
}

// compute keeps a panic of the library from ending the process: objects may be hostile.
func compute(u *unstructured.Unstructured) (result *status.Result, err error) {
	defer func() {
		if caught := recover(); caught != nil {
			err = fmt.Errorf("panic: %v", caught)
		}
	}()
	return status.Compute(u)
}

func fromResult(result *status.Result, err error) verdict {
	if err != nil {
		return verdict{Error: err.Error()}
	}
	return verdict{Status: string(result.Status), Message: result.Message}
}
