"""The embedded kubelet: device manager, containers as local processes, PodResources."""
