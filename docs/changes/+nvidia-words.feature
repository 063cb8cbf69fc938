**NVIDIA.** HAMi's flags and variables of the device plugin mean something or are answered by name: strategies, driver roots,
`KUBELET_SOCKET`. Jetson and WSL nodes say why they are not shared.
