**Moore Threads.** `hami-mthreads` places pods on Moore Threads GPUs: sGPU slices of an MTT S4000 or S5000 and whole cards, with
HAMi's resources, annotations and the device-config key `memoryPerCard`.
