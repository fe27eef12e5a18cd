{{- /*
Names of the cluster-scoped objects. If the release watches only some namespaces, they contain the namespace of the
release, so that releases of the same name in two namespaces do not conflict. Takes root and kind.
*/ -}}
{{- define "epd.admission.name" -}}
{{ include "epd.name" .root }}{{ if .root.Values.watchNamespaces }}-{{ .root.Release.Namespace }}{{ end }}-{{ .kind }}
{{- end }}

{{- /* Which requests a policy checks. */ -}}
{{- define "epd.admission.scope" -}}
# If an expression fails, the request is accepted. The operator reports invalid specs as a condition, with or without
# policies.
failurePolicy: Ignore
matchConstraints:
  resourceRules:
  - apiGroups: [epd.dev]
    apiVersions: [v1alpha1]
    resources: [epddeployments]   # without /status: the operator's own writes are not checked
    operations: [CREATE, UPDATE]
matchConditions:
- name: is-not-being-deleted
  expression: "!has(object.metadata.deletionTimestamp)"
- name: spec-is-new
  expression: request.operation == 'CREATE' || object.spec != oldObject.spec
{{- end }}

{{- /* The binding of a policy. Takes root, kind and action. */ -}}
{{- define "epd.admission.binding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ include "epd.admission.name" . | quote }}
  labels: {{- include "epd.labels" .root | nindent 4 }}
spec:
  policyName: {{ include "epd.admission.name" . | quote }}
  validationActions: [{{ .action }}]
  {{- with .root.Values.watchNamespaces }}
  matchResources:
    namespaceSelector:
      matchExpressions:
      - {key: kubernetes.io/metadata.name, operator: In, values: {{ toJson . }}}
  {{- end }}
{{- end }}
