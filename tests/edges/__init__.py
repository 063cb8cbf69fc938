"""Edges: what kube-apiserver, kube-scheduler and kubelet do where HAMi depends on them.

Each scenario runs on real Kubernetes, which gives its recording, and on the embedded cluster, which must behave the
same. `tolerated` lists the differences that are allowed.
"""
