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

{{- /* Resource names as JSON: "counts" are advertised by a node plugin, "amounts" by nobody. */ -}}
{{- define "hami.resources" -}}
{{- $v := .Values -}}
{{- $counts := list $v.resourceName -}}
{{- $amounts := list $v.resourceMem $v.resourceMemPercentage $v.resourceCores $v.resourcePriority -}}
{{- if $v.devices.cambricon.enabled -}}
{{- $counts = append $counts $v.mluResourceName -}}
{{- $amounts = concat $amounts (list $v.mluResourceMem $v.mluResourceCores) -}}
{{- end -}}
{{- if $v.devices.hygon.enabled -}}
{{- $counts = append $counts $v.dcuResourceName -}}
{{- $amounts = concat $amounts (list $v.dcuResourceMem $v.dcuResourceCores) -}}
{{- end -}}
{{- if $v.devices.metax.enabled -}}
{{- $counts = append $counts $v.metaxResourceName -}}
{{- $amounts = concat $amounts (list $v.metaxResourceCore $v.metaxResourceMem) -}}
{{- end -}}
{{- $custom := $v.devices.customresources -}}
{{- range $name, $vendor := $v.devices -}}
{{- if kindIs "map" $vendor -}}
{{- if and (get $vendor "enabled") (get $vendor "customresources") -}}
{{- range get $vendor "customresources" -}}
{{- if and (eq $name "ascend") (not (regexMatch "-(memory|core)$" .)) -}}
{{- $counts = append $counts . -}}
{{- else -}}
{{- $custom = append $custom . -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $v.devices.enflame.enabled -}}
{{- $custom = concat $custom (list $v.enflameResourceNameDRSGCU $v.enflameResourceNameGCUMemory $v.enflameResourceNameGCUCore) -}}
{{- end -}}
{{- if $v.devices.kunlun.enabled -}}
{{- $custom = concat $custom (list $v.kunlunResourceName $v.kunlunResourceVCountName $v.kunlunResourceVMemoryName) -}}
{{- end -}}
{{- if $v.devices.vastai.enabled -}}
{{- $custom = append $custom $v.vastaiResourceName -}}
{{- end -}}
{{- if $v.devices.biren.enabled -}}
{{- $custom = append $custom $v.birenResourceName -}}
{{- end -}}
{{- $counts = $counts | compact | uniq -}}
{{- dict "counts" $counts "amounts" (concat $amounts $custom | compact | uniq) | toJson -}}
{{- end -}}

{{- /* A CEL list of all resource names. */ -}}
{{- define "hami.resourceList" -}}
{{- $resources := include "hami.resources" . | fromJson -}}
{{- concat $resources.counts $resources.amounts | uniq | toJson -}}
{{- end -}}

{{- define "hami.metricsPort" -}}
{{- .Values.scheduler.metricsBindAddress | splitList ":" | last -}}
{{- end -}}

{{- /* Whether a vendor is served whose own node plugin waits for a lock on the node. */ -}}
{{- define "hami.needsNodeLock" -}}
{{- if ne (include "hami.vendors" .) "nvidia" -}}true{{- end -}}
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
