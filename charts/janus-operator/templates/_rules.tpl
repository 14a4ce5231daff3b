{{/* What the operator does in the namespaces that it watches, and no more; e2e/chart compares it with what
the API server's audit log says it did. `create` beside `patch`: what is applied may not be there yet. */}}
{{- define "janus.rules" -}}
- apiGroups: [serving.janus.dev]
  resources: [moeservices]
  verbs: [list, watch]
- apiGroups: [serving.janus.dev]
  resources: [moeservices/status]
  verbs: [update]
- apiGroups: [serving.janus.dev]
  resources: [moetopologies]
  verbs: [get, list, watch, create, update, delete]
- apiGroups: [serving.janus.dev]
  resources: [moetopologies/status]
  verbs: [update]
- apiGroups: [serving.janus.dev]
  resources: [moerolescalers]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [serving.janus.dev]
  resources: [moerolescalers/status]
  verbs: [update]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [get, list, watch, create, patch]
# Written, never read.
- apiGroups: [""]
  resources: [secrets]
  verbs: [create, patch]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, delete]
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [list, watch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{/* Nodes are in no namespace. The status of a namespace that is being deleted gets a condition when its last pod has
gone; its controller then looks again. */}}
{{- define "janus.noderules" -}}
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [namespaces/status]
  verbs: [patch]
- apiGroups: [serving.janus.dev]
  resources: [hardwareprofiles]
  verbs: [list, watch]
{{- end -}}

{{/* For metrics.authentication: who sends this token, and may it get /metrics? */}}
{{- define "janus.reviewrules" -}}
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- end -}}

{{- define "janus.subjects" -}}
- kind: ServiceAccount
  name: {{ include "janus.account" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}
