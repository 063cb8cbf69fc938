"""The vendor as the core loads it: chips of the device-config, registers, admission and requests."""

from __future__ import annotations

import pytest
from hami_iluvatar.config import CHIPS

from hami_core.errors import RequestError
from hami_core.model import ContainerKind, ContainerSpec, NodeFacts, PodFacts, Request
from hami_core.plugins import load

POD = PodFacts("ns", "p", "u")
WORDS = ["MR-V100", "MR-V50", "BI-V150", "BI-V100"]
OWN = {
    "commonWord": "X1",
    "chipName": "Iluvatar X1",
    "resourceCountName": "x.example/x1",
    "resourceMemoryName": "x.example/x1-memory",
    "resourceCoreName": "x.example/x1-cores",
}
NAMES = {"n": "iluvatar.ai/BI-V150-vgpu", "mem": "iluvatar.ai/BI-V150.vMem", "cores": "iluvatar.ai/BI-V150.vCore"}


def loaded(section: object = None):
    found = load({} if section is None else {"iluvatars": section}, only=["iluvatar"])
    assert not found.problems
    return found


def container(**amounts: str) -> ContainerSpec:
    return ContainerSpec("c", ContainerKind.APP, {NAMES[name]: text for name, text in amounts.items()})


# --- device-config ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("section", [None, {}])
def test_the_default_is_hamis_four_chips(section):
    families = loaded(section).families
    assert list(families) == WORDS
    assert families["MR-V50"].resources.names() == (
        "iluvatar.ai/MR-V50-vgpu",
        "iluvatar.ai/MR-V50.vMem",
        "iluvatar.ai/MR-V50.vCore",
    )


def test_a_list_replaces_the_default_chips():
    families = loaded([OWN, CHIPS[0].model_dump(by_alias=True)]).families
    assert list(families) == ["X1", "MR-V100"]
    assert families["X1"].resources.names() == ("x.example/x1", "x.example/x1-memory", "x.example/x1-cores")
    assert families["X1"].allocated_key == "hami.io/X1-devices-allocated"


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ([{**OWN, "commonWord": "a b"}], "iluvatars[0].commonWord"),
        ([{**OWN, "commonWord": "x" * 44}], "iluvatars[0].commonWord"),
        ([OWN, {**OWN, "resourceCountName": ""}], "iluvatars[1].resourceCountName"),
        ([{"commonWord": "X1"}], "iluvatars[0].resourceCountName"),
        ([OWN, OWN], "X1"),
        ({"chipName": "X1"}, "iluvatars"),
        ("X1", "iluvatars"),
    ],
)
def test_a_wrong_list_is_refused_with_its_place(section, told):
    (problem,) = load({"iluvatars": section}, only=["iluvatar"]).problems
    assert told in str(problem)


def test_an_unknown_key_of_a_chip_is_named():
    found = load({"iluvatars": [{**OWN, "memoryFactor": 1}]}, only=["iluvatar"])
    assert list(found.families) == ["X1"]
    assert [problem.text for problem in found.problems] == [
        "device-config: unknown keys, ignored: iluvatars[0].memoryFactor"
    ]


def test_an_empty_list_serves_no_chip():
    assert not load({"iluvatars": []}, only=["iluvatar"]).families


# --- registers -------------------------------------------------------------------------------------------------------


def test_each_chip_has_a_register_of_its_own():
    annotations = {
        "hami.io/node-BI-V150-register": "GPU-0,10,32768,100,BI-V150,1,true:",
        "hami.io/node-MR-V50-register": "GPU-1,5,16384,100,MR-V50,0,true,3,hami-core:",
    }
    found = loaded().register(
        NodeFacts("n1", annotations, allocatable={NAMES["n"]: "1", "iluvatar.ai/MR-V50-vgpu": "1"})
    )
    assert {word: [d.id for d in devices or ()] for word, devices in found.devices.items()} == {
        "MR-V100": [],
        "MR-V50": ["GPU-1"],
        "BI-V150": ["GPU-0"],
        "BI-V100": [],
    }


@pytest.mark.parametrize("text", ["", "GPU-0", "GPU-0,1:", "GPU-0,10,x,100,BI-V150,0,true:", "GPU-0,1,2,3,4,5,6,7:"])
def test_a_malformed_register_closes_the_node_and_says_where(text):
    found = loaded().register(NodeFacts("n1", {"hami.io/node-BI-V150-register": text}))
    assert found.devices["BI-V150"] is None
    assert "hami.io/node-BI-V150-register" in str(found.errors[0])


def test_gpus_are_unhealthy_while_the_gpu_manager_is_away():
    node = NodeFacts("n1", {"hami.io/node-BI-V150-register": "GPU-0,10,32768,100,BI-V150,1,true:"})
    (gpu,) = loaded().register(node).devices["BI-V150"]
    assert (gpu.healthy, gpu.not_offered) == (False, f"the kubelet offers no {NAMES['n']}")


# --- admission -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("amounts", "cores"),
    [
        ({"n": "1"}, None),
        ({"n": "1", "cores": "50"}, None),
        ({"n": "1", "cores": "150"}, "100"),
        ({"n": "2"}, "200"),
        ({"n": "2", "cores": "50"}, "200"),
        ({"n": "3", "cores": "300"}, "300"),
        ({"n": "0", "cores": "300"}, None),
    ],
)
def test_admission_writes_the_cores_of_whole_gpus(amounts, cores):
    found = loaded().mutate(container(**amounts), POD)
    assert found.uses_devices
    assert found.limits == found.requests == ({NAMES["cores"]: cores} if cores else {})


def test_the_containers_name_replaces_what_the_pod_wrote():
    found = loaded().mutate(container(n="1"), POD)
    assert found.env == (("SOL_CONTINER_NAME", "c"),)
    assert loaded().mutate(ContainerSpec("c", ContainerKind.APP, {"cpu": "1"}), POD) is None


@pytest.mark.parametrize(
    ("amounts", "told"),
    [
        ({"mem": "16Gi"}, "in units of 256 MiB that is 64: write 64"),
        ({"mem": "0.5"}, "is not a whole number"),
        ({"mem": "4097"}, "above the largest amount 4096, in units of 256 MiB"),
        ({"mem": "-1"}, "write a whole number from 0 up"),
        ({"cores": "12.5"}, "is not a whole number"),
        ({"cores": "-1"}, "write a whole number from 0 up"),
        ({"n": "1.5"}, "is not a whole number"),
        ({"n": "-1"}, "write a whole number from 0 up"),
    ],
)
def test_wrong_amounts_are_denied_by_name(amounts, told):
    with pytest.raises(RequestError) as refused:
        loaded().mutate(container(**{"n": "1", **amounts}), POD)
    assert str(refused.value).startswith(f"container c: {NAMES[next(iter(amounts))]}")
    assert told in str(refused.value).replace("units of 256 MiB here, in", "in")


# --- requests --------------------------------------------------------------------------------------------------------


def test_memory_counts_in_units_and_cores_default_to_none():
    assert loaded().parse(container(n="1"), POD) == (Request("BI-V150", 1, 0, 100, 0),)
    assert loaded().parse(container(n="1", mem="64", cores="50"), POD) == (Request("BI-V150", 1, 16384, None, 50),)
    assert loaded().parse(container(mem="64"), POD) == ()


@pytest.mark.parametrize("cores", [{}, {"cores": "200"}, {"cores": "10"}])
def test_several_gpus_are_asked_for_with_all_cores(cores):
    (request,) = loaded().parse(container(n="2", mem="64", **cores), POD)
    assert (request.count, request.cores, request.memory_mib) == (2, 100, 16384)


def test_gpus_are_chosen_by_the_annotations_of_their_chip():
    (rules,) = [one for one in loaded().rules() if one.family.word == "BI-V150"]
    request = Request("BI-V150", 1, annotations={"hami.io/use-BI-V150-uuid": "GPU-1, GPU-2"})
    assert [rules.check_uuid(request, f"GPU-{number}") is None for number in range(3)] == [False, True, True]
    request = Request("BI-V150", 1, annotations={"hami.io/no-use-BI-V150-uuid": "GPU-1"})
    assert [rules.check_uuid(request, f"GPU-{number}") is None for number in range(3)] == [True, False, True]
