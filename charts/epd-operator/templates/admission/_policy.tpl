{{- /*
Names of the cluster-scoped objects. A release that watches only some namespaces has its own namespace in them, so that
releases of one name in two namespaces do not meet. Takes root and kind.
*/ -}}
{{- define "epd.admission.name" -}}
{{ include "epd.name" .root }}{{ if .root.Values.watchNamespaces }}-{{ .root.Release.Namespace }}{{ end }}-{{ .kind }}
{{- end }}

{{- /* Which requests a policy looks at. */ -}}
{{- define "epd.admission.scope" -}}
# What a broken rule would let through is reported by the operator as a condition, as it is without any policy. So an
# expression that fails never locks anybody out.
failurePolicy: Ignore
matchConstraints:
  resourceRules:
  - apiGroups: [epd.dev]
    apiVersions: [v1alpha1]
    resources: [epddeployments]   # without /status: what the operator writes is not looked at
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
