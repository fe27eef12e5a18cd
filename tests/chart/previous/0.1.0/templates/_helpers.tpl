{{- define "epd.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end -}}
{{- end }}

{{- define "epd.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "epd.labels" -}}
{{ include "epd.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- /* What the operator needs in each namespace that it watches. */ -}}
{{- define "epd.rules" -}}
- apiGroups: [epd.dev]
  resources: [epddeployments]
  verbs: [get, list, watch]
- apiGroups: [epd.dev]
  resources: [epddeployments/status, epdstagescales/status]
  verbs: [get, patch]
# Children are created and changed by server-side apply. blockOwnerDeletion needs the right on finalizers of the owner.
- apiGroups: [epd.dev]
  resources: [epddeployments/finalizers]
  verbs: [update]
- apiGroups: [epd.dev]
  resources: [epdstagescales]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [services, serviceaccounts]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [rolebindings]
  verbs: [get, list, watch, create, patch, delete]
# patch: the deletion cost of pods, so that the least busy ones go when a stage shrinks.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, patch]
# May hand out this one role, without having its rights.
- apiGroups: [rbac.authorization.k8s.io]
  resources: [clusterroles]
  resourceNames: [epd-worker-discovery]
  verbs: [bind]
{{- end }}
