"""The vendor as the core loads it: devices from capacity, requests, and annotations for Cambricon's plugin."""

from __future__ import annotations

import pytest

from hami_core.errors import RequestError
from hami_core.model import (
    Allocation,
    ContainerKind,
    ContainerSlices,
    ContainerSpec,
    NodeFacts,
    PodFacts,
    Request,
    Slice,
)
from hami_core.plugins import load

CORES, MEMORY, COUNT = "cambricon.com/mlu.smlu.vcore", "cambricon.com/mlu.smlu.vmemory", "cambricon.com/vmlu"
POD = PodFacts("ns", "p", "u")


def loaded(**section: object):
    found = load({"cambricon": section} if section else {}, only=["cambricon"])
    assert not found.problems
    return found


def devices(**capacity: str):
    names = {"cores": CORES, "memory": MEMORY}
    return loaded().register(NodeFacts("n1", capacity={names[k]: v for k, v in capacity.items()}))


def test_memory_is_shared_out_over_the_cards():
    found = devices(cores="250", memory="480").devices["MLU"] or ()
    assert [d.id for d in found] == [f"n1-cambricon-mlu-{i}" for i in range(3)]
    assert {d.memory_mib for d in found} == {480 * 256 * 100 // 250}


@pytest.mark.parametrize("capacity", [{}, {"cores": "0"}, {"memory": "5"}])
def test_a_node_without_cores_has_no_cards(capacity):
    found = devices(**capacity)
    assert not found.devices["MLU"]
    assert not found.errors


@pytest.mark.parametrize("capacity", [{"cores": "-5"}, {"cores": "1G"}, {"cores": "x"}, {"cores": "1", "memory": "1G"}])
def test_impossible_capacity_closes_the_family_and_says_where(capacity):
    found = devices(**capacity)
    assert found.devices["MLU"] is None
    assert "capacity cambricon.com/mlu.smlu." in str(found.errors[0])


def test_requests_count_memory_in_units_and_default_to_all_cores():
    def ask(**limits: str) -> tuple[Request, ...]:
        names = {"n": COUNT, "mem": MEMORY, "cores": CORES}
        return loaded().parse(ContainerSpec("c", ContainerKind.APP, {names[k]: v for k, v in limits.items()}), POD)

    assert ask(n="1", mem="16", cores="25") == (Request("MLU", 1, 4096, None, 25),)
    assert ask(n="1") == (Request("MLU", 1, 0, 100, 100),)
    assert ask(mem="16") == ()
    with pytest.raises(RequestError, match="above the largest amount 4096, in units of 256 MiB"):
        ask(n="1", mem="4097")


def test_admission_checks_amounts_and_changes_nothing():
    found = loaded()
    mutation = found.mutate(ContainerSpec("c", ContainerKind.APP, {COUNT: "1"}), POD)
    assert mutation is not None
    assert (mutation.uses_devices, mutation.limits, mutation.env) == (True, {}, ())
    assert found.mutate(ContainerSpec("c", ContainerKind.APP, requests={COUNT: "1"}), POD) is None
    with pytest.raises(RequestError, match=r"container c: cambricon.com/mlu.smlu.vmemory"):
        found.mutate(ContainerSpec("c", ContainerKind.APP, {COUNT: "1", MEMORY: "16Gi"}), POD)


@pytest.mark.parametrize("both", [True, False])
def test_the_spelling_cambricons_plugin_waits_for_is_a_setting(both):
    piece = Slice("n1-cambricon-mlu-3", "MLU", 4096, 25)
    parts = (ContainerSlices("init", ContainerKind.INIT), ContainerSlices("c", ContainerKind.APP, (piece,)))
    written = loaded(vendorSpelling=both).patch_annotations(POD, Allocation("n1", parts))
    assert written.pop("CAMBRICON_DSMLU_ASSIGHED", None) == ("false" if both else None)
    assert written == {"CAMBRICON_DSMLU_ASSIGNED": "false", "CAMBRICON_DSMLU_PROFILE": "3_25_16"}


def test_the_lock_is_cambricons_own():
    assert loaded().lock_annotations("n1", POD, ["MLU"]) == {"cambricon.com/dsmlu.lock": "time"}


def test_ids_are_chosen_by_annotation():
    (rules,) = loaded().rules()
    request = Request("MLU", 1, annotations={"cambricon.com/use-gpuuuid": "n1-cambricon-mlu-1"})
    assert rules.check_uuid(request, "n1-cambricon-mlu-1") is None
    assert rules.check_uuid(request, "n1-cambricon-mlu-0") is not None
