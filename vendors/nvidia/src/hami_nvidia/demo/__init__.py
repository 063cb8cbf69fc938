"""The part of `hami demo` that knows NVIDIA: its stage, simulated or real GPUs, example pods and client programs."""
