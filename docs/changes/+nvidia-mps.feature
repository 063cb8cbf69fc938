**NVIDIA.** Operating mode `mps` shares cards through NVIDIA's MPS. The chart runs the control daemon
(`devicePlugin.mps.enabled`), and the agent offers cards only while it answers. No real daemon was met yet.
