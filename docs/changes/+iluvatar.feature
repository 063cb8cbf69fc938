**Iluvatar.** The new package `hami-iluvatar` places pods on nodes that Iluvatar's gpu-manager serves. The list `iluvatars` of the device-config names the chips.
