**NVIDIA agent.** With `HAMI_NVIDIA_FEATURE_LABELS` (chart: `devicePlugin.featureLabels`) the agent labels nodes as NVIDIA's GPU feature discovery does, where that does not run.
