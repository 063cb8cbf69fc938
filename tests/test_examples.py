"""The pods in ``contrib/examples/NAME.yaml`` fit on the nodes with which the vendor ``contrib/vendors/NAME`` is tested.

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

    from hami_core.model import PodRequest
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


def admitted(loaded: Loaded, manifest: Mapping[str, Any]) -> PodRequest:
    """What a pod requests after admission."""
    meta = manifest["metadata"]
    facts = PodFacts("default", meta["name"], "uid", meta.get("annotations", {}))
    changed = []
    for spec in containers(manifest["spec"]):
        change = loaded.mutate(spec, facts)
        changed.append(replace(spec, limits={**spec.limits, **change.limits}) if change else spec)
        if change:
            facts = replace(facts, annotations={**facts.annotations, **change.pod_annotations})
    request = pod_request(facts.name, "default", facts.name, changed, facts.annotations, loaded.parse)
    assert request.families, f"{facts.name} asks for none of the vendor's devices"
    return request


@pytest.mark.parametrize("name", sorted(VENDORS))
def test_all_example_pods_fit_on_the_vendors_nodes(name: str) -> None:
    """At once and in their order, as `hami demo` submits them."""
    loaded = load({}, only=[name])
    assert not loaded.problems
    inventory = Inventory(loaded.rules(), PolicyDefaults())
    names = []
    for node in nodes(name):
        inventory.set_node(node, loaded.register(node).devices)
        names.append(node.name)
    pods = list(yaml.safe_load_all((ROOT / f"contrib/examples/{name}.yaml").read_text()))
    assert pods
    for pod in pods:
        request = admitted(loaded, pod)
        assert any(isinstance(inventory.book(request, node), Allocation) for node in names), request.name


@pytest.mark.parametrize("name", sorted(VENDORS))
def test_every_container_of_an_example_has_a_command(name: str) -> None:
    """`hami demo` runs no images."""
    for pod in yaml.safe_load_all((ROOT / f"contrib/examples/{name}.yaml").read_text()):
        assert all(one.get("command") for one in pod["spec"]["containers"]), pod["metadata"]["name"]
