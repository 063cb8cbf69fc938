{{- /* Names. They are HAMi's, so that an upgrade finds what it replaces. */ -}}
{{- define "hami.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "hami.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "hami.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "hami.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{- define "hami.scheduler" -}}
{{- printf "%s-scheduler" (include "hami.fullname" .) -}}
{{- end -}}

{{- define "hami.agent" -}}
{{- printf "%s-device-plugin" (include "hami.fullname" .) -}}
{{- end -}}

{{- define "hami.webhook" -}}
{{- printf "%s-webhook" (include "hami.fullname" .) -}}
{{- end -}}

{{- define "hami.tlsSecret" -}}
{{- printf "%s-scheduler-tls" (include "hami.fullname" .) -}}
{{- end -}}

{{- define "hami.signingSecret" -}}
{{- printf "%s-scheduler-signing" (include "hami.fullname" .) -}}
{{- end -}}

{{- define "hami.signingKeys" -}}
{{- printf "%s-signing-keys" (include "hami.fullname" .) -}}
{{- end -}}

{{- define "hami.deviceConfig" -}}
{{- printf "%s-scheduler-device" (include "hami.fullname" .) -}}
{{- end -}}

{{- define "hami.schedulerServiceAccount" -}}
{{- default (include "hami.scheduler" .) .Values.scheduler.serviceAccountName -}}
{{- end -}}

{{- define "hami.agentServiceAccount" -}}
{{- default (include "hami.agent" .) .Values.devicePlugin.serviceAccountName -}}
{{- end -}}

{{- define "hami.selectorLabels" -}}
app.kubernetes.io/name: {{ include "hami.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "hami.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "hami.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- /* Whether a value is true; HAMi has some as text. */ -}}
{{- define "hami.isTrue" -}}
{{- if eq (toString .) "true" -}}true{{- end -}}
{{- end -}}

{{- /* An image: dict "root" $ "image" .Values…image "tag" default. */ -}}
{{- define "hami.image" -}}
{{- $registry := default .image.registry .root.Values.global.imageRegistry -}}
{{- $tag := default .tag .image.tag -}}
{{- if $registry -}}
{{- printf "%s/%s:%s" $registry .image.repository $tag -}}
{{- else -}}
{{- printf "%s:%s" .image.repository $tag -}}
{{- end -}}
{{- end -}}

{{- define "hami.tag" -}}
{{- default .Chart.AppVersion .Values.global.imageTag -}}
{{- end -}}

{{- /* The cluster's version without a distribution's suffix: kube-scheduler's tag. */ -}}
{{- define "hami.kubeTag" -}}
{{- regexReplaceAll "[-+].*" .Capabilities.KubeVersion.Version "" -}}
{{- end -}}

{{- /* Pull secrets: dict "root" $ "images" (list of image values); each name once. */ -}}
{{- define "hami.pullSecrets" -}}
{{- $names := list -}}
{{- $given := .root.Values.global.imagePullSecrets -}}
{{- range .images -}}
{{- $given = concat $given .pullSecrets -}}
{{- end -}}
{{- range $given -}}
{{- if kindIs "map" . -}}
{{- $names = append $names .name -}}
{{- else -}}
{{- $names = append $names . -}}
{{- end -}}
{{- end -}}
{{- if $names -}}
imagePullSecrets:
{{- range $names | uniq }}
  - name: {{ . }}
{{- end }}
{{- end -}}
{{- end -}}

{{- /* Vendors the scheduler serves, comma-separated. */ -}}
{{- define "hami.vendors" -}}
{{- $names := list "nvidia" -}}
{{- range $name, $vendor := .Values.devices -}}
{{- if and (kindIs "map" $vendor) (ne $name "nvidia") (get $vendor "enabled") -}}
{{- $names = append $names $name -}}
{{- end -}}
{{- end -}}
{{- join "," $names -}}
{{- end -}}

{{- /* All resource names we manage, as a JSON list, which is CEL's too. */ -}}
{{- define "hami.resources" -}}
{{- $v := .Values -}}
{{- $names := list $v.resourceName $v.resourceMem $v.resourceMemPercentage $v.resourceCores $v.resourcePriority -}}
{{- if $v.devices.cambricon.enabled -}}
{{- $names = concat $names (list $v.mluResourceName $v.mluResourceMem $v.mluResourceCores) -}}
{{- end -}}
{{- if $v.devices.hygon.enabled -}}
{{- $names = concat $names (list $v.dcuResourceName $v.dcuResourceMem $v.dcuResourceCores) -}}
{{- end -}}
{{- if $v.devices.metax.enabled -}}
{{- $names = concat $names (list $v.metaxResourceName $v.metaxResourceCore $v.metaxResourceMem) -}}
{{- end -}}
{{- if $v.devices.enflame.enabled -}}
{{- $names = concat $names (list $v.enflameResourceNameDRSGCU $v.enflameResourceNameGCUMemory $v.enflameResourceNameGCUCore) -}}
{{- end -}}
{{- if $v.devices.kunlun.enabled -}}
{{- $names = concat $names (list $v.kunlunResourceName $v.kunlunResourceVCountName $v.kunlunResourceVMemoryName) -}}
{{- end -}}
{{- if $v.devices.vastai.enabled -}}
{{- $names = append $names $v.vastaiResourceName -}}
{{- end -}}
{{- if $v.devices.biren.enabled -}}
{{- $names = append $names $v.birenResourceName -}}
{{- end -}}
{{- range $_, $vendor := $v.devices -}}
{{- if kindIs "map" $vendor -}}
{{- if get $vendor "enabled" -}}
{{- $names = concat $names (default (list) (get $vendor "customresources")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- concat $names (default (list) $v.devices.customresources) | compact | uniq | toJson -}}
{{- end -}}

{{- define "hami.metricsPort" -}}
{{- .Values.scheduler.metricsBindAddress | splitList ":" | last -}}
{{- end -}}

{{- /* Labels of the nodes HAMi manages, as JSON. */ -}}
{{- define "hami.managedNodes" -}}
{{- .Values.global.managedNodeSelectorEnable | ternary .Values.global.managedNodeSelector (dict) | toJson -}}
{{- end -}}

{{- /* A container's security context; Kubernetes refuses limits on what is privileged. */ -}}
{{- define "hami.securityContext" -}}
{{- if dig "privileged" false . -}}
{{- omit . "allowPrivilegeEscalation" "capabilities" "seccompProfile" | toYaml -}}
{{- else -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}
