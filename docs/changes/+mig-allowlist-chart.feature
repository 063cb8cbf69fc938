The chart takes HAMi's `devices.nvidia.migProfileAllowlist`.
