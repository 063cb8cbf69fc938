**NVIDIA agent.** Entries of the per-node file may select nodes by label (`nodelabelselector`) or be for every node (`*`). They follow changes of a node's labels without a restart.
