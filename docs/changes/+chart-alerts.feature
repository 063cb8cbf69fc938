**Chart.** `prometheus.alerts.enabled` creates a PrometheusRule with alerts for scheduler, agents, devices, vendors and quotas. Each names the fix and a section of the troubleshooting page.
