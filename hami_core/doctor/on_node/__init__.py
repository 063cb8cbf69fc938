"""``hami doctor --on-node``: what an agent needs of its node, seen from the agent's container or from the host."""
