"""Each pod in ``contrib/examples/NAME.yaml`` fits on a node with which the vendor ``contrib/vendors/NAME`` is tested.

Examples of vendors with a node side run on their simulated devices; see ``contrib/examples/README.md``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from contrib.vendor_folders import ROOT, in_tree
from hami_core.inventory import Inventory, PolicyDefaults
from hami_core.model import Allocation, ContainerKind, ContainerSpec, NodeFacts, PodFacts
from hami_core.placement.request import pod_request
from hami_core.plugins import load

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hami_core.plugins.loaded import Loaded

VENDORS = {one.name: one for one in in_tree() if one.folder.parent == ROOT / "contrib/vendors"}


def nodes(name: str) -> Iterator[NodeFacts]:
    for file in sorted((VENDORS[name].folder / "tests/data/nodes").glob("*.yaml")):
        for node in yaml.safe_load_all(file.read_text()):
            meta, status = node["metadata"], node.get("status", {})
            yield NodeFacts(
                meta["name"],
                meta.get("annotations", {}),
                meta.get("labels", {}),
                status.get("capacity", {}),
                status.get("allocatable", status.get("capacity", {})),
            )


def containers(spec: Mapping[str, Any]) -> Iterator[ContainerSpec]:
    for key, kind in (("initContainers", ContainerKind.INIT), ("containers", ContainerKind.APP)):
        for one in spec.get(key, ()):
            limits = {name: str(amount) for name, amount in one.get("resources", {}).get("limits", {}).items()}
            yield ContainerSpec(one["name"], kind, limits)


def fits(loaded: Loaded, manifest: Mapping[str, Any], node: NodeFacts) -> bool:
    """Whether an admitted pod can be booked on a node that has no other pods."""
    meta = manifest["metadata"]
    facts = PodFacts("default", meta["name"], "uid", meta.get("annotations", {}))
    admitted = []
    for spec in containers(manifest["spec"]):
        change = loaded.mutate(spec, facts)
        admitted.append(replace(spec, limits={**spec.limits, **change.limits}) if change else spec)
        if change:
            facts = replace(facts, annotations={**facts.annotations, **change.pod_annotations})
    request = pod_request("uid", "default", facts.name, admitted, facts.annotations, loaded.parse)
    assert request.families, f"{facts.name} asks for none of the vendor's devices"
    inventory = Inventory(loaded.rules(), PolicyDefaults())
    inventory.set_node(node, loaded.register(node).devices)
    return isinstance(inventory.book(request, node.name), Allocation)


@pytest.mark.parametrize("name", sorted(VENDORS))
def test_example_pods_fit_on_a_node_of_the_vendor(name: str) -> None:
    loaded = load({}, only=[name])
    assert not loaded.problems
    pods = list(yaml.safe_load_all((ROOT / f"contrib/examples/{name}.yaml").read_text()))
    assert pods
    lost = [pod["metadata"]["name"] for pod in pods if not any(fits(loaded, pod, node) for node in nodes(name))]
    assert not lost, f"these pods fit on no node of {name}"
