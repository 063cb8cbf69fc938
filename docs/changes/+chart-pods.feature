**Chart.** `scheduler.topologySpreadConstraints`, `scheduler.podLabels` and `devicePlugin.podLabels`.
