**NVIDIA.** `devicePlugin.nvidiaDriverRoot: auto` finds the driver on the host or in the GPU Operator's driver container,
also if it is installed after the agent has started.
