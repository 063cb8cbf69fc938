**Vendor AMD.** `hami-amd` schedules AMD GPUs by memory and compute units on nodes that HAMi's AMD device plugin serves. Pods for `amd.com/gpu` that no such node can serve say why.
