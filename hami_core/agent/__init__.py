"""The node agent: device plugin, late binding, CDI, records, health and metrics of one node's devices."""
