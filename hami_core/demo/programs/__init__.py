"""The client programs that run inside the demo's containers: ordinary users of CUDA and NVML, nothing of ours."""
