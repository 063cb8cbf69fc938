{{- /* Values written for HAMi's charts. Every template includes "hami.values" before it reads a value. The first call
moves the values of former keys to the keys that replace them (files/hami-keys.json) and refuses values that the
processes could not start with. It keeps what it did in .Values.taken, a key that values files can't have:
moved (sentences), ignored (keys) and replaced (sentences). "hami.warnings" reports them. */ -}}
{{- define "hami.values" -}}
{{- if not (hasKey .Values "taken") -}}
{{- $keys := .Files.Get "files/hami-keys.json" | fromJson -}}
{{- $taken := dict "moved" list "ignored" list "replaced" list -}}
{{- $_ := set .Values "taken" $taken -}}
{{- $here := dict "values" .Values "taken" $taken "keys" $keys -}}
{{- include "hami.takeImages" $here -}}
{{- include "hami.takeMoved" $here -}}
{{- include "hami.takeIgnored" $here -}}
{{- include "hami.takeReplaced" $here -}}
{{- include "hami.takeAgents" .Values -}}
{{- with include "hami.refusals" . | trim -}}
{{- fail (. | splitList "\n" | join "; ") -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Append the agents of devices.<vendor>.agent to the list agents. Only .Values is given. */ -}}
{{- define "hami.takeAgents" -}}
{{- $v := . -}}
{{- range $vendor := list "ascend" "cambricon" -}}
{{- $device := get $v.devices $vendor -}}
{{- if $device.agent.enabled -}}
{{- if not $device.enabled -}}
{{- fail (printf "devices.%s.agent.enabled: devices.%s.enabled is false, so no pod could request the devices; set it to true" $vendor $vendor) -}}
{{- end -}}
{{- $entry := merge (dict "name" $vendor "vendor" $vendor "resourceNames" list) (omit $device.agent "enabled") -}}
{{- $_ := set $v "agents" (append $v.agents $entry) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The value of a key with dots, as JSON {"value": …}; {} if there is none or null. dict "values" "key". */ -}}
{{- define "hami.valueOf" -}}
{{- $box := dict "value" .values -}}
{{- range splitList "." .key -}}
{{- $above := get $box "value" -}}
{{- $box = dict -}}
{{- if kindIs "map" $above -}}
{{- if not (kindIs "invalid" (index $above .)) -}}
{{- $box = dict "value" (index $above .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $box | toJson -}}
{{- end -}}

{{- /* Set a key with dots: dict "values" "key" "value". */ -}}
{{- define "hami.put" -}}
{{- $parts := splitList "." .key -}}
{{- $above := .values -}}
{{- range initial $parts -}}
{{- $above = index $above . -}}
{{- end -}}
{{- $_ := set $above (last $parts) .value -}}
{{- end -}}

{{- /* true if a value says nothing beyond another: dict "given" "default". A mapping may lack keys of the other. */ -}}
{{- define "hami.isWithin" -}}
{{- if has (toJson .given) (list "{}" "[]" "null" "\"\"" (toJson .default)) -}}
true
{{- else if and (kindIs "map" .given) (kindIs "map" .default) -}}
{{- $found := list -}}
{{- range $key, $value := .given -}}
{{- $found = append $found (include "hami.isWithin" (dict "given" $value "default" (index $.default $key))) -}}
{{- end -}}
{{- if not (has "" $found) -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Up to HAMi 2.6, an image is one text, and its tag another value. HAMi's own images can't run this chart's
commands: where the values only repeat HAMi's defaults, ours take their place. */ -}}
{{- define "hami.takeImages" -}}
{{- range $key, $default := .keys.images -}}
{{- $image := get (include "hami.valueOf" (dict "values" $.values "key" $key) | fromJson) "value" -}}
{{- $isOurs := ne $key "scheduler.kubeScheduler.image" -}}
{{- if and (kindIs "string" $image) (not $isOurs) -}}
{{- $host := regexFind "^[^/]*[.:][^/]*/" $image -}}
{{- $new := dict "registry" (trimSuffix "/" $host) "repository" (trimPrefix $host $image) -}}
{{- include "hami.put" (dict "values" $.values "key" $key "value" (merge $new $default)) -}}
{{- else if $isOurs -}}
{{- $isText := kindIs "string" $image -}}
{{- $image = $isText | ternary (dict "repository" (trimPrefix "docker.io/" (toString $image))) $image -}}
{{- $registry := dig "registry" "" $image -}}
{{- $tag := dig "tag" "" $image -}}
{{- $name := list $registry $image.repository | compact | join "/" -}}
{{- if and (eq $image.repository "projecthami/hami") (has $registry (list "" "docker.io")) (not $tag) -}}
{{- $new := merge (pick $image "pullPolicy" "pullSecrets") $default -}}
{{- include "hami.put" (dict "values" $.values "key" $key "value" $new) -}}
{{- $_ := set $.taken "replaced" (append $.taken.replaced (printf "%s: %s is HAMi's image, so %s takes its place" $key $name $new.repository)) -}}
{{- else if or $isText (contains "projecthami/" $image.repository) -}}
{{- fail (printf "%s: %s is an image of HAMi's, which lacks the programs that this chart starts (leave it out, or name a copy of the image %s)" $key $name $default.repository) -}}
{{- else if regexMatch "^v2\\." $tag -}}
{{- fail (printf "%s.tag: %s is a version of HAMi's, not of the image %s (leave it out)" $key $tag $image.repository) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "hami.takeMoved" -}}
{{- range $old, $new := .keys.moved -}}
{{- $given := include "hami.valueOf" (dict "values" $.values "key" $old) | fromJson -}}
{{- if hasKey $given "value" -}}
{{- $default := dict "value" (index $.keys.defaults $new) -}}
{{- if kindIs "map" $default.value -}}
{{- $given = merge $given $default -}}
{{- end -}}
{{- $now := include "hami.valueOf" (dict "values" $.values "key" $new) | fromJson -}}
{{- if ne (toJson $given) (toJson $default) -}}
{{- if not (has (toJson $now) (list "{}" (toJson $default) (toJson $given))) -}}
{{- fail (printf "%s is now %s, and the values set both (leave %s out)" $old $new $old) -}}
{{- end -}}
{{- include "hami.put" (dict "values" $.values "key" $new "value" $given.value) -}}
{{- $_ := set $.taken "moved" (append $.taken.moved (printf "%s is now %s" $old $new)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "hami.takeIgnored" -}}
{{- range $key, $entry := .keys.ignored -}}
{{- $given := include "hami.valueOf" (dict "values" $.values "key" $key) | fromJson -}}
{{- $found := list (include "hami.isWithin" (dict "given" $given.value "default" nil)) -}}
{{- range $entry.defaults -}}
{{- $found = append $found (include "hami.isWithin" (dict "given" $given.value "default" .)) -}}
{{- end -}}
{{- if not (has "true" $found) -}}
{{- $_ := set $.taken "ignored" (append $.taken.ignored $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Values that HAMi's complete values files contain, and with which our processes could not start. */ -}}
{{- define "hami.takeReplaced" -}}
{{- $v := .values -}}
{{- if regexMatch "^v2\\." $v.global.imageTag -}}
{{- $_ := set .taken "replaced" (append .taken.replaced (printf "global.imageTag: %s is a version of HAMi's, so the chart's own takes its place" $v.global.imageTag)) -}}
{{- $_ := set $v.global "imageTag" "" -}}
{{- end -}}
{{- $image := $v.scheduler.kubeScheduler.image -}}
{{- if regexMatch "^v1\\.(1?[0-9]|2[0-4])\\." $image.tag -}}
{{- $_ := set .taken "replaced" (append .taken.replaced (printf "scheduler.kubeScheduler.image.tag: %s can't read this chart's configuration, so the cluster's version takes its place" $image.tag)) -}}
{{- $_ := set $image "tag" "" -}}
{{- end -}}
{{- end -}}

{{- /* Values that are valid by type, and with which a process would not start: one line each. */ -}}
{{- define "hami.refusals" -}}
{{- $v := .Values -}}
{{- $d := $v.devicePlugin -}}
{{- $s := $v.scheduler -}}
{{- range $key, $text := (.Files.Get "files/hami-keys.json" | fromJson).refused -}}
{{- if get (include "hami.valueOf" (dict "values" $v "key" $key) | fromJson) "value" }}
{{ $key }}: {{ $text }}
{{- end -}}
{{- end -}}
{{- if and $d.enabled $d.mps.enabled (eq "auto" (default "" $d.nvidiaDriverRoot)) }}
devicePlugin.mps.enabled: the MPS control daemon runs in a driver's root that must be known (set devicePlugin.nvidiaDriverRoot to a folder, or leave it out)
{{- end -}}
{{- if and (eq $d.mode "adopt") (not $d.adoptBefore) }}
devicePlugin.mode: adopt needs devicePlugin.adoptBefore, the time from which HAMi bound no more pods, such as 2026-01-31T12:00:00Z
{{- end -}}
{{- if and (eq $d.mode "trust") (not $d.trustSchedulers) }}
devicePlugin.mode: trust needs devicePlugin.trustSchedulers, the names of the schedulers to believe
{{- end -}}
{{- range $vendor := list "ascend" "iluvatar" -}}
{{- $device := get $v.devices $vendor -}}
{{- if and $device.enabled (not $device.configs) }}
devices.{{ $vendor }}.configs: is empty, so no chip would be served (leave it out, or list the chips)
{{- end -}}
{{- end -}}
{{- with $d.nodeConfiguration.config -}}
{{- $read := . | fromJson -}}
{{- if hasKey $read "Error" }}
devicePlugin.nodeConfiguration.config: is not a JSON object: {{ $read.Error }} (write it as {"nodeconfig": [{"name": "node-1", "devicesplitcount": 4}]})
{{- end -}}
{{- end -}}
{{- $ports := dict "scheduler.extender.port" $s.extender.port "scheduler.metricsBindAddress" (include "hami.metricsPort" .) -}}
{{- if $s.admissionWebhook.enabled -}}
{{- $_ := set $ports "scheduler.service.httpTargetPort" $s.service.httpTargetPort -}}
{{- end -}}
{{- $taken := dict -}}
{{- range $key, $port := $ports -}}
{{- with get $taken (int64 $port | toString) }}
{{ $key }}: port {{ int64 $port }} is also {{ . }}; give each its own
{{- end -}}
{{- $_ := set $taken (int64 $port | toString) $key -}}
{{- end -}}
{{- end -}}
