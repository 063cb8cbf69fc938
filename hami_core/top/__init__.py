"""``hami top``: what is booked and what is used, by node, card and slice.

`model` and `rows` are pure. `gather` asks the scheduler and the agents. `live` is the view on a terminal.
"""
