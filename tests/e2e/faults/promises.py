"""Pods of the load, and their entries in its ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.e2e.pods import LOOK, before, container, pod, sidecar

if TYPE_CHECKING:
    import random

LABEL = {"load": "yes"}
SELECTOR = "load=yes"
LEAST, MOST = 500, 6000


@dataclass
class Promise:
    """A pod that the load wants or wanted.

    Attributes:
        body: The manifest.
        ends: Whether the pod's program ends by itself.
        wanted: Whether the pod should exist. If not, the load deletes it.
        accepted: Whether the API server has accepted it.
        deleted: Whether the pod failed and the load deleted it, to create it again.
        looked_at: Whether its slice has been compared with what its programs saw.
    """

    body: dict[str, Any]
    ends: bool = False
    wanted: bool = True
    accepted: bool = False
    deleted: bool = False
    looked_at: bool = False

    @property
    def name(self) -> str:
        """The pod's name."""
        return str(self.body["metadata"]["name"])


def promise(rng: random.Random, name: str, node: str, kubernetes_minor: int) -> Promise:
    """A pod of random shape: one or two slices of random sizes, perhaps with an init container or a sidecar.

    The grace period is 0 or 1 s. The programs of some pods end by themselves.
    """

    def size() -> int:
        return rng.randrange(LEAST, MOST)

    shape = rng.choice(["plain", "plain", "two", "init", "sidecar", "short"])
    more: dict[str, Any] = {"terminationGracePeriodSeconds": rng.choice([0, 1, 1])}
    if shape == "short":
        containers = [container("main", size(), command=LOOK)]
        return Promise(pod(name, *containers, labels=LABEL, node=node or None, **more), ends=True)
    init: tuple[dict[str, Any], ...] = ()
    if shape == "init":
        init = (container("first", size(), command=LOOK),)
    elif shape == "sidecar":
        init = (sidecar("beside", size()),)
    containers = [container("main", size(), count=rng.choice([1, 1, 2]))]
    if shape == "two":
        containers.append(container("second", size()))
    more["restartPolicy"] = rng.choice(["Always", "Always", "Never"])
    init = before(kubernetes_minor, *init)
    return Promise(pod(name, *containers, init=init, labels=LABEL, node=node or None, **more))
