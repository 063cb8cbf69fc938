"""``hami doctor``: finds what is wrong with an installation. Each finding names object, field, value and fix.

`gather` reads the cluster and `on_node` reads a node; both return facts. Everything else is pure: checks turn facts
into findings, `examine` runs the checks, `report` prints the findings.
"""
