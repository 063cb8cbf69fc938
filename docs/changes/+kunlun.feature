**Kunlun.** Kunlunxin XPUs are served: whole cards by the server's topology on nodes with Kunlunxin's device plugin, and quarters and halves of cards (vXPU) on nodes with RiseUnion's.
