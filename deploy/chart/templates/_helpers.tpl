{{- define "lapse.image" -}}
{{- $image := $.Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "lapse.run.name" -}}
{{- $.Values.run.name | default (printf "%s-%d" (trunc 45 $.Release.Name | trimSuffix "-" | replace "." "-") $.Release.Revision) -}}
{{- end }}

{{- define "lapse.run.serviceAccount" -}}
{{- $.Values.run.serviceAccount | default (include "lapse.run.name" $) -}}
{{- end }}

{{- define "lapse.run.args" }}
{{- include "lapse.run.targets" $ }}
- {{ printf "--duration=%s" $.Values.run.duration | quote }}
{{- with $.Values.run.from }}
- {{ printf "--from=%s" (include "lapse.run.from" .) | quote }}
{{- end }}
{{- range $.Values.run.failIf }}
- {{ printf "--fail-if=%s" . | quote }}
{{- end }}
{{- end }}

{{- /* What `helm test` measures: a few requests, without gates. */}}
{{- define "lapse.run.testArgs" }}
{{- include "lapse.run.targets" $ }}
- --duration=3s
- --rate=10
- --min-coverage=1%
{{- end }}

{{- define "lapse.run.targets" }}
{{- range concat $.Values.run.targets $.Values.run.flags }}
- {{ . | quote }}
{{- end }}
{{- range $.Values.run.headersFrom }}
- {{ printf "--header-from=secret/%s" . | quote }}
{{- end }}
{{- with $.Values.run.echoFrom }}
- {{ printf "--echo-from=secret/%s" . | quote }}
{{- end }}
{{- end }}

{{- define "lapse.run.from" -}}
{{- if .all -}}
all
{{- else if .nodes -}}
{{ join "," .nodes }}
{{- else -}}
{{- range $i, $label := keys .labels | sortAlpha }}{{ if $i }},{{ end }}{{ $label }}={{ get $.labels $label }}{{ end -}}
{{- end -}}
{{- end }}
