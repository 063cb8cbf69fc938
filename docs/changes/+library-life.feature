**NVIDIA.** The agent removes a `libvgpu.so` of an earlier release from the node when no pod uses it any more. A library that
was deleted from the node is installed again for the next pod.
