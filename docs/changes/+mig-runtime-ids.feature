The agent writes `migUUID`, `gpuInstanceID` and `computeInstanceID` into a pod's `hami.io/vgpu-mig-allocations` once the
instances are made, as HAMi v2.10 does. Containers start without waiting for it, and it is repeated until it succeeds.
