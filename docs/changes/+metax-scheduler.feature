**MetaX.** Whole GPUs and sGPUs are scheduled, with QoS policies, app classes and link zones. MetaX's device plugin serves the nodes.
