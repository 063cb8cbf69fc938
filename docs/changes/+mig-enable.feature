**NVIDIA.** `HAMI_NVIDIA_MIG_ENABLE=false`: the agent never changes a card's MIG mode, and names the command for the
administrator. A lost card in operating mode `mig` keeps its number of slots.
