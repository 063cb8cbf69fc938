"""The vendor as the core loads it: devices from capacity, neighbours, cores, and annotations for AWS's plugin."""

from __future__ import annotations

import pytest

from hami_core.errors import RequestError, VendorError
from hami_core.inventory import Inventory, PolicyDefaults
from hami_core.model import Allocation, Booking, ContainerKind, ContainerSpec, NodeFacts, PodFacts
from hami_core.placement.request import pod_request
from hami_core.plugins import load
from hami_core.wire import keys, pod

NEURON, CORE = "aws.amazon.com/neuron", "aws.amazon.com/neuroncore"
NOW_NS = 1_750_000_000_123_456_789
POD = PodFacts("ns", "p", "u", decided_at_ns=NOW_NS)


def loaded(**section: object):
    found = load({"awsneuron": section} if section else {}, only=["awsneuron"])
    assert not found.problems
    return found


def node(devices: object, cores: object, instance_type: str = "inf2.48xlarge", name: str = "n1") -> NodeFacts:
    amounts = {NEURON: str(devices), CORE: str(cores)}
    labels = {"node.kubernetes.io/instance-type": instance_type} if instance_type else {}
    return NodeFacts(name, labels=labels, capacity=amounts, allocatable=amounts)


class World:
    """A scheduler with one node."""

    def __init__(self, facts: NodeFacts) -> None:
        self.loaded = loaded()
        self.inventory = Inventory(self.loaded.rules(), PolicyDefaults())
        found = self.loaded.register(facts)
        assert not found.errors
        self.inventory.set_node(facts, {word: devices or () for word, devices in found.devices.items()})
        self.pods = 0

    def place(self, *limits: dict[str, object], **annotations: str) -> Allocation | str:
        """Place a pod with a container for each of these limits. Returns its slices, or why there is no room."""
        self.pods += 1
        named = [{name: str(amount) for name, amount in one.items()} for one in limits]
        specs = [ContainerSpec(f"c{i}", ContainerKind.APP, one) for i, one in enumerate(named)]
        told = {
            "hami.io/gpu-scheduler-policy" if k == "policy" else f"aws.amazon.com/{k}-neuron-uuid": v
            for k, v in annotations.items()
        }
        request = pod_request(f"u{self.pods}", "ns", f"p{self.pods}", specs, told, self.loaded.parse)
        answer = self.inventory.book(request, "n1")
        return answer if isinstance(answer, Allocation) else self.inventory.explain_text(request, "n1")

    def take(self, *indexes: int) -> None:
        """Use these devices as a whole."""
        for index in indexes:
            given(self.place({NEURON: 1}, use=f"n1-AWSNeuron-{index}"))


def given(answer: Allocation | str) -> list[tuple[int, int]]:
    """Index and cores of each device, by index."""
    assert isinstance(answer, Allocation), answer
    return sorted((s.index, s.cores) for c in answer.containers for s in c.slices)


# --- a node's devices ------------------------------------------------------------------------------------------------


def test_devices_and_their_cores_follow_from_the_capacity():
    found = loaded().register(node(2, 4)).devices["AWSNeuron"]
    assert [(d.id, d.index, d.slots, d.memory_mib, d.cores, d.healthy) for d in found] == [
        ("n1-AWSNeuron-0", 0, 2, 0, 3, True),
        ("n1-AWSNeuron-1", 1, 2, 0, 3, True),
    ]


def test_each_node_has_its_own_number_of_cores():
    vendor = loaded()
    sizes = [vendor.register(node(1, cores, name=f"n{cores}")).devices["AWSNeuron"][0].cores for cores in (4, 1, 2)]
    assert sizes == [3, 1, 3], "two cores of a device at most"


@pytest.mark.parametrize(
    ("devices", "cores", "problem"),
    [
        (2, 3, "3 cores cannot be divided evenly among 2 devices"),
        (2, 0, "0 cores"),
        (2, "x", "capacity aws.amazon.com/neuroncore"),
        ("-1", 2, "capacity aws.amazon.com/neuron"),
        (5000, 10000, "capacity aws.amazon.com/neuron"),
    ],
)
def test_impossible_capacity_closes_the_family_and_says_where(devices, cores, problem):
    found = loaded().register(node(devices, cores))
    assert found.devices["AWSNeuron"] is None
    assert problem in str(found.errors[0])


def test_a_node_whose_plugin_is_away_has_no_healthy_devices():
    facts = NodeFacts("n1", capacity={NEURON: "1", CORE: "2"}, allocatable={NEURON: "0", CORE: "0"})
    (device,) = loaded().register(facts).devices["AWSNeuron"]
    assert (device.healthy, device.not_offered) == (False, f"the kubelet offers no {NEURON}")


# --- requests --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({NEURON: "0"}, f"{NEURON}: {NEURON} must be greater than 0"),
        ({NEURON: "-2"}, f"{NEURON}: {NEURON} must be greater than 0"),
        ({NEURON: "1.5"}, f"{NEURON}: {NEURON} must be an integer: '1.5' is not a whole number"),
        ({NEURON: "2147483648"}, f"{NEURON}: {NEURON} must not exceed 2147483647"),
        ({CORE: "0"}, f"{CORE}: {CORE} must be greater than 0"),
        ({CORE: "16Gi"}, f"{CORE}: {CORE} must be an integer: "),
        ({CORE: "3"}, f"{CORE}: {CORE} must be 1 or a multiple of 2, got 3"),
        ({CORE: "4294967296"}, f"{CORE}: {CORE} must not exceed 4294967294"),
        ({CORE: "2", NEURON: "1"}, f"{CORE}: is written beside {NEURON}"),
    ],
)
def test_admission_refuses_wrong_amounts(limits, told):
    with pytest.raises(RequestError) as refused:
        loaded().mutate(ContainerSpec("c", ContainerKind.APP, limits), POD)
    assert str(refused.value).startswith(f"container c: {told}")


def test_admission_sends_devices_and_cores_to_our_scheduler():
    for name in (NEURON, CORE):
        assert loaded().mutate(ContainerSpec("c", ContainerKind.APP, requests={name: "1"}), POD).uses_devices
    assert loaded().mutate(ContainerSpec("c", ContainerKind.APP, {"cpu": "1"}), POD) is None


# --- placement -------------------------------------------------------------------------------------------------------


def test_containers_share_a_device_by_its_cores():
    world = World(node(1, 2))
    assert given(world.place({CORE: 1})) == [(0, 1)]
    assert not isinstance(world.place({CORE: 2}), Allocation)
    assert not isinstance(world.place({NEURON: 1}), Allocation)
    assert given(world.place({CORE: 1})) == [(0, 2)]
    assert not isinstance(world.place({CORE: 1}), Allocation)


def test_a_pod_is_told_cores_and_the_part_that_is_free():
    world = World(node(1, 2))
    given(world.place({CORE: 1}))
    assert "needs 2 cores on one card" in str(world.place({CORE: 2}))
    assert "has 50 % of its cores free" in str(world.place({CORE: 2}))
    assert "has 50 % of its cores free" in str(world.place({NEURON: 1}))


def test_a_freed_core_is_given_again():
    world = World(node(1, 2))
    for _ in range(2):
        given(world.place({CORE: 1}))
    world.inventory.release("u1")
    assert given(world.place({CORE: 1})) == [(0, 1)]


@pytest.mark.parametrize(("cores", "mask"), [(1, 1), (2, 3), (4, 3)])
def test_a_whole_device_has_all_cores_of_its_node(cores, mask):
    assert given(World(node(1, cores)).place({NEURON: 1})) == [(0, mask)]


def test_two_cores_do_not_fit_on_devices_with_one():
    assert not isinstance(World(node(4, 4)).place({CORE: 2}), Allocation)


@pytest.mark.parametrize(
    ("used", "count", "got"),
    [((), 3, [0, 1, 2]), ((1,), 3, [2, 3, 4]), ((1, 4), 3, [5, 6, 7]), ((1, 3, 5), 2, [6, 7]), ((2, 5), 3, None)],
)
def test_a_ring_gives_consecutive_devices(used, count, got):
    world = World(node(8, 16))
    world.take(*used)
    answer = world.place({NEURON: count})
    if got is None:
        assert "no 3 neighbours are idle" in answer
    else:
        assert given(answer) == [(index, 3) for index in got]


@pytest.mark.parametrize(
    ("used", "count", "got"),
    [((), 4, [0, 1, 2, 3]), ((2,), 4, [4, 5, 6, 7]), ((7,), 8, [8, 9, 10, 11, 12, 13, 14, 15]), ((7, 13), 8, None)],
)
def test_a_torus_gives_aligned_devices(used, count, got):
    world = World(node(16, 32, "trn1.32xlarge"))
    world.take(*used)
    answer = world.place({NEURON: count})
    if got is None:
        assert "no 8 devices are idle that start at a multiple of 8" in answer
    else:
        assert given(answer) == [(index, 3) for index in got]


@pytest.mark.parametrize(("instance_type", "shown"), [("trn1.32xlarge", "trn1.32xlarge"), ("", "unknown")])
def test_a_torus_names_the_numbers_that_it_gives(instance_type, shown):
    why = World(node(16, 32, instance_type)).place({NEURON: 2})
    assert f"instance type {shown} gives 1, 4, 8, 16 devices to a container, not 2" in why


def test_several_devices_obey_the_id_annotations():
    world = World(node(6, 12))
    assert given(world.place({NEURON: 2}, nouse="n1-AWSNeuron-0,n1-AWSNeuron-2")) == [(3, 3), (4, 3)]
    assert not isinstance(world.place({NEURON: 2}, use="n1-AWSNeuron-0,n1-AWSNeuron-2"), Allocation)


@pytest.mark.parametrize("policy", ["mutex", "binpack", "spread"])
def test_several_devices_are_idle_under_every_policy(policy):
    world = World(node(4, 8))
    given(world.place({CORE: 1}, use="n1-AWSNeuron-1"))
    assert given(world.place({CORE: 4}, policy=policy)) == [(2, 3), (3, 3)]


def test_a_restarted_scheduler_knows_which_cores_are_taken():
    first = World(node(1, 2))
    given(first.place({CORE: 1}))
    written = pod.allocation_annotations(first.place({CORE: 1}), first.loaded.families, 1, keys.PHASE_SUCCESS)
    second = World(node(1, 2))
    read = pod.decode_allocation(written, second.loaded.families, [("c0", ContainerKind.APP)])
    assert read is not None
    second.inventory.set_pod(Booking("u", "ns", "old", read))
    assert given(second.place({CORE: 1})) == [(0, 1)], "the second core is taken"


# --- annotations and settings ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "limits", "ids", "kind"),
    [
        (node(6, 12), [{NEURON: 3}], "0,1,2", None),
        (node(1, 2), [{CORE: 2}], "0,1", CORE),
        (node(6, 12), [{CORE: 4}], "0,1,2,3", CORE),
        (node(1, 2), [{CORE: 1}, {"cpu": 1}, {CORE: 1}], "0,1", CORE),
    ],
)
def test_the_pod_names_its_devices_or_cores(facts, limits, ids, kind):
    written = dict(loaded().patch_annotations(POD, World(facts).place(*limits)))
    assert written.pop("NEURON_RESOURCE_TYPE", None) == kind
    assert written == {
        "AWS_NEURON_IDS": ids,
        "NEURON_ALLOC_TIME": str(NOW_NS),
        "NEURON_ALLOCATED": "false",
        "aws.amazon.com/predicate-node": "n1",
    }


def test_core_numbers_count_all_cores_of_the_devices_before():
    world = World(node(4, 16))
    placed = world.place({CORE: 1}, use="n1-AWSNeuron-3")
    assert loaded().patch_annotations(POD, placed)["AWS_NEURON_IDS"] == "12", "devices have 4 cores here"


def test_devices_and_cores_in_one_pod_are_refused_at_bind():
    placed = World(node(6, 12)).place({NEURON: 1}, {CORE: 1})
    found = loaded()
    with pytest.raises(VendorError, match="AWS's plugin reads one list"):
        found.patch_annotations(POD, placed)


def test_resource_names_are_settings():
    (family,) = loaded(resourceCountName="a.example/dev", resourceCoreName="a.example/core").families.values()
    assert family.resources.names() == ("a.example/dev", "a.example/core")
