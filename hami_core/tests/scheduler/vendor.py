"""A vendor for these tests: devices from a JSON annotation, the framework's defaults for everything else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hami_core import hookimpl
from hami_core.capability import Capability, Grade, Support
from hami_core.model import Allocation, Device, Family, NodeFacts, PodFacts, Resources
from hami_core.tests.kube.apiserver import pod as plain_pod
from hami_core.wire.node import decode_devices_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

REGISTER = "acme.com/register"
ALLOCATED = "hami.io/acme-devices-allocated"
TO_ALLOCATE = "hami.io/acme-devices-to-allocate"

FAMILY = Family(
    word="ACME",
    resources=Resources(count="acme.com/gpu", memory="acme.com/mem", cores="acme.com/cores"),
    allocated_key=ALLOCATED,
    to_allocate_key=TO_ALLOCATE,
    register_key=REGISTER,
    capabilities={Capability.NODE_AGENT: Grade(Support.FULL)},
)


class Acme:
    @hookimpl
    def families(self, config: Any) -> Sequence[Family]:
        return [FAMILY]

    @hookimpl
    def register(self, node: NodeFacts) -> Sequence[Device] | None:
        text = node.annotations.get(REGISTER)
        return None if text is None else decode_devices_json(text, key=REGISTER, family="ACME")

    @hookimpl
    def patch_annotations(self, pod: PodFacts, allocation: Allocation) -> Mapping[str, str]:
        return {"acme.com/extra": allocation.node, "acme.com/decided": str(pod.decided_at)}


def node(name: str, cards: int = 2, memory: int = 10_000, **meta: Any) -> dict[str, Any]:
    devices = [
        {"id": f"{name}-{i}", "index": i, "count": 10, "devmem": memory, "devcore": 100, "type": "A1", "health": True}
        for i in range(cards)
    ]
    annotations = {REGISTER: json.dumps(devices), **meta.pop("annotations", {})}
    return {"metadata": {"name": name, "annotations": annotations, **meta}, "status": {"capacity": {"cpu": "4"}}}


def pod(name: str, *, gpu: int = 1, mem: int | str = 1000, cores: int = 10, **more: Any) -> dict[str, Any]:
    limits = {"acme.com/gpu": str(gpu), "acme.com/mem": str(mem), "acme.com/cores": str(cores)}
    containers = [{"name": "c", "image": "i", "resources": {"limits": limits}}]
    return plain_pod(name, spec={"containers": containers, **more.pop("spec", {})}, **more)
