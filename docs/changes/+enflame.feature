**Enflame.** The vendor `enflame` gives whole GCUs, and DRS slices by size or by memory and cores, on nodes with Enflame's
device plugins. A pod's slices are on one GCU, and count their size after a restart of the scheduler too.
