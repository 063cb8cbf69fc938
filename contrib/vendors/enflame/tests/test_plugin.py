"""The vendor as the core loads it: whole GCUs, DRS slices, and annotations for Enflame's plugin."""

from __future__ import annotations

import json

import pytest
from hami_enflame.drs import CAPACITY_KEY, SIZES, read_profiles

from hami_core.errors import RequestError
from hami_core.inventory import Inventory, PolicyDefaults
from hami_core.model import Allocation, Booking, ContainerKind, ContainerSpec, NodeFacts, PodFacts
from hami_core.placement.request import pod_request
from hami_core.plugins import load
from hami_core.wire import keys, pod

GCU, DRS, MEMORY, CORES = "enflame.com/gcu", "enflame.com/drs-gcu", "enflame.com/gcu-memory", "enflame.com/gcu-core"
S60 = {"1g.6gb": "0", "3g.20gb": "1", "6g.40gb": "2"}
NOW_NS = 1_778_573_037_904_666_832
POD = PodFacts("ns", "p", "u", decided_at_ns=NOW_NS)


def loaded(**section: object):
    found = load({"enflame": section} if section else {}, only=["enflame"])
    assert not found.problems
    return found


def node(*capacities: object, profiles: object = None, offers: tuple[str, ...] = (DRS,)) -> NodeFacts:
    """A node with a GCU in DRS mode for each capacity. Its minor numbers are not its indexes."""
    rows = [{"index": str(i), "minor": str(i + 4), "capacity": n} for i, n in enumerate(capacities)]
    text = json.dumps({"devices": rows, "profiles": S60 if profiles is None else profiles})
    amounts = dict.fromkeys(offers, "6")
    return NodeFacts("n1", {CAPACITY_KEY: text}, capacity=amounts, allocatable=amounts)


class World:
    """A scheduler with one node."""

    def __init__(self, facts: NodeFacts) -> None:
        self.loaded = loaded()
        self.inventory = Inventory(self.loaded.rules(), PolicyDefaults())
        self.inventory.set_node(facts, {k: v or () for k, v in self.loaded.register(facts).devices.items()})
        self.pods = 0

    def place(self, *limits: dict[str, str], **annotations: str) -> Allocation | str:
        """Place a pod with a container for each of these limits. Returns its slices, or why there is no room."""
        self.pods += 1
        specs = [ContainerSpec(f"c{i}", ContainerKind.APP, one) for i, one in enumerate(limits)]
        keys = {f"enflame.com/{key}-gpuuuid": value for key, value in annotations.items()}
        request = pod_request(f"u{self.pods}", "ns", f"p{self.pods}", specs, keys, self.loaded.parse)
        answer = self.inventory.book(request, "n1")
        return answer if isinstance(answer, Allocation) else self.inventory.explain_text(request, "n1")


def given(answer: Allocation | str) -> list[tuple[str, int, int]]:
    assert isinstance(answer, Allocation), answer
    return [(s.device_id, s.memory_mib, s.cores) for c in answer.containers for s in c.slices]


# --- a node's devices ------------------------------------------------------------------------------------------------


def test_whole_gcus_follow_from_the_capacity():
    amounts = {GCU: "2"}
    found = loaded().register(NodeFacts("n1", capacity=amounts, allocatable=amounts)).devices
    assert [(d.id, d.slots, d.memory_mib, d.cores, d.healthy) for d in found["GCU"]] == [
        ("n1-GCU-0", 1, 100, 100, True),
        ("n1-GCU-1", 1, 100, 100, True),
    ]
    assert found["Enflame"] == ()


@pytest.mark.parametrize("capacity", [6, "6"])
def test_gcus_in_drs_mode_follow_from_the_annotation(capacity):
    (card,) = loaded().register(node(capacity)).devices["Enflame"]
    assert (card.id, card.index, card.slots, card.memory_mib, card.cores) == ("n1-enflame-drs-0", 0, 6, 40960, 102)


def test_devices_are_known_by_index_and_not_by_position():
    text = node(6, 6).annotations[CAPACITY_KEY].replace('"index": "0"', '"index": "7"')
    found = loaded().register(NodeFacts("n1", {CAPACITY_KEY: text}, allocatable={DRS: "12"})).devices["Enflame"]
    assert [(d.id, d.custom["minor"]) for d in found] == [("n1-enflame-drs-1", "5"), ("n1-enflame-drs-7", "4")]


@pytest.mark.parametrize("amounts", [{}, {DRS: "0"}])
def test_gcus_of_a_stopped_plugin_are_unhealthy(amounts):
    facts = NodeFacts("n1", node(6).annotations, capacity={DRS: "6"}, allocatable=amounts)
    (card,) = loaded().register(facts).devices["Enflame"]
    assert (card.healthy, card.not_offered) == (False, f"the kubelet offers no {DRS}")


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"capacity": 0}, "capacity 0"),
        ({"capacity": float("nan")}, "capacity: 'nan'"),
        ({"capacity": float("inf")}, "capacity: 'inf'"),
        ({"capacity": True}, "capacity: 'True'"),
        ({"capacity": "-6"}, "capacity: '-6'"),
        ({"index": "one"}, "index: 'one' is not a whole number"),
        ({"minor": "../0"}, "minor '../0'"),
        ({"index": "0"}, "index 0"),
        ({"index": "\u0662"}, "index: '\u0662' is not a whole number"),
    ],
)
def test_malformed_devices_close_the_family_and_say_where(row, problem):
    rows = [{"index": "0", "minor": "0", "capacity": 6}, {"index": "1", "minor": "1", "capacity": 6} | row]
    text = json.dumps({"devices": rows, "profiles": S60})
    found = loaded().register(NodeFacts("n1", {CAPACITY_KEY: text}))
    assert found.devices["Enflame"] is None
    assert f"{CAPACITY_KEY} at 1: " in str(found.errors[0])
    assert problem in str(found.errors[0])


@pytest.mark.parametrize("profiles", [{}, [], {"small": "0"}, {"0g.6gb": "0"}, {"16g.80gb": "0"}, {"11g.80gb": "0"}])
def test_a_node_without_countable_profiles_is_closed(profiles):
    found = loaded().register(node(6, profiles=profiles))
    assert found.devices["Enflame"] is None
    assert "the largest with 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12 slices" in str(found.errors[0])


@pytest.mark.parametrize("whole", SIZES)
def test_sizes_fill_a_gcu_and_never_one_slice_more(whole):
    percents = {p.size: p.cores for p in read_profiles({f"{n}g.{n}gb": "0" for n in range(1, whole + 1)})}
    least = {0: 0}
    for total in range(1, whole + 2):
        least[total] = min(percents[n] + least[total - n] for n in range(1, min(total, whole) + 1))
    assert least[whole + 1] > whole * percents[1]


@pytest.mark.parametrize("profiles", [{"1g.6gb": "a b"}, {"1g.6gb": None}, {"1g.6gb": True}, {"1g.6gb": {}}])
def test_a_node_without_usable_profiles_is_closed(profiles):
    found = loaded().register(node(6, profiles=profiles))
    assert found.devices["Enflame"] is None
    assert "no valid drs profiles" in str(found.errors[0])


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, '{"devices": 1}'])
def test_text_that_is_no_list_of_gcus_closes_the_family(text):
    assert loaded().register(NodeFacts("n1", {CAPACITY_KEY: text})).devices["Enflame"] is None


# --- requests --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({DRS: "0"}, f"{DRS}: {DRS} must be greater than 0"),
        ({DRS: "-1"}, f"{DRS}: -1 is negative"),
        ({DRS: "1.5"}, f"{DRS}: '1.5' is not a whole number"),
        ({MEMORY: "0"}, f"{MEMORY}: {MEMORY} must be greater than 0"),
        ({MEMORY: "20Gi"}, f"{MEMORY}: "),
        ({CORES: "0"}, f"{CORES}: {CORES} must be in range (0,100] (write a percentage from 1 to 100)"),
        ({CORES: "101"}, f"{CORES}: {CORES} must be in range (0,100]"),
        ({DRS: "1", MEMORY: "20480"}, f"{DRS}: is written beside an amount"),
        ({GCU: "-1"}, f"{GCU}: -1 is negative"),
    ],
)
def test_admission_refuses_wrong_amounts(limits, told):
    with pytest.raises(RequestError) as refused:
        loaded().mutate(ContainerSpec("c", ContainerKind.APP, limits), POD)
    assert str(refused.value).startswith(f"container c: {told}")


@pytest.mark.parametrize("kind", [ContainerKind.INIT, ContainerKind.SIDECAR])
def test_admission_refuses_slices_in_init_containers(kind):
    with pytest.raises(RequestError, match="serves no init containers and no sidecars"):
        loaded().mutate(ContainerSpec("c", kind, {DRS: "1"}), POD)
    assert loaded().mutate(ContainerSpec("c", kind, {GCU: "1"}), POD).uses_devices


def test_admission_writes_amounts_into_limits_and_requests():
    found = loaded().mutate(ContainerSpec("c", ContainerKind.APP, {CORES: "40"}, {MEMORY: "20480"}), POD)
    assert (found.limits, found.requests) == ({MEMORY: "20480"}, {CORES: "40"})
    assert loaded().mutate(ContainerSpec("c", ContainerKind.APP, {"cpu": "1"}), POD) is None


# --- placement -------------------------------------------------------------------------------------------------------


def test_a_size_gets_the_profile_of_that_size():
    assert given(World(node(6)).place({DRS: "3"})) == [("n1-enflame-drs-0", 20480, 50)]


def test_a_size_without_a_profile_is_told_the_legal_sizes():
    why = World(node(6)).place({DRS: "2"})
    assert "none has size 2; the node's profiles are 1g.6gb (1), 3g.20gb (3), 6g.40gb (6)" in why


@pytest.mark.parametrize(
    ("limits", "memory"),
    [
        ({MEMORY: "20480", CORES: "40"}, 20480),
        ({MEMORY: "20481"}, 40960),
        ({MEMORY: "20"}, 20480),
        ({MEMORY: "80"}, None),
        ({MEMORY: "81"}, 6144),
        ({CORES: "10"}, 6144),
        ({CORES: "51"}, 40960),
        ({MEMORY: "40961"}, None),
    ],
)
def test_memory_and_cores_get_the_smallest_profile_with_both(limits, memory):
    answer = World(node(6, offers=(DRS, MEMORY, CORES))).place(limits)
    if memory is None:
        assert "none has" in answer
    else:
        assert [m for _, m, _ in given(answer)] == [memory]


def test_memory_that_the_kubelet_does_not_offer_is_refused_with_the_size():
    """The kubelet would not ask the plugin, and the container would start without a GCU."""
    why = World(node(6)).place({MEMORY: "20480", CORES: "40"})
    assert f"the kubelet offers no {MEMORY}; write {DRS}: 3" in why


def test_slices_fill_a_gcu_and_no_more():
    world = World(node(6))
    for size in ("3", "1", "1", "1"):
        given(world.place({DRS: size}))
    assert "the freest has 2048 MiB free" in str(world.place({DRS: "1"}))


def test_a_gcu_with_broken_slices_gives_only_the_others():
    world = World(node(3))
    given(world.place({DRS: "3"}))
    assert not isinstance(world.place({DRS: "1"}), Allocation)


def test_a_restarted_scheduler_counts_the_size_of_slices():
    facts, first = node(6), World(node(6))
    written = pod.allocation_annotations(first.place({DRS: "3"}), first.loaded.families, 1, keys.PHASE_SUCCESS)
    second = World(facts)
    read = pod.decode_allocation(written, second.loaded.families, [("c0", ContainerKind.APP)])
    assert read is not None
    second.inventory.set_pod(Booking("u", "ns", "old", read))
    assert not isinstance(second.place({DRS: "6"}), Allocation)
    given(second.place({DRS: "3"}))
    assert not isinstance(second.place({DRS: "1"}), Allocation)


def test_containers_of_a_pod_share_one_gcu():
    world = World(node(6, 6))
    both = given(world.place({DRS: "3"}, {DRS: "3"}))
    assert len({device for device, _, _ in both}) == 1
    given(world.place({DRS: "1"}))
    assert not isinstance(world.place({DRS: "3"}, {DRS: "3"}), Allocation), "the other GCU has 5 slices left"


def test_gcus_are_chosen_by_annotation():
    assert given(World(node(6, 6)).place({DRS: "1"}, use="n1-enflame-drs-0"))[0][0] == "n1-enflame-drs-0"
    assert given(World(node(6, 6)).place({DRS: "1"}, nouse="n1-enflame-drs-1"))[0][0] == "n1-enflame-drs-0"


# --- annotations and settings ----------------------------------------------------------------------------------------


def test_the_pod_names_its_gcu_and_the_profile_of_each_container():
    placed = World(node(6)).place({DRS: "3"}, {"cpu": "1"}, {DRS: "1"})
    written = loaded().patch_annotations(POD, placed)
    assert json.loads(written.pop("assigned-containers")) == {
        "c0": {"allocated": False, "request": 3, "profileID": "1", "profileName": "3g.20gb"},
        "c2": {"allocated": False, "request": 1, "profileID": "0", "profileName": "1g.6gb"},
    }
    assert written == {
        "enflame.com/gcu-assigned": "false",
        "enflame.com/gcu-assigned-time": str(NOW_NS),
        "enflame.com/gcu-assigned-index": "0",
        "enflame.com/gcu-assigned-id": "0",
        "enflame.com/gcu-assigned-minor": "4",
        "enflame.com/gcu-request-size": "4",
    }


def test_containers_are_listed_by_name_as_hami_lists_them():
    specs = [ContainerSpec(name, ContainerKind.APP, {DRS: "1"}) for name in ("web", "api")]
    world = World(node(6))
    placed = world.inventory.book(pod_request("u", "ns", "p", specs, {}, world.loaded.parse), "n1")
    text = loaded().patch_annotations(POD, placed)["assigned-containers"]
    record = '{"allocated":false,"request":1,"profileID":"0","profileName":"1g.6gb"}'
    assert text == f'{{"api":{record},"web":{record}}}'


def test_whole_gcus_need_no_annotations():
    amounts = {GCU: "2"}
    placed = World(NodeFacts("n1", capacity=amounts, allocatable=amounts)).place({GCU: "2"})
    assert [device for device, _, _ in given(placed)] == ["n1-GCU-1", "n1-GCU-0"]
    assert loaded().patch_annotations(POD, placed) == {}


@pytest.mark.parametrize(
    ("section", "name"),
    [
        ({}, DRS),
        ({"resourceNameVGCU": "e.example/vgcu"}, "e.example/vgcu"),
        ({"resourceNameVGCU": "e.example/vgcu", "resourceNameDRSGCU": "e.example/drs"}, "e.example/drs"),
        ({"resourceNameDRSGCU": "", "resourceNameVGCUPercentage": "e.example/percent"}, DRS),
    ],
)
def test_the_older_resource_name_counts_if_there_is_no_newer(section, name):
    family = loaded(**section).families["Enflame"]
    assert family.resources.count == family.offered_resource == name
