"""The edges: what kube-apiserver, kube-scheduler and kubelet do at the contracts HAMi rests on.

Scenarios are written once. They run on real Kubernetes, which gives the recordings, and on the embedded cluster, which
has to give the same; what may differ is listed in `tolerated`.
"""
