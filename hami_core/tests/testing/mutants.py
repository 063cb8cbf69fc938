"""A good vendor, and vendors that break one promise each. test_kit.py runs them in a process of its own."""

from __future__ import annotations

import json
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
    DeviceNode,
    Family,
    Grade,
    Mount,
    Reason,
    Request,
    Resources,
    SelectorKeys,
    Slice,
    Support,
    hookimpl,
)

# the suites' settings build on this profile: a failing example need not be shrunk
settings.register_profile("quick", phases=(Phase.generate,), report_multiple_bugs=False)
settings.load_profile("quick")

from hami_core.testing import VendorSuite  # noqa: E402

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
    api_version = (1, 0)

    @hookimpl
    def discover(self):
        return list(DEVICES)

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
    def allocate(self, slices):
        return ContainerEdits(device_nodes=tuple(DeviceNode(f"/dev/good{s.index}") for s in slices))


class TestGood(VendorSuite):
    @pytest.fixture
    def vendor(self):
        return Good()

    @pytest.fixture
    def node_side(self):
        return GoodNode()

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


def mutant(name, test, side="vendor", **hooks):
    """Define a test class for a vendor with other hooks or attributes. ``test`` must fail for it."""
    base = Good if side == "vendor" else GoodNode
    changed = {key: hookimpl(value) if callable(value) else value for key, value in hooks.items()}
    made = type(name, (base,), changed)
    fixture = pytest.fixture(lambda self: made())
    globals()[f"Test{name}"] = type(
        f"Test{name}", (TestGood,), {side: fixture, "must_fail": test, "__module__": __name__}
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
mutant(
    "Greedy",
    "test_booked_slice_stays_on_its_device",
    account=lambda self, piece: Slice(piece.device_id, "GOOD", 90000, 0),
)
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
    must_fail = "test_no_standard_test_was_replaced_in_silence"

    def test_register_is_total(self):
        """Replaces a standard test without saying so."""


class TestDeleter(TestGood):
    must_fail = "test_no_standard_test_was_replaced_in_silence"
    test_no_device_is_overbooked = None
