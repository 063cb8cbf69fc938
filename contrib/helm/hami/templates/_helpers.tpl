{{- /* Object names. They are HAMi's names, so that an upgrade from HAMi replaces its objects. */ -}}
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

{{- define "hami.mps" -}}
{{- printf "%s-nvidia-mps" (include "hami.fullname" .) -}}
{{- end -}}

{{- define "hami.agentServiceAccount" -}}
{{- default (include "hami.agent" .) .Values.devicePlugin.serviceAccountName -}}
{{- end -}}

{{- /* JSON list of all node agents, NVIDIA's first: name of its objects, its component, its ServiceAccount. */ -}}
{{- define "hami.agents" -}}
{{- $root := . -}}
{{- $d := .Values.devicePlugin -}}
{{- $found := list -}}
{{- $taken := list -}}
{{- if $d.enabled -}}
{{- $found = append $found (dict "object" (include "hami.agent" .) "component" "hami-device-plugin" "account" (include "hami.agentServiceAccount" .) "isMade" (not $d.serviceAccountName) "hostNetwork" $d.hostNetwork) -}}
{{- end -}}
{{- range .Values.agents -}}
{{- if has .name $taken -}}
{{- fail (printf "agents: two entries are named %s; give each its own name" .name) -}}
{{- end -}}
{{- if and $d.enabled (eq .vendor "nvidia") -}}
{{- fail (printf "agents: %s: vendor nvidia is served by devicePlugin; set devicePlugin.enabled to false or leave the entry out" .name) -}}
{{- end -}}
{{- $taken = append $taken .name -}}
{{- $object := include "hami.agentOf" (dict "root" $root "name" .name) -}}
{{- $found = append $found (dict "object" $object "component" (printf "hami-agent-%s" .name) "account" $object "isMade" true "hostNetwork" false) -}}
{{- end -}}
{{- $found | toJson -}}
{{- end -}}

{{- /* Name of the objects of an entry of agents: dict "root" $ "name" its name. */ -}}
{{- define "hami.agentOf" -}}
{{- printf "%s-agent-%s" (include "hami.fullname" .root | trunc 32 | trimSuffix "-") .name -}}
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

{{- /* Whether a value is true; some of HAMi's values are text. */ -}}
{{- define "hami.isTrue" -}}
{{- if eq (toString .) "true" -}}true{{- end -}}
{{- end -}}

{{- /* An image: dict "root" $ "image" .Values…image "tag" default. */ -}}
{{- define "hami.image" -}}
{{- $registry := default .image.registry .root.Values.global.imageRegistry -}}
{{- $tag := default .tag .image.tag -}}
{{- if $registry -}}
{{- printf "%s/%s:%s" $registry .image.repository $tag -}}
{{- else if hasPrefix "hami/" .image.repository -}}
{{- fail (printf "image %s has no registry, and the project publishes no images: build and push it (docs/how-to/images.md), then set global.imageRegistry for every image or registry beside its repository, such as --set global.imageRegistry=registry.example" .image.repository) -}}
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

{{- /* Whether NVIDIA's agent may change what the driver gives to others: it is privileged, or has SYS_ADMIN. */ -}}
{{- define "hami.isAdministrator" -}}
{{- $context := default (dict) .Values.devicePlugin.securityContext -}}
{{- $added := default (list) (dig "capabilities" "add" (list) $context) -}}
{{- if or (dig "privileged" false $context) (has "SYS_ADMIN" $added) (has "CAP_SYS_ADMIN" $added) (has "ALL" $added) -}}
true
{{- end -}}
{{- end -}}

{{- /* Warnings about values that the release does not follow, one line each. */ -}}
{{- define "hami.warnings" -}}
{{- if and .Values.devices.customresources (not .Values.scheduler.vendorPackages) (not .Values.agents) }}
devices.customresources: no further vendor is served, so pods that request them are refused (add the vendor's name to scheduler.vendorPackages)
{{- end -}}
{{- $image := .Values.scheduler.extender.image -}}
{{- $isOurs := and (eq $image.repository "hami/scheduler") (not $image.tag) -}}
{{- range .Values.agents -}}
{{- if and $isOurs (not (has .vendor ($.Files.Get "files/vendors.json" | fromJsonArray))) }}
agents: {{ .name }}: the image hami/scheduler does not hold the package of vendor {{ .vendor }}, so the scheduler does not start (set scheduler.extender.image to an image that holds it)
{{- end -}}
{{- end -}}
{{- $d := .Values.devicePlugin -}}
{{- if and $d.enabled $d.nvidiaDriverRoot (not $d.runtimeClassName) (not (dig "privileged" false (default (dict) $d.securityContext))) }}
devicePlugin.nvidiaDriverRoot: unless NVIDIA's runtime is the nodes' default, the agent finds no cards (set devicePlugin.securityContext.privileged to true, or devicePlugin.runtimeClassName)
{{- end -}}
{{- $makes := regexMatch "(?i)\"operatingmode\"\\s*:\\s*\"mig\"" (default "" $d.nodeConfiguration.config) -}}
{{- $makes = or $makes (eq "mig" (dig "HAMI_NVIDIA_OPERATING_MODE" "" (default (dict) $d.extraEnvs) | toString)) -}}
{{- if and $d.enabled $makes (not (include "hami.isAdministrator" .)) }}
devicePlugin: on nodes with operatingmode mig the agent can't make MIG instances without SYS_ADMIN (add SYS_ADMIN to devicePlugin.securityContext.capabilities.add)
{{- end -}}
{{- $offers := regexMatch "(?i)\"migstrategy\"\\s*:\\s*\"(single|mixed)\"" (default "" $d.nodeConfiguration.config) -}}
{{- $offers = or $offers (has $d.migStrategy (list "single" "mixed")) -}}
{{- if and $d.enabled $offers (not $makes) (not (include "hami.isAdministrator" .)) }}
devicePlugin.migStrategy: NVML tells an administrator's MIG instances only to an agent with SYS_ADMIN (add SYS_ADMIN to devicePlugin.securityContext.capabilities.add)
{{- end -}}
{{- if and $d.enabled $d.driverLimits (not (include "hami.isAdministrator" .)) }}
devicePlugin.driverLimits: the driver takes limits only from an agent with SYS_ADMIN (add SYS_ADMIN to devicePlugin.securityContext.capabilities.add)
{{- end -}}
{{- if and .Values.platform.openshift (not .Values.selinux.enabled) }}
platform.openshift: OpenShift's nodes run SELinux, under which containers can't read their limits (set selinux.enabled to true)
{{- end -}}
{{- range .Values.taken.replaced }}
{{ . }}
{{- end -}}
{{- with .Values.taken.moved }}
Keys with a new name: {{ join ", " . }}
{{- end -}}
{{- with .Values.taken.ignored }}
Ignored keys: {{ join ", " . }} (the chart's reference page names what replaces each)
{{- end -}}
{{- include "hami.installWarnings" . -}}
{{- end -}}

{{- /* Whether the cluster serves a kind of the Prometheus operator: dict "root" $ "kind" its name. If only the API's
group and version are known, it serves all of them. */ -}}
{{- define "hami.monitors" -}}
{{- $api := "monitoring.coreos.com/v1" -}}
{{- $served := .root.Capabilities.APIVersions -}}
{{- $namesKinds := contains (printf " %s/" $api) (printf " %s" (join " " $served)) -}}
{{- if or ($served.Has (printf "%s/%s" $api .kind)) (and ($served.Has $api) (not $namesKinds)) -}}
true
{{- end -}}
{{- end -}}

{{- /* Warnings about objects whose kinds the cluster lacks, and about protection that the values switch off. */ -}}
{{- define "hami.installWarnings" -}}
{{- $prometheus := .Values.prometheus -}}
{{- range $key, $wanted := dict "prometheus.enabled" (dict "is" $prometheus.enabled "kind" "ServiceMonitor") "prometheus.alerts.enabled" (dict "is" $prometheus.alerts.enabled "kind" "PrometheusRule") -}}
{{- if and $wanted.is (not (include "hami.monitors" (dict "root" $ "kind" $wanted.kind))) }}
{{ $key }}: the cluster has no CRD for {{ $wanted.kind }}, so none is created (install the Prometheus operator's CRDs, then upgrade; for helm template and hami manifests add --api-versions monitoring.coreos.com/v1/{{ $wanted.kind }})
{{- end -}}
{{- end -}}
{{- $webhook := .Values.scheduler.admissionWebhook -}}
{{- if and $webhook.enabled (eq $webhook.failurePolicy "Ignore") }}
scheduler.admissionWebhook.failurePolicy: Ignore: while the webhook is away, pods with devices reach other schedulers unchecked (set Fail)
{{- end -}}
{{- end -}}

{{- /* Refuse to replace HAMi's workloads, which have the same names and selectors. Ours are known by their flags about
signatures, which HAMi lacks. Only helm install and upgrade see the cluster. */ -}}
{{- define "hami.guard" -}}
{{- $namespace := include "hami.namespace" . -}}
{{- $ours := dict "Deployment" (include "hami.scheduler" .) -}}
{{- if .Values.devicePlugin.enabled -}}
{{- $_ := set $ours "DaemonSet" (include "hami.agent" .) -}}
{{- end -}}
{{- range $kind, $name := $ours -}}
{{- $found := lookup "apps/v1" $kind $namespace $name -}}
{{- if and $found (not (contains "--signing-" (toJson $found))) -}}
{{- fail (printf "%s %s/%s is not this chart's, and HAMi's has that name. Do not upgrade HAMi's release in place: stop and uninstall it, then install this chart with devicePlugin.mode=adopt (docs/how-to/migrate-from-hami.md)" $kind $namespace $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "hami.metricsPort" -}}
{{- .Values.scheduler.metricsBindAddress | splitList ":" | last -}}
{{- end -}}

{{- /* Labels of the nodes that HAMi manages, as JSON. */ -}}
{{- define "hami.managedNodes" -}}
{{- .Values.global.managedNodeSelectorEnable | ternary .Values.global.managedNodeSelector (dict) | toJson -}}
{{- end -}}

{{- /* A container's security context. Kubernetes refuses some fields for privileged containers. */ -}}
{{- define "hami.securityContext" -}}
{{- if dig "privileged" false . -}}
{{- omit . "allowPrivilegeEscalation" "capabilities" "seccompProfile" | toYaml -}}
{{- else -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

{{- /* An agent's security context: dict "root" $ "context" the one of the values. With SELinux, only spc_t may write the
state folder and label files there. */ -}}
{{- define "hami.agentSecurityContext" -}}
{{- $selinux := .root.Values.selinux -}}
{{- $own := ternary (dict "seLinuxOptions" (dict "type" "spc_t" "level" $selinux.level)) (dict) $selinux.enabled -}}
{{- with merge (dict) (default (dict) .context) $own -}}
{{- include "hami.securityContext" . -}}
{{- end -}}
{{- end -}}

{{- define "hami.selinuxArguments" -}}
{{- with .Values.selinux -}}
{{- if .enabled -}}
- --selinux-type={{ .type }}
- --selinux-level={{ .level }}
{{- end -}}
{{- end -}}
{{- end -}}
