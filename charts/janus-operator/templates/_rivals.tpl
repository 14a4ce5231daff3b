{{/* Refuses a release beside another one that watches a namespace of this one: both would write the same objects. Offline, `lookup`
finds nothing. A namespaced release may be installed by a user without rights elsewhere, so it looks only at its own namespace; operators
find the others themselves (AnotherOperator). */}}
{{- define "janus.norivals" -}}
{{- $root := . -}}
{{- $mine := compact (splitList "," (include "janus.watched" .)) -}}
{{- range (lookup "apps/v1" "Deployment" (ternary .Release.Namespace "" .Values.namespaced) "").items -}}
{{- $labels := .metadata.labels | default dict -}}
{{- $is_operator := and (eq (get $labels "app.kubernetes.io/part-of") "janus") (eq (get $labels "app.kubernetes.io/component") "operator") -}}
{{- $is_own := and (eq .metadata.namespace $root.Release.Namespace) (eq (get $labels "app.kubernetes.io/instance") $root.Release.Name) -}}
{{- if and $is_operator (not $is_own) -}}
{{- $theirs := list -}}
{{- range (first .spec.template.spec.containers).args -}}
{{- if hasPrefix "--watch-namespace=" . -}}
{{- $theirs = splitList "," (trimPrefix "--watch-namespace=" .) -}}
{{- end -}}
{{- end -}}
{{- $both := list -}}
{{- range $mine -}}
{{- if or (not $theirs) (has . $theirs) -}}{{- $both = append $both . -}}{{- end -}}
{{- end -}}
{{- if not $mine -}}{{- $both = $theirs | default (list "all namespaces") -}}{{- end -}}
{{- if $both -}}
{{- fail (printf "the release %s in namespace %s serves %s already, and two operators would undo each other's writes. Uninstall it, or give the two different namespaces (watchNamespaces or namespaced)" (get $labels "app.kubernetes.io/instance") .metadata.namespace (join ", " $both)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
