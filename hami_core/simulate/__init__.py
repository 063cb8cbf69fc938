"""``hami simulate``: runs a workload on a cluster in virtual time, through the scheduler's own code.

`hami_core.simulate.clusterfile` and `snapshot` make the cluster, `workload` and `generator` make the pods, `engine`
places them by the real `hami_core.inventory.Inventory`, `measures` says how well that went, and `report` and `plots`
show it. Only the command (`hami_core.cli.simulate`), `snapshot` and `plots` do I/O.

Devices are simulated, and nothing else: not the CPU, memory, taints or affinities that kube-scheduler checks.
"""
