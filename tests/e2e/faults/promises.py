"""Pods of the load and the ledger of what each was promised."""

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
    """One pod the load wants, or wants no more.

    Attributes:
        body: Its manifest.
        ends: Its program ends by itself.
        wanted: False: it is to be deleted.
        accepted: The API server took it.
        deleted: It failed and was deleted, to be made anew.
        looked_at: Its slice was compared with what its programs saw.
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
    """A pod of random shape: one slice or two, sizes of its own, perhaps an init container or a sidecar.

    Some are deleted gracefully and some at once; some end by themselves.
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
