**NVIDIA.** An ECC error in two bits and a failed row remapping make a card unhealthy. Metrics count the XIDs of each card,
and show a pending repair of its memory.
