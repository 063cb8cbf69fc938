"""``hami doctor --on-node``: checks what an agent needs from its node, in the agent's container or on the host."""
