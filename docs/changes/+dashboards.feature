**Metrics.** `hami_container_device_utilization_ratio` is served, in percent as by HAMi, so HAMi's dashboard and HAMi-WebUI
show the utilization of containers. `--legacy-metrics` adds `Device_memory_desc_of_container` and
`Device_utilization_desc_of_container`.
