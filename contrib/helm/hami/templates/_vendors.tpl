{{- /* Vendors: which ones the scheduler serves, their sections of device-config.yaml, and the resource names in those. */ -}}

{{- /* The sections of device-config.yaml, by their keys, as YAML. Every resource name is the value of a key that begins
with "resource"; "hami.resources" collects them. */ -}}
{{- define "hami.sections" -}}
{{- $v := .Values -}}
{{- $d := $v.devices -}}
amd: {{ pick $d.amd "resourceCountName" "resourceMemoryName" "resourceCoreName" | toJson }}
awsneuron: {{ pick $d.awsneuron "resourceCountName" "resourceCoreName" | toJson }}
biren:
  resourceCountName: {{ $v.birenResourceName | quote }}
cambricon:
  resourceCountName: {{ $v.mluResourceName | quote }}
  resourceMemoryName: {{ $v.mluResourceMem | quote }}
  resourceCoreName: {{ $v.mluResourceCores | quote }}
enflame:
  resourceNameGCU: {{ $d.enflame.resourceNameGCU | quote }}
  resourceNameDRSGCU: {{ $v.enflameResourceNameDRSGCU | quote }}
  resourceNameGCUMemory: {{ $v.enflameResourceNameGCUMemory | quote }}
  resourceNameGCUCore: {{ $v.enflameResourceNameGCUCore | quote }}
hygon:
  resourceCountName: {{ $v.dcuResourceName | quote }}
  resourceMemoryName: {{ $v.dcuResourceMem | quote }}
  resourceCoreName: {{ $v.dcuResourceCores | quote }}
  memoryFactor: {{ int64 $d.hygon.memoryFactor }}
iluvatars: {{ default (list) $d.iluvatar.configs | toJson }}
kunlun:
  resourceCountName: {{ $v.kunlunResourceName | quote }}
  resourceVCountName: {{ $v.kunlunResourceVCountName | quote }}
  resourceVMemoryName: {{ $v.kunlunResourceVMemoryName | quote }}
metax:
  resourceCountName: {{ $d.metax.resourceCountName | quote }}
  resourceVCountName: {{ $v.metaxResourceName | quote }}
  resourceVMemoryName: {{ $v.metaxResourceMem | quote }}
  resourceVCoreName: {{ $v.metaxResourceCore | quote }}
  sgpuTopologyAware: {{ include "hami.isTrue" $v.metaxsGPUTopologyAware | default "false" }}
mthreads:
  resourceCountName: {{ $d.mthreads.resourceCountName | quote }}
  resourceMemoryName: {{ $d.mthreads.resourceMemoryName | quote }}
  resourceCoreName: {{ $d.mthreads.resourceCoreName | quote }}
  memoryPerCard: {{ kindIs "slice" $d.mthreads.memoryPerCard | ternary $d.mthreads.memoryPerCard (list $d.mthreads.memoryPerCard) | toJson }}
nvidia:
  resourceCountName: {{ $v.resourceName | quote }}
  resourceMemoryName: {{ $v.resourceMem | quote }}
  resourceMemoryPercentageName: {{ $v.resourceMemPercentage | quote }}
  resourceCoreName: {{ $v.resourceCores | quote }}
  resourcePriorityName: {{ $v.resourcePriority | quote }}
  overwriteEnv: {{ include "hami.isTrue" $v.scheduler.overwriteEnv | default "false" }}
  defaultMemory: {{ int64 $d.nvidia.defaultMemory }}
  defaultCores: {{ int64 $d.nvidia.defaultCores }}
  defaultGPUNum: {{ int64 $d.nvidia.defaultGPUNum }}
  memoryFactor: {{ int64 $d.nvidia.memoryFactor }}
  deviceSplitCount: {{ int64 $v.devicePlugin.deviceSplitCount }}
  deviceMemoryScaling: {{ $v.devicePlugin.deviceMemoryScaling }}
  deviceCoreScaling: {{ $v.devicePlugin.deviceCoreScaling }}
  preConfiguredDeviceMemory: {{ int64 $v.devicePlugin.preConfiguredDeviceMemory }}
  libCudaLogLevel: {{ int64 $d.nvidia.libCudaLogLevel }}
  enableNumaTopology: {{ $v.devicePlugin.enableNumaTopology }}
  gpuCorePolicy: {{ $d.nvidia.gpuCorePolicy | quote }}
  migStrategy: {{ $v.devicePlugin.migStrategy | quote }}
  migProfileAllowlist: {{ default (list) $d.nvidia.migProfileAllowlist | toJson }}
  runtimeClassName: {{ $v.devicePlugin.runtimeClassName | quote }}
  disableCoreLimit: {{ include "hami.isTrue" $v.devicePlugin.disablecorelimit | default "false" }}
vastai:
  resourceCountName: {{ $v.vastaiResourceName | quote }}
vnpus:
  hamiVnpuCore: {{ include "hami.isTrue" $d.ascend.hamiVnpuCore | default "false" }}
  configs:
  {{- $ofAll := dict "runtimeClassName" $d.ascend.runtimeClassName "overwriteEnv" (eq (toString $v.scheduler.overwriteEnv) "true") }}
  {{- range $d.ascend.configs }}
    - {{ merge (dict) . $ofAll | toJson }}
  {{- end }}
{{- end -}}

{{- /* The vendor whose section of device-config.yaml is given. */ -}}
{{- define "hami.vendorOf" -}}
{{- get (dict "iluvatars" "iluvatar" "vnpus" "ascend") . | default . -}}
{{- end -}}

{{- /* Vendors that the scheduler serves, comma-separated; its image must hold their packages. */ -}}
{{- define "hami.vendors" -}}
{{- $names := list "nvidia" -}}
{{- range .Files.Get "files/vendors.json" | fromJsonArray -}}
{{- if dig . "enabled" false $.Values.devices -}}
{{- $names = append $names . -}}
{{- end -}}
{{- end -}}
{{- range .Values.agents -}}
{{- $names = append $names .vendor -}}
{{- end -}}
{{- concat $names (default (list) .Values.scheduler.vendorPackages) | uniq | join "," -}}
{{- end -}}

{{- /* JSON list (valid CEL, too) of all resource names that we manage: those of served vendors, and those of vendors
that the values switch on but no package serves. The scheduler refuses pods that request the latter. */ -}}
{{- define "hami.resources" -}}
{{- $managed := include "hami.vendors" . | splitList "," -}}
{{- $names := list -}}
{{- range $name, $vendor := .Values.devices -}}
{{- if kindIs "map" $vendor -}}
{{- if get $vendor "enabled" -}}
{{- $managed = append $managed $name -}}
{{- end -}}
{{- if has $name $managed -}}
{{- $names = concat $names (default (list) (get $vendor "customresources")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $section, $content := include "hami.sections" . | fromYaml -}}
{{- if has (include "hami.vendorOf" $section) $managed -}}
{{- $parts := kindIs "slice" $content | ternary $content (list $content) -}}
{{- range concat $parts (dig "configs" (list) (first $parts | default (dict)) | default (list)) -}}
{{- range $key, $value := . -}}
{{- if hasPrefix "resource" $key -}}
{{- $names = append $names $value -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range .Values.agents -}}
{{- $names = concat $names .resourceNames -}}
{{- end -}}
{{- concat $names (default (list) .Values.devices.customresources) | compact | uniq | toJson -}}
{{- end -}}
