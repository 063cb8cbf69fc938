"""The GPU kit checks on a card of this machine what the documents promise about limits: ``python -m tests.gpu --help``.

It needs Python, gcc and NVIDIA's driver, and nothing from a package index. A *container* here is a folder of limits,
and processes that preload the library, as on a node but without Kubernetes.
"""
