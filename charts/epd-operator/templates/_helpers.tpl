{{- /* Name of the software, in labels. */ -}}
{{- define "epd.chartName" -}}
{{ .Values.nameOverride | default .Chart.Name }}
{{- end }}

{{- /* Name of the objects of this release. */ -}}
{{- define "epd.name" -}}
{{- $release := printf "%s-%s" .Release.Name (include "epd.chartName" .) }}
{{- if contains (include "epd.chartName" .) .Release.Name }}{{ $release = .Release.Name }}{{ end }}
{{- .Values.fullnameOverride | default $release | trunc 50 | regexFind "^.*[a-z0-9]" }}
{{- end }}

{{- define "epd.selectorLabels" -}}
app.kubernetes.io/name: {{ include "epd.chartName" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- /* Labels of all objects. The labels of the chart take precedence over commonLabels, because selectors and Helm need them. */ -}}
{{- define "epd.labels" -}}
{{- $own := fromYaml (include "epd.selectorLabels" .) }}
{{- $_ := set $own "app.kubernetes.io/version" .Chart.AppVersion }}
{{- $_ := set $own "app.kubernetes.io/managed-by" .Release.Service }}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | regexFind "^.*[A-Za-z0-9]") }}
{{- toYaml (merge $own (.Values.commonLabels | default dict)) }}
{{- end }}

{{- /* Labels of the operator's pods. They do not include the chart version, so that a new chart version alone restarts no pod. */ -}}
{{- define "epd.podLabels" -}}
{{- $own := fromYaml (include "epd.selectorLabels" .) }}
{{- $_ := set $own "app.kubernetes.io/version" .Chart.AppVersion }}
{{- toYaml (merge $own (.Values.podLabels | default dict) (.Values.commonLabels | default dict)) }}
{{- end }}

{{- define "epd.serviceAccountName" -}}
{{ .Values.serviceAccount.name | default (include "epd.name" .) }}
{{- end }}

{{- /* ClusterRole that the operator binds for worker pods. */ -}}
{{- define "epd.workerRole" -}}
{{ .Values.workerRole.name }}
{{- end }}

{{- /* Whether the operator compares the nodes of the cluster with the needs of pods: "true" or "". */ -}}
{{- define "epd.checksNodes" -}}
{{- if or (eq .Values.nodeCheck "Always") (and (eq .Values.nodeCheck "Auto") (not .Values.watchNamespaces)) }}true{{ end }}
{{- end }}

{{- /* ClusterRole for the comparison of nodes. */ -}}
{{- define "epd.nodeRole" -}}
{{ printf "%s.%s.node-check" (include "epd.name" .) .Release.Namespace }}
{{- end }}

{{- /* Whether the installed Deployment runs without leader election, so that its pods would be active beside the leader: "true" or "". */ -}}
{{- define "epd.runsWithoutElection" -}}
{{- with lookup "apps/v1" "Deployment" .Release.Namespace (include "epd.name" .) }}
{{- if not (has "--leader-election" ((index .spec.template.spec.containers 0).args | default list)) }}true{{ end }}
{{- end }}
{{- end }}

{{- /* Whether a cluster-scoped object is absent or belongs to this release: "true" or "". Takes apiVersion, kind, name and root. */ -}}
{{- define "epd.isFree" -}}
{{- $found := lookup .apiVersion .kind "" .name }}
{{- if not $found }}true
{{- else }}
{{- $annotations := $found.metadata.annotations | default dict }}
{{- $release := get $annotations "meta.helm.sh/release-name" }}
{{- $namespace := get $annotations "meta.helm.sh/release-namespace" }}
{{- if and (eq $release .root.Release.Name) (eq $namespace .root.Release.Namespace) }}true{{ end }}
{{- end }}
{{- end }}

{{- /* Fails if another release of this chart owns one of these bindings. Takes items, place and root. */ -}}
{{- define "epd.refuseRival" -}}
{{- $mine := printf "%s in namespace %s" .root.Release.Name .root.Release.Namespace }}
{{- range .items }}
{{- $annotations := .metadata.annotations | default dict }}
{{- $release := printf "%s in namespace %s" (get $annotations "meta.helm.sh/release-name") (get $annotations "meta.helm.sh/release-namespace") }}
{{- $chart := get (.metadata.labels | default dict) "helm.sh/chart" | default "" }}
{{- if and (hasPrefix (printf "%s-" $.root.Chart.Name) $chart) (ne $release $mine) }}
{{- fail (printf "%s is already watched by release %s. Two operators must not watch the same namespace. Uninstall the other release, or set different watchNamespaces in each" $.place $release) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Whether this release manages a CRD: "true" or "". Takes name, mode and root. */ -}}
{{- define "epd.ownsCRD" -}}
{{- if eq .mode "Always" }}true
{{- else if eq .mode "Auto" }}
{{- include "epd.isFree" (dict "apiVersion" "apiextensions.k8s.io/v1" "kind" "CustomResourceDefinition" "name" .name "root" .root) }}
{{- end }}
{{- end }}

{{- /* Whether this release manages the role of worker pods: "true" or "". */ -}}
{{- define "epd.ownsWorkerRole" -}}
{{- if .Values.workerRole.create }}
{{- include "epd.isFree" (dict "apiVersion" "rbac.authorization.k8s.io/v1" "kind" "ClusterRole" "name" (include "epd.workerRole" .) "root" .) }}
{{- end }}
{{- end }}

{{- /* Install mode of a CRD, by its API group. */ -}}
{{- define "epd.modeOfCRD" -}}
{{ hasSuffix ".nvidia.com" .name | ternary .root.Values.crds.dynamo .root.Values.crds.install }}
{{- end }}

{{- /* Permissions of the operator in each namespace that it watches. */ -}}
{{- define "epd.rules" -}}
{{ include "epd.childRules" . }}
- apiGroups: [epd.dev]
  resources: [epddeployments]
  verbs: [get, list, watch]
- apiGroups: [epd.dev]
  resources: [epddeployments/status, epdstagescales/status]
  verbs: [patch]
# blockOwnerDeletion in owner references of children needs the right on finalizers of the owner.
- apiGroups: [epd.dev]
  resources: [epddeployments/finalizers]
  verbs: [update]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
# list: Events of pods that do not start, where the status of the pod does not say why.
- apiGroups: [""]
  resources: [events]
  verbs: [list]
# patch: the deletion cost of pods, so that the least busy ones go when a stage shrinks.
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, patch]
# With spec.verification.replaceWrongWorkers: workers that answer wrongly. The API server checks the disruption budget.
- apiGroups: [""]
  resources: [pods/eviction]
  verbs: [create]
# May hand out this one role, without having its rights.
- apiGroups: [rbac.authorization.k8s.io]
  resources: [clusterroles]
  resourceNames: [{{ include "epd.workerRole" . | quote }}]
  verbs: [bind]
{{- end }}
