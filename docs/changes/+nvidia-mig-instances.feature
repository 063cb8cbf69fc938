**NVIDIA.** On nodes with operating mode `mig` the agent makes the MIG instances that the scheduler planned, and destroys
them when their pods end. A crash at any step leaves none behind.
