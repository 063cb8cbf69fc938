"""Replay of node plugins that other people wrote: our scheduler's pods, their plugins' contract, an embedded cluster.

The plugins here do what public sources of the real ones do at the API server and at the kubelet. They know nothing of
this project's code for their vendor.
"""
