`hami_mig_device_info` lists the MIG instances of each container, with HAMi's labels.
