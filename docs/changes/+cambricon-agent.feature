**Cambricon.** `hami agent --vendor cambricon` serves MLUs: it registers models and NUMA nodes, makes sMLU instances, and serves several containers, init containers and several cards of a pod.
