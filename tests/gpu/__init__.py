"""The GPU kit: does what is claimed of limits hold on this card? ``python -m tests.gpu --help``.

It needs Python, gcc and NVIDIA's driver, and nothing from a package index. Programs run in *containers*: processes with
the library preloaded and a folder of limits, as the agent sets them up, without Kubernetes.
"""
