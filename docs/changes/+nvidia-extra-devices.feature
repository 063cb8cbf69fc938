**NVIDIA.** Containers get the devices of GPUDirect Storage, MOFED, GDRCopy and IMEX channel 0 if HAMi's settings for them
are on.
