"""Credentials the scheduler issues and rotates itself: the webhook's certificate, the keys allocations are signed with.

What is to be done follows from what Secret and ConfigMap hold and from the time: `certificates` and `ring` decide and
do no I/O, `webhook` and `signing` carry out one step at a time, `reconciler` repeats them. Any replica may do any step;
every write names the version it was decided on, so that one of two wins and the other looks again.
"""
