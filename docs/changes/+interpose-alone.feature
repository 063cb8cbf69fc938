**Interposer.** The wheel of `hami-interpose` holds `libvgpu.so` and no simulated driver, and depends on no other package.
