"""An embedded cluster for tests, demos and vendor authors: API server, kube-scheduler loop, kubelets, faults.

It is a test double, not a second Kubernetes. It imitates only behaviour that this project's parts can observe. Every
part is a process of its own, which tests can kill and restart. Nothing here depends on a vendor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hami_core.sim.cluster import Cluster, NodeSpec

__all__ = ["Cluster", "NodeSpec"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a module's attributes are of any type
    if name in __all__:
        from hami_core.sim import cluster  # noqa: PLC0415 - keeps `import hami_core.sim` free of aiohttp

        return getattr(cluster, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
