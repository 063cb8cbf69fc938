"""Credentials that the scheduler issues and rotates itself: the webhook's certificate and the keys for signatures.

The next step follows from the Secret, the ConfigMap and the time. `certificates` and `ring` decide it and do no I/O;
`webhook` and `signing` carry out one step; `reconciler` repeats the steps. Any replica may do any step. Each write
names the version of the object that the decision used, so that one of two replicas wins and the other reads again.
"""
