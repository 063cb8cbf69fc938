"""A good vendor, and vendors that break one promise each. test_kit.py runs them in a process of its own."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, settings

from hami_core import (
    Advertisement,
    Capability,
    ContainerEdits,
    Device,
    DeviceError,
    DeviceNode,
    Family,
    Grade,
    HealthChange,
    Mount,
    PodFacts,
    Reason,
    Request,
    Resources,
    SelectorKeys,
    Support,
    hookimpl,
)

# the suites' settings build on this profile: a failing example need not be shrunk
settings.register_profile("quick", phases=(Phase.generate,), report_multiple_bugs=False)
settings.load_profile("quick")

from hami_core.plugins.hooks import HOOKS  # noqa: E402
from hami_core.testing import VendorSuite  # noqa: E402
from hami_core.vendorkit import default_parse_request  # noqa: E402

FAMILY = Family(
    word="GOOD",
    resources=Resources("good.io/npu", "good.io/memory", "", "good.io/cores"),
    allocated_key="hami.io/good-allocated",
    register_key="hami.io/node-good",
    pod_keys=("good.io/level",),
    uuid_selectors=(SelectorKeys("good.io/use", "good.io/nouse"),),
    type_selectors=(SelectorKeys("good.io/use-type", "good.io/nouse-type"),),
    capabilities={c: Grade(Support.FULL) for c in (Capability.UUID_SELECTORS, Capability.TYPE_SELECTORS)},
)
DEVICES = [Device(f"G{i}", i, 4, 1000, 100, "G-model", "GOOD") for i in range(2)]


class Good:
    api_version = (1, 0)

    @hookimpl
    def families(self):
        return [FAMILY]

    @hookimpl
    def custom_filter(self, request, device):
        return Reason("Busy") if device.used_slots >= 3 else None

    @hookimpl
    def fit_mask(self, columns):
        return columns["used_slots"] < 3


class GoodNode:
    """Makes an instance for each slice. Its driver is a folder: one file for each broken card and each instance."""

    api_version = (1, 0)

    def __init__(self):
        self.root = Path(os.environ["HAMI_GOOD_ROOT"])

    @hookimpl
    def discover(self):
        return [replace(d, healthy=self.works(d.id)) for d in DEVICES]

    def works(self, device_id):
        return not (self.root / f"broken-{device_id}").exists()

    @hookimpl
    def advertise(self, devices):
        names = {"id": "id", "index": "index", "count": "slots", "devmem": "memory_mib", "devcore": "cores"}
        register = [
            {**{key: getattr(d, name) for key, name in names.items()}, "type": d.type, "health": d.healthy}
            for d in devices
        ]
        slots = {f"{d.id}-{k}": (d.healthy, 0) for d in devices for k in range(d.slots)}
        return Advertisement({"hami.io/node-good": json.dumps(register)}, slots={"good.io/npu": slots})

    @hookimpl
    def health(self, devices):
        return [HealthChange(d.id, self.works(d.id)) for d in devices]

    @hookimpl
    def allocate(self, slices, container):
        owner = f"{container.pod_uid}/{container.container}"
        nodes = [DeviceNode(f"/dev/good/{self.instance(s, f'{owner}/{i}')}") for i, s in enumerate(slices)]
        return ContainerEdits({"GOOD_MEMORY": ",".join(str(s.memory_mib) for s in slices)}, device_nodes=tuple(nodes))

    def instance(self, piece, owner):
        """Find or make the owner's instance on the card."""
        for file in self.root.glob("G?.*"):
            if file.read_text() == owner:
                return file.name
        free = [f for f in (self.root / f"{piece.device_id}.{number}" for number in range(4)) if not f.exists()]
        if not free:
            raise DeviceError(f"{piece.device_id} has no room for another instance")
        free[0].write_text(owner)
        return free[0].name

    @hookimpl
    def release(self, container):
        for file in self.root.glob("G?.*"):
            if file.read_text().startswith(f"{container.pod_uid}/{container.container}/"):
                file.unlink()


class TestGood(VendorSuite):
    @pytest.fixture
    def vendor(self):
        return Good()

    @pytest.fixture
    def root(self, tmp_path, monkeypatch):
        folder = tmp_path / "good"
        folder.mkdir()
        monkeypatch.setenv("HAMI_GOOD_ROOT", str(folder))
        return folder

    @pytest.fixture
    def node_side(self, root):
        return GoodNode()

    @pytest.fixture
    def set_health(self, root):
        return lambda device, healthy: (
            (root / f"broken-{device}").unlink() if healthy else (root / f"broken-{device}").touch()
        )

    @pytest.fixture
    def leftovers(self, root):
        return lambda: [file.name for file in root.glob("G?.*")]

    @pytest.mark.xfail(reason="this class is in no distribution")
    def test_entry_point_names_this_class(self):
        pytest.fail("not installed")


class InPairs(Good):
    """Gives both cards of a pair, never one alone."""

    @hookimpl
    def choose(self, request, candidates):
        position = {usage.device.index: at for at, usage in enumerate(candidates)}
        pairs = [(at, position[index ^ 1]) for index, at in position.items() if index ^ 1 in position]
        return pairs[0] if pairs and request.count == 2 else Reason("NotAPair")


class TestGoodInPairs(TestGood):
    @pytest.fixture
    def vendor(self):
        return InPairs()


def mutant(name, test, side="vendor", says="", **changes):
    """Define a test class for a vendor with other hooks, methods or attributes.

    ``test`` must fail for it, with a text that matches ``says``.
    """
    base = Good if side == "vendor" else GoodNode
    hooks = {key: hookimpl(value) if key in HOOKS else value for key, value in changes.items()}
    made = type(name, (base,), hooks)
    fixture = pytest.fixture((lambda self: made()) if side == "vendor" else (lambda self, root: made()))
    globals()[f"Test{name}"] = type(
        f"Test{name}", (TestGood,), {side: fixture, "must_fail": (test, says), "__module__": __name__}
    )


def not_here(self):
    return Path("/etc/hostname").read_text() and None


def counting(self, device):
    counting.calls += 1
    return Reason("Odd") if counting.calls % 3 else None


counting.calls = 0


def slow(self, device):
    return None if sum(len(str(number)) for number in range(5000)) else Reason("x")


def typo(self, node):
    return [Device(**json.loads(node.annotations["hami.io/node-good"])[0])]


def memory_limit(self, container):
    raise KeyError("good.io/memory")


mutant("Stateless", "test_states_a_version_of_the_contract_we_have", api_version=(9, 0))
mutant("BadKeys", "test_names_are_legal_in_kubernetes", families=lambda self: [Family("B", Resources("npu"), "k")])
mutant("Silent", "test_something_is_declared", families=lambda self: [Family("B", Resources("a.b/c"), "a.b/k")])
mutant("Total", "test_register_is_total", register=typo)
mutant("Cut", "test_register_survives_half_written_annotations", register=typo)
mutant("Eager", "test_node_without_the_vendors_traces_has_no_devices", register=lambda self: DEVICES)
mutant("Deaf", "test_uuid_selectors_select", check_uuid=lambda self: None)
mutant("Blind", "test_type_selectors_select", check_type=lambda self: None)
mutant("Lazy", "test_impossible_count_is_refused_by_name", parse_request=lambda self: None)
mutant("Generous", "test_container_that_asks_for_nothing_gets_nothing", parse_request=lambda self: Request("GOOD", 1))
mutant("Crashing", "test_requests_are_total_and_bounded", parse_request=memory_limit)
mutant("Denying", "test_admission_is_total", mutate_admission=memory_limit)
mutant("Reading", "test_hooks_touch_nothing_but_their_arguments", check_type=not_here)
mutant("Ticking", "test_hooks_touch_nothing_but_their_arguments", check_type=lambda self: time.time() and None)
mutant("Moody", "test_checks_are_total_and_repeatable", custom_filter=counting)
mutant("Slow", "test_hooks_stay_within_their_budget", custom_filter=slow)
mutant(
    "Favour",
    "test_asking_for_more_never_helps",
    custom_filter=lambda self, request: Reason("S") if request.cores < 50 else None,
)
mutant("Twins", "test_mask_agrees_with_the_filter", fit_mask=lambda self, columns: columns["used_slots"] < 2)
mutant("Choosy", "test_choice_is_among_the_candidates", choose=lambda self: (7,))


def pairs_by_score(self, candidates):
    first = candidates[0].device
    return (0, 0) if any(first.pair_scores.values()) else None


def pairs_by_published_data(self, candidates):
    pairs = [usage.device.custom.get("pair") for usage in candidates]
    return (99, 100) if pairs[0] is not None else None


def pairs_by_index(self, request, candidates):
    """Correct for two devices. The sample nodes have no more."""
    return tuple(range(request.count)) if len(candidates) <= 2 else (0,) * request.count


for number, wrong in enumerate((pairs_by_score, pairs_by_published_data, pairs_by_index, lambda self: [True, False])):
    mutant(f"Pairing{number}", "test_choice_is_well_formed_whatever_the_links", choose=wrong)
mutant(
    "Unsure",
    "test_choice_is_among_the_candidates",
    families=lambda self: [replace(FAMILY, choose_is_preference=True)],
    choose=lambda self: Reason("NoPair"),
)
mutant("Refusing", "test_smallest_pod_is_scheduled", custom_filter=lambda self: Reason("Never"))
mutant("Masked", "test_mask_agrees_with_the_filter", fit_mask=lambda self, columns: np.ones((1, 1)) > 0)
mutant("Empty", "test_devices_are_discovered", "node_side", discover=lambda self: [])
mutant(
    "Forgetful",
    "test_scheduler_reads_back_what_the_node_advertises",
    "node_side",
    advertise=lambda self: Advertisement(),
)
mutant("Slotless", "test_slots_are_named_after_their_device", "node_side", advertise=lambda self: Advertisement())
mutant(
    "Optimist",
    "test_unhealthy_device_has_unhealthy_slots",
    "node_side",
    advertise=lambda self: Advertisement(slots={"good.io/npu": {"G0-0": (True, 0)}}),
)
mutant(
    "Fickle",
    "test_allocate_answers_the_same_again",
    "node_side",
    allocate=lambda self: ContainerEdits(env={"T": str(time.perf_counter_ns())}),
)
mutant(
    "Intruder",
    "test_edits_are_well_formed_and_keep_off_the_host",
    "node_side",
    allocate=lambda self: ContainerEdits(mounts=(Mount("/var/lib/kubelet", "/k"),)),
)


class TestCheat(TestGood):
    must_fail = ("test_no_standard_test_was_replaced_in_silence", "")

    def test_register_is_total(self):
        """Replaces a standard test without saying so."""


class TestDeleter(TestGood):
    must_fail = ("test_no_standard_test_was_replaced_in_silence", "")
    test_no_device_is_overbooked = None


# --- faults on the node side, each with the report that names it ------------------------------------------------------


def second_instance(self, piece, owner):
    """Make an instance without a look at what the container has."""
    return GoodNode.instance(self, piece, f"{owner}#{len(list(self.root.iterdir()))}")


def in_order_of_calls(self, slices, container):
    """Give the next card to the next container."""
    self.given = getattr(self, "given", {})
    index = self.given.setdefault(container.pod_uid, len(self.given))
    return ContainerEdits(device_nodes=(DeviceNode(f"/dev/good{index}"),))


def remembers_the_fault(self, devices):
    """Report a failure, and never its end."""
    self.failed = getattr(self, "failed", set()) | {d.id for d in devices if not self.works(d.id)}
    return [HealthChange(d.id, d.id not in self.failed) for d in devices]


def one_slot_less(self, devices):
    said = GoodNode.advertise(self, devices)
    slots = dict(said.slots["good.io/npu"])
    slots.pop("G1-3", None)
    return replace(said, slots={"good.io/npu": slots})


def until_the_first_bad_card(self):
    found = []
    for device in DEVICES:
        if not self.works(device.id):
            break
        found.append(device)
    return found


def believes_the_pod(self, slices, container):
    card = container.annotations.get("good.io/level") or slices[0].device_id
    return ContainerEdits(device_nodes=(DeviceNode(f"/dev/good/{card}"),))


def numbers_of_this_process(self):
    """Number the devices anew in each process."""
    type(self).starts = getattr(type(self), "starts", {})
    start = type(self).starts.setdefault(id(self), len(type(self).starts))
    return [replace(d, index=d.index + start) for d in DEVICES]


def forgets_what_it_made_before(self, container):
    for name in getattr(self, "made", {}).pop(f"{container.pod_uid}/{container.container}", ()):
        (self.root / name).unlink(missing_ok=True)


def instance_in_memory(self, piece, owner):
    name = GoodNode.instance(self, piece, owner)
    self.made = getattr(self, "made", {})
    self.made.setdefault(owner.rpartition("/")[0], []).append(name)
    return name


def keeps_only_its_own(self):
    """Remove the instances that this process did not make."""
    mine = {name for names in getattr(self, "made", {}).values() for name in names}
    for file in self.root.glob("G?.*"):
        if file.name not in mine:
            file.unlink()


def whole_card(self, container):
    """Remove every instance of a card that the container used."""
    for file in list(self.root.glob("G?.*")):
        if file.exists() and file.read_text().startswith(f"{container.pod_uid}/"):
            for other in self.root.glob(f"{file.stem}.*"):
                other.unlink()


def all_or_nothing(self, devices):
    every = all(d.healthy for d in devices)
    return GoodNode.advertise(self, [replace(d, healthy=every) for d in devices])


mutant(
    "Doubling",
    "test_nothing_is_made_twice",
    "node_side",
    "repeated allocate for pod-1/c0 .* makes G",
    instance=second_instance,
)
mutant(
    "InOrder",
    "test_each_container_gets_its_own_devices_in_any_order",
    "node_side",
    "allocate for pod-.* depends on the order",
    allocate=in_order_of_calls,
)
mutant(
    "OnlyTheFirst",
    "test_container_gets_each_of_its_devices",
    "node_side",
    "allocate gives the same for",
    allocate=lambda self, slices, container: GoodNode.allocate(self, slices[:1], container),
)
mutant(
    "Sweeping",
    "test_tending_keeps_what_containers_have",
    "node_side",
    "tend removes G.* of a live container",
    tend=keeps_only_its_own,
    instance=instance_in_memory,
)
mutant(
    "Hoarding",
    "test_release_removes_what_allocate_made",
    "node_side",
    "release of .* leaves G",
    release=lambda self: None,
)
mutant(
    "Filling",
    "test_released_slices_are_given_again",
    "node_side",
    "allocate refuses .* no room",
    release=lambda self: None,
)
mutant(
    "Grudging",
    "test_broken_device_is_reported_and_comes_back",
    "node_side",
    "G0 works again; health",
    health=remembers_the_fault,
)
mutant(
    "Asleep",
    "test_broken_device_is_reported_and_comes_back",
    "node_side",
    "G0 is broken; health",
    works=lambda self, device_id: True,
)
mutant(
    "Short",
    "test_slots_are_named_after_their_device",
    "node_side",
    "advertise offers 3 slots of G1, discover says 4",
    advertise=one_slot_less,
)
mutant(
    "Hiding",
    "test_broken_device_hides_no_other",
    "node_side",
    r"while G0 is broken, \['G1'\] are not",
    discover=until_the_first_bad_card,
)
mutant(
    "Climbing",
    "test_edits_are_well_formed_and_keep_off_the_host",
    "node_side",
    "/opt/../var/lib/kubelet",
    allocate=lambda self: ContainerEdits(mounts=(Mount("/opt/../var/lib/kubelet", "/k"),)),
)
mutant(
    "Trusting",
    "test_annotations_of_the_pod_grant_nothing",
    "node_side",
    "annotations .*good.io/level.* grants",
    allocate=believes_the_pod,
)
mutant(
    "Renumbering",
    "test_restart_changes_no_answer",
    "node_side",
    "after a restart, discover finds other devices",
    discover=numbers_of_this_process,
)
mutant(
    "Forgetting",
    "test_release_removes_what_allocate_made",
    "node_side",
    "release of .* leaves G",
    instance=instance_in_memory,
    release=forgets_what_it_made_before,
)
mutant(
    "Sweeping",
    "test_release_removes_what_allocate_made",
    "node_side",
    "release of .* also removes G",
    release=whole_card,
)
mutant(
    "Contagious",
    "test_unhealthy_device_has_unhealthy_slots",
    "node_side",
    "slot G1-0 is healthy=False while G0 is unhealthy",
    advertise=all_or_nothing,
)


# --- faults on the scheduler side, each with the report that names it -------------------------------------------------


def own_ledger(self, device):
    """Keep an account of what is booked, and learn of no pod that ended."""
    self.booked = [*getattr(self, "booked", ()), device.device.id]
    return Reason("Full") if self.booked.count(device.device.id) > 4 else None


def only_the_use_list(self, request, device_id):
    wanted = request.annotations.get("good.io/use", "")
    return Reason("CardUuidMismatch") if wanted and device_id not in wanted.split(",") else None


def without_sign(self, container):
    limits = {name: amount.lstrip("-") for name, amount in container.limits.items()}
    return default_parse_request(replace(container, limits=limits), PodFacts("n", "p", "u"), FAMILY)


def in_units(factor):
    """Read memory in units of so many MiB, whatever the family says."""

    def parse_request(self, container, pod):
        return default_parse_request(container, pod, replace(FAMILY, memory_factor=factor))

    return parse_request


def more_each_time(self, piece):
    self.booked = getattr(self, "booked", 0) + 1
    return replace(piece, memory_mib=piece.memory_mib + self.booked)


def alternating(self, request, candidates):
    self.turn = not getattr(self, "turn", False)
    places = tuple(range(len(candidates)))
    return (places if self.turn else places[::-1])[: request.count]


def numbered_by_call(self, node):
    self.calls = getattr(self, "calls", 0) + 1
    return [replace(DEVICES[0], id=f"G{self.calls}")] if node.annotations else None


def with_commas(self, node):
    return [replace(d, id=f"G,{d.index}") for d in DEVICES] if node.annotations else None


mutant(
    "Leaking",
    "test_emptied_node_takes_the_same_pods_again",
    says="pods of GOOD with .* fit, then .* on the same node",
    account=own_ledger,
)
mutant(
    "Overselling",
    "test_booked_slice_stays_on_its_device",
    says="90000 <= 16384",
    account=lambda self, piece: replace(piece, memory_mib=90000),
)
mutant(
    "Stingy",
    "test_booked_amounts_are_those_asked_for",
    says="became Slice.*, less than",
    account=lambda self, piece: replace(piece, memory_mib=piece.memory_mib // 2),
)
mutant(
    "Crowding",
    "test_whole_device_is_not_shared",
    says="GOOD-. is whole for Request.*, and has",
    account=lambda self, piece: replace(piece, cores=0),
)
mutant("Halfdeaf", "test_uuid_selectors_select", says="good.io/nouse", check_uuid=only_the_use_list)
mutant(
    "Straying",
    "test_pods_get_only_devices_that_they_select",
    says="a pod with .*good.io/.* gets",
    check_uuid=lambda self: None,
    check_type=lambda self: None,
)
mutant("Unsigned", "test_impossible_amount_is_refused_by_name", says="DID NOT RAISE", parse_request=without_sign)
mutant(
    "Coarse",
    "test_request_is_never_less_than_the_limit",
    says="less memory than asked for",
    families=lambda self: [replace(FAMILY, memory_factor=256)],
    parse_request=in_units(1),
)
mutant(
    "CoarseTotals",
    "test_request_is_never_less_than_the_limit",
    says="less memory than asked for",
    families=lambda self: [replace(FAMILY, memory_factor=256, amounts_are_totals=True)],
    parse_request=in_units(1),
)
mutant(
    "Large",
    "test_all_memory_of_a_device_can_be_asked_for",
    says="a pod with .*good.io/memory.* does not fit",
    parse_request=in_units(256),
)
mutant("Inflating", "test_quota_counts_what_is_booked", says="limits.good.io/memory=.* admits", account=more_each_time)
mutant("Wavering", "test_choice_is_well_formed_whatever_the_links", says="choose answers .*, then", choose=alternating)
mutant(
    "Usurping",
    "test_annotations_at_bind_are_the_vendors_own",
    says="writes hami.io/vgpu-node",
    patch_annotations=lambda self: {"hami.io/vgpu-node": "other"},
)
mutant(
    "Squatting",
    "test_annotations_at_bind_are_the_vendors_own",
    says="reserved for Kubernetes",
    patch_annotations=lambda self: {"x.kubernetes.io/devices": "1"},
)
mutant(
    "Bloated",
    "test_annotations_at_bind_are_the_vendors_own",
    says="writes 20009 bytes",
    patch_annotations=lambda self: {"good.io/x": "x" * 20000},
)
mutant("Renaming", "test_same_node_gives_the_same_devices", says="id='G.'.* != ", register=numbered_by_call)
mutant(
    "Peeking",
    "test_hooks_touch_nothing_but_their_arguments",
    says="patch_annotations touches os.environ",
    patch_annotations=lambda self: {"good.io/home": os.environ.get("HOME", "")},
)
mutant(
    "Editing",
    "test_hooks_leave_their_arguments_alone",
    says="custom_filter changes its arguments",
    custom_filter=lambda self, request: request.annotations.update(x="y"),
)
mutant(
    "Punctuated",
    "test_bound_pod_can_be_read_back",
    says="device at 0: 'G,.' .* cannot be written",
    register=with_commas,
)
