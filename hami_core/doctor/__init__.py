"""``hami doctor``: what is wrong with an installation, named with object, field, what was seen and what to do.

`gather` reads the cluster, `on_node` a node; both make facts. Everything else is pure: checks turn facts into
findings, `examine` runs them, `report` shows them.
"""
