{{- define "janus.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "janus.fullname" -}}
{{- $name := include "janus.name" . -}}
{{- $of := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- .Values.fullnameOverride | default $of | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Of objects of the whole cluster: releases of one name may stand in several namespaces. */}}
{{- define "janus.clustername" -}}
{{- printf "%s:%s" .Release.Namespace (include "janus.fullname" .) -}}
{{- end -}}

{{- define "janus.account" -}}
{{- .Values.serviceAccount.name | default (ternary (include "janus.fullname" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{- define "janus.selector" -}}
app.kubernetes.io/name: {{ include "janus.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Without versions: an upgrade that changes nothing else of a pod restarts none. */}}
{{- define "janus.podlabels" -}}
{{ include "janus.selector" . }}
app.kubernetes.io/component: operator
app.kubernetes.io/part-of: janus
{{- end -}}

{{- define "janus.ownlabels" -}}
{{ include "janus.podlabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* Of every object: commonLabels do not replace the chart's own. */}}
{{- define "janus.labels" -}}
{{- mergeOverwrite (deepCopy .Values.commonLabels) (include "janus.ownlabels" . | fromYaml) | toYaml -}}
{{- end -}}

{{/* Of a hook's pods, which are no operators: no selector of the operator finds them. {root, name}. */}}
{{- define "janus.hooklabels" -}}
{{- $own := dict "app.kubernetes.io/name" (printf "%s-%s" (include "janus.name" .root) .name) "app.kubernetes.io/instance" .root.Release.Name "app.kubernetes.io/part-of" "janus" -}}
{{- mergeOverwrite (deepCopy .root.Values.commonLabels) $own | toYaml -}}
{{- end -}}

{{/* The namespaces whose services are kept, with commas between them; empty: all. */}}
{{- define "janus.watched" -}}
{{- if .Values.namespaced -}}
{{- if not (has (join "," .Values.watchNamespaces) (list "" .Release.Namespace)) -}}
{{- fail (printf "namespaced watches the release's namespace %s; watchNamespaces asks for %s: set one of the two" .Release.Namespace (join "," .Values.watchNamespaces)) -}}
{{- end -}}
{{- .Release.Namespace -}}
{{- else -}}
{{- join "," .Values.watchNamespaces -}}
{{- end -}}
{{- end -}}

{{/* References to Secrets; global.imagePullSecrets has names, objects with names, or both. */}}
{{- define "janus.pullsecrets" -}}
{{- with .Values.global.imagePullSecrets -}}
imagePullSecrets:
  {{- range . }}
  - name: {{ if kindIs "string" . }}{{ . }}{{ else }}{{ .name }}{{ end }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* A reference. {image, root}. */}}
{{- define "janus.image" -}}
{{- $image := .image -}}
{{- $registry := $image.registry | default .root.Values.global.imageRegistry -}}
{{- if and (not $registry) (ne .root.Values.image.pullPolicy "Never") -}}
{{- fail "No registry is set, and there is no default: set global.imageRegistry to where you pushed the images, or image.pullPolicy to Never where every node has them." -}}
{{- end -}}
{{- with $registry -}}{{ trimSuffix "/" . }}/{{- end -}}
{{- $image.repository -}}
{{- if $image.digest -}}@{{ $image.digest }}{{- else -}}:{{ $image.tag | default .root.Chart.AppVersion }}{{- end -}}
{{- end -}}
