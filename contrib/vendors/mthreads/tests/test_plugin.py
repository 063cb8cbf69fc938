"""The vendor as the core loads it: cards from capacity and label, admission, requests, and the plugin's annotations."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from hami_core.errors import RequestError
from hami_core.inventory import Inventory, PolicyDefaults
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
from hami_core.placement.request import pod_request
from hami_core.plugins import load

COUNT, MEMORY, CORES = "mthreads.com/vgpu", "mthreads.com/sgpu-memory", "mthreads.com/sgpu-core"
NAMES = {"n": COUNT, "mem": MEMORY, "cores": CORES, "whole": "mthreads.com/gpu"}
POD = PodFacts("ns", "p", "u")
BOTH_MODELS = {"memoryPerCard": [96, 160]}


def loaded(**section: object):
    found = load({"mthreads": section} if section else {}, only=["mthreads"])
    assert not found.problems
    return found


def container(name: str = "c", kind: ContainerKind = ContainerKind.APP, **limits: str) -> ContainerSpec:
    return ContainerSpec(name, kind, {NAMES[key]: amount for key, amount in limits.items()})


def node(cards: str = "", name: str = "n1", **capacity: str) -> NodeFacts:
    amounts = {NAMES[key]: amount for key, amount in capacity.items()}
    labels = {"mthreads.com/sgpu.cores": cards} if cards else {}
    return NodeFacts(name, {}, labels, amounts, amounts)


def cards_of(facts: NodeFacts):
    found = loaded().register(facts)
    return found.devices["Mthreads"], [str(error) for error in found.errors]


# --- nodes -----------------------------------------------------------------------------------------------------------


def test_a_card_has_sixteen_cores_and_an_equal_part_of_the_memory():
    found, errors = cards_of(node(cores="32", mem="320"))
    assert [(d.id, d.index, d.memory_mib, d.cores, d.slots) for d in found] == [
        ("n1-mthreads-0", 0, 81920, 16, 100),
        ("n1-mthreads-1", 1, 81920, 16, 100),
    ]
    assert not errors


@pytest.mark.parametrize("text", ["0-2-3", "3,2,0", " 0-2,3 "])
def test_the_label_says_which_cards_are_sliced(text):
    found, errors = cards_of(node(text, cores="48", mem="480"))
    assert [(d.id, d.index) for d in found] == [(f"n1-mthreads-{i}", i) for i in (0, 2, 3)]
    assert not errors


@pytest.mark.parametrize("text", ["0-2", "0-0-2", "0-2-3-4", "a-b-c", "0--2", "-1-2-3", "0-2-99999", "٣-2-1"])
def test_a_label_that_contradicts_the_capacity_closes_the_node(text):
    found, (error,) = cards_of(node(text, cores="48", mem="480"))
    assert found is None
    assert "label mthreads.com/sgpu.cores: " in error
    assert "does not name 3 cards, as the capacity of mthreads.com/sgpu-core does" in error


@pytest.mark.parametrize("capacity", [{"cores": "-16"}, {"cores": "1.5"}, {"cores": "16", "mem": "99999999"}])
def test_impossible_capacity_closes_the_node_and_says_where(capacity):
    found, (error,) = cards_of(node(**capacity))
    assert found is None
    assert "capacity mthreads.com/sgpu-core" in error


@pytest.mark.parametrize("capacity", [{}, {"cores": "0"}, {"mem": "96"}, {"whole": "2"}])
def test_a_node_without_sliced_cards_has_no_devices(capacity):
    found, errors = cards_of(node(**capacity))
    assert not found
    assert not errors


def test_cards_are_refused_while_the_kubelet_offers_none():
    facts = node(cores="32", mem="192")
    gone = NodeFacts("n1", {}, {}, facts.capacity, {CORES: "0", MEMORY: "0"})
    assert [d.healthy for d in cards_of(facts)[0]] == [True, True]
    assert {d.not_offered for d in cards_of(gone)[0]} == {f"the kubelet offers no {CORES}"}


# --- admission -------------------------------------------------------------------------------------------------------


def mutation(section=None, **limits: str):
    return loaded(**section or {}).mutate(container(**limits), POD)


@pytest.mark.parametrize(
    ("limits", "written"),
    [
        ({"n": "1"}, {CORES: "16", MEMORY: "96"}),
        ({"n": "1", "cores": "4"}, {CORES: "16", MEMORY: "96"}),
        ({"n": "2"}, {CORES: "32", MEMORY: "192"}),
        ({"n": "2", "mem": "8", "cores": "4"}, {CORES: "32", MEMORY: "192"}),
        ({"n": "1", "mem": "32", "cores": "8"}, {}),
        ({"n": "1", "mem": "32"}, {}),
    ],
)
def test_whole_cards_are_written_into_the_pod(limits, written):
    found = mutation(**limits)
    assert found.uses_devices
    assert found.limits == found.requests == written
    count = int(limits["n"])
    assert found.pod_annotations == ({"mthreads.com/request-gpu-num": limits["n"]} if count > 1 else {})


def test_the_card_model_sets_the_size_of_a_whole_card():
    assert mutation({"memoryPerCard": [160]}, n="2").limits == {CORES: "32", MEMORY: "320"}


def test_with_several_models_the_node_sets_the_size_of_a_whole_card():
    found = mutation(BOTH_MODELS, n="2")
    assert found.limits == {CORES: "32"}
    asked = container(n="2", cores="32")
    assert loaded(**BOTH_MODELS).parse(asked, POD) == (Request("Mthreads", 2, 0, 100, 16),)


@pytest.mark.parametrize(
    ("section", "legal"),
    [
        ({}, [2, 4, 8, 16, 32, 64, 96]),
        ({"memoryPerCard": [160]}, [2, 4, 8, 16, 32, 64, 128, 160]),
        (BOTH_MODELS, [2, 4, 8, 16, 32, 64, 96, 128, 160]),
        ({"memoryPerCard": [64]}, [2, 4, 8, 16, 32, 64]),
    ],
)
def test_a_part_has_one_of_the_sizes_of_the_card_models(section, legal):
    for units in range(200):
        if units in legal:
            assert mutation(section, n="1", mem=str(units), cores="1").limits == {}
            continue
        with pytest.raises(RequestError) as refused:
            mutation(section, n="1", mem=str(units), cores="1")
        assert refused.value.problem == f"sGPU memory request value is invalid, valid values are {legal}"
        assert refused.value.field == MEMORY


@pytest.mark.parametrize("memory", ["192", "320"])
def test_with_several_models_memory_of_several_cards_names_a_model(memory):
    assert mutation(BOTH_MODELS, n="2", mem=memory).limits == {CORES: "32"}
    with pytest.raises(RequestError, match=r"valid values are \[192, 320\]"):
        mutation(BOTH_MODELS, n="2", mem="64")


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({"n": "0"}, f"{COUNT}: {COUNT} must be greater than 0 (write 1 or more, or remove it)"),
        ({"n": "-1"}, f"{COUNT}: {COUNT} must be greater than 0"),
        ({"n": "1.5"}, f"{COUNT}: '1.5' is not a whole number"),
        ({"n": "4294967296"}, f"{COUNT}: 4294967296 is above the largest amount"),
        ({"n": "1", "mem": "16Gi"}, f"{MEMORY}: '16Gi' has a unit"),
        ({"n": "1", "mem": "0"}, "valid values are [2, 4, 8, 16, 32, 64, 96]"),
        ({"n": "2", "mem": "16Gi"}, f"{MEMORY}: '16Gi' has a unit"),
        ({"n": "1", "mem": "2", "cores": "17"}, f"{CORES}: 17 is above the 16 core groups of a card (write 1 to 16)"),
        ({"n": "1", "mem": "2", "cores": "0.5"}, f"{CORES}: '0.5' is not a whole number"),
        ({"n": "1", "whole": "1"}, f"{COUNT}: it can't be mixed with mthreads.com/gpu in one container"),
    ],
)
def test_admission_refuses_wrong_amounts_by_name(limits, told):
    with pytest.raises(RequestError) as refused:
        mutation(**limits)
    assert str(refused.value).startswith("container c: ")
    assert told in str(refused.value)


def test_containers_without_a_count_are_left_alone():
    assert mutation(mem="32", cores="8") is None
    assert mutation(whole="1") is None


# --- requests and placement ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "request_"),
    [
        ({"n": "1", "mem": "32", "cores": "8"}, Request("Mthreads", 1, 16384, None, 8)),
        ({"n": "1", "mem": "32"}, Request("Mthreads", 1, 16384, None, 0)),
        ({"n": "2", "mem": "192", "cores": "32"}, Request("Mthreads", 2, 49152, None, 16)),
        ({"n": "3", "mem": "5", "cores": "4"}, Request("Mthreads", 3, 853, None, 1)),
    ],
)
def test_amounts_are_the_sums_of_all_cards(limits, request_):
    assert loaded().parse(container(**limits), POD) == (request_,)


def place(*specs: ContainerSpec, section=None, facts=(), **annotations: str):
    """Filter and book a pod on nodes; the answer is its allocation, or why the only node refuses it."""
    found = loaded(**section or {})
    inventory = Inventory(found.rules(), PolicyDefaults())
    for one in facts or [node(cores="32", mem="192")]:
        inventory.set_node(one, found.register(one).devices)
    admitted = []
    for spec in specs:
        change = found.mutate(spec, POD)
        admitted.append(ContainerSpec(spec.name, spec.kind, {**spec.limits, **(change.limits if change else {})}))
    wanted = pod_request("u", "ns", "p", admitted, annotations, found.parse)
    names = [one.name for one in facts or [node()]]
    outcome = inventory.filter(wanted, names)
    if not outcome.best:
        return " ".join(map(str, dict(outcome.refused).values()))
    booked = inventory.book(wanted, outcome.best[0][0])
    assert isinstance(booked, Allocation)
    return booked


def test_all_containers_of_a_pod_get_the_same_card():
    part = {"n": "1", "mem": "32", "cores": "4"}
    booked = place(container("a", ContainerKind.INIT, **part), container("b", **part), container("c", **part))
    assert len({piece.device_id for pieces in booked.of("Mthreads") for piece in pieces}) == 1
    assert [len(pieces) for pieces in booked.of("Mthreads")] == [1, 1, 1]


def test_containers_that_do_not_fit_on_one_card_are_refused():
    large = {"n": "1", "mem": "64", "cores": "4"}
    assert isinstance(place(container("a", **large)), Allocation)
    assert isinstance(place(container("a", **large), container("b", **large)), str)


@pytest.mark.parametrize("kind", [ContainerKind.APP, ContainerKind.INIT])
def test_only_one_container_of_a_pod_may_ask_for_several_cards(kind):
    assert "ModeNotFit" in place(container("a", kind, n="2"), container("b", n="1", mem="2"))
    assert len(place(container("a", n="2")).of("Mthreads")[0]) == 2


def test_whole_cards_are_as_large_as_those_of_the_node():
    facts = [node(cores="32", mem="320")]
    booked = place(container(n="2"), section=BOTH_MODELS, facts=facts)
    assert [(p.memory_mib, p.cores) for p in booked.of("Mthreads")[0]] == [(81920, 16)] * 2


def test_sizes_of_the_larger_model_find_its_nodes():
    facts = [node(name="s4000", cores="16", mem="96"), node(name="s5000", cores="16", mem="160")]
    assert place(container(n="1", mem="128", cores="8"), section=BOTH_MODELS, facts=facts).node == "s5000"


@pytest.mark.parametrize(("key", "card"), [("use", "n1-mthreads-0"), ("nouse", "n1-mthreads-1")])
def test_cards_are_chosen_by_annotation(key, card):
    booked = place(container(n="1", mem="2"), **{f"mthreads.ai/{key}-gpuuuid": card})
    assert [piece.device_id for piece in booked.of("Mthreads")[0]] == ["n1-mthreads-0"]


def test_the_example_pods_fit():
    examples = Path(__file__).parents[3] / "examples" / "mthreads.yaml"
    for pod in yaml.safe_load_all(examples.read_text()):
        specs = [
            ContainerSpec(c["name"], ContainerKind.APP, {k: str(v) for k, v in c["resources"]["limits"].items()})
            for c in pod["spec"]["containers"]
        ]
        assert isinstance(place(*specs, **pod["metadata"].get("annotations", {})), Allocation), pod["metadata"]["name"]


# --- annotations -----------------------------------------------------------------------------------------------------


def test_the_plugin_is_told_the_cards_the_node_and_the_time():
    one, two = (Slice(f"n1-mthreads-{i}", "Mthreads", 49152, 16, index=i) for i in (3, 0))
    parts = (ContainerSlices("i", ContainerKind.INIT), ContainerSlices("c", ContainerKind.APP, (one, two)))
    bound = PodFacts("ns", "p", "u", decided_at_ns=1_700_000_000_123_456_789)
    assert loaded().patch_annotations(bound, Allocation("n1", parts)) == {
        "mthreads.com/gpu-index": "3,0",
        "mthreads.com/predicate-time": "1700000000123456789",
        "mthreads.com/predicate-node": "n1",
    }


def test_a_card_that_several_containers_share_is_told_once():
    parts = tuple(
        ContainerSlices(name, ContainerKind.APP, (Slice("n1-mthreads-3", "Mthreads", 1024, 1),)) for name in "ab"
    )
    written = loaded().patch_annotations(POD, Allocation("n1", parts))
    assert written["mthreads.com/gpu-index"] == "3"


# --- device-config ---------------------------------------------------------------------------------------------------


def test_resource_names_are_settings():
    found = loaded(resourceCountName="a.b/n", resourceMemoryName="a.b/m", resourceCoreName="a.b/c")
    (family,) = found.families.values()
    assert family.resources.names() == ("a.b/n", "a.b/m", "a.b/c")
    assert family.offered_resource == "a.b/c"


@pytest.mark.parametrize("value", [[], [0], [1], [4096], ["x"], 96])
def test_impossible_card_sizes_are_refused_by_name(value):
    found = load({"mthreads": {"memoryPerCard": value}}, only=["mthreads"])
    (problem,) = found.problems
    assert "memoryPerCard" in str(problem)


def test_explanation_shows_core_groups_in_percent():
    found = loaded()
    inventory = Inventory(found.rules(), PolicyDefaults())
    facts = node(cores="16", mem="96")
    inventory.set_node(facts, found.register(facts).devices)

    def asked(uid: str):
        one = container(n="1", mem="32", cores="12")
        return pod_request(uid, "ns", uid, [one], {}, found.parse)

    assert isinstance(inventory.book(asked("p0"), "n1"), Allocation)
    said = inventory.explain_text(asked("p1"))
    assert "needs 16384 MiB and 12 cores on one card" in said
    assert "the least busy has 25 % of its cores free" in said
