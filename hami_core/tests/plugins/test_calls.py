"""Effects of each hook's failure, which is reported with distribution, version, hook and arguments."""

from __future__ import annotations

import json
import logging
import math
import signal
import threading
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from hami_core import (
    Advertisement,
    Allocation,
    ContainerEdits,
    ContainerKind,
    ContainerRef,
    ContainerSlices,
    ContainerSpec,
    Device,
    DeviceError,
    DeviceKind,
    Mutation,
    NodeContext,
    NodeFacts,
    Reason,
    Request,
    RequestError,
    Slice,
    VendorError,
    WireError,
)
from hami_core.plugins.discovery import Found, Source
from hami_core.plugins.load import assemble
from hami_core.tests.plugins.objects import (
    DEVICE,
    ONE,
    POD,
    REQUEST,
    USAGE,
    Minimal,
    container,
    found,
    loaded,
    one,
    vendor_with,
)

SLICE = Slice("d0", "ONE", 100, 0)
NODE = NodeFacts("n1")
KIND = DeviceKind("ONE", "T")
REF = ContainerRef("uid", "ns", "p", "c", ContainerKind.APP)
ALLOCATION = Allocation("n1", (ContainerSlices("c", ContainerKind.APP, (SLICE,)),))
COLUMNS = {"total_memory": np.zeros((2, 3), np.int64), "free_memory": np.zeros((2, 3), np.int64)}


def broken(error):
    def hook(self):
        raise error

    return hook


def answers(value):
    return lambda self: value


FAILURES = [ZeroDivisionError("oops"), SystemExit(1), GeneratorExit(), BaseException("odd"), AssertionError("no")]
NONSENSE = [42, "yes", object(), True, [1], {"a": 1}, float("nan"), b"x", Reason, (x for x in [])]
NONSENSE_IDS = [repr(value).partition(" at 0x")[0] for value in NONSENSE]


@pytest.mark.parametrize("error", FAILURES, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("hook", ["check_type", "check_uuid", "custom_filter"])
def test_failing_check_refuses_and_names_vendor_and_arguments(hook, error, caplog):
    vendor = one(vendor_with(**{hook: broken(error)}))
    rules = vendor.rules()[0]
    asked = {"check_type": (REQUEST, KIND), "check_uuid": (REQUEST, "d0"), "custom_filter": (REQUEST, USAGE, ())}
    with caplog.at_level(logging.ERROR, "hami.plugins"):
        reason = getattr(rules, hook)(*asked[hook])
    assert reason.code == "VendorPluginFailed"
    for part in ("vendor one (dist-one 1.0)", hook, type(error).__name__, "request=Request(family='ONE'"):
        assert part in reason.detail
    assert reason.detail.split("problem")[0][:40] in caplog.text or "dist-one 1.0" in caplog.text


@pytest.mark.parametrize("value", NONSENSE, ids=NONSENSE_IDS)
@pytest.mark.parametrize("hook", ["check_type", "check_uuid", "custom_filter"])
def test_check_with_an_answer_of_the_wrong_type_refuses(hook, value):
    rules = one(vendor_with(**{hook: answers(value)})).rules()[0]
    asked = {"check_type": (REQUEST, KIND), "check_uuid": (REQUEST, "d0"), "custom_filter": (REQUEST, USAGE, ())}
    reason = getattr(rules, hook)(*asked[hook])
    assert reason.code == "VendorPluginFailed"
    assert "expected Reason or None" in reason.detail


def test_checks_return_the_vendors_answer():
    vendor = one(vendor_with(check_type=lambda self, kind: Reason("CardTypeMismatch") if kind.type == "X" else None))
    check = vendor.rules()[0].check_type
    assert check(REQUEST, KIND) is None
    assert check(REQUEST, DeviceKind("ONE", "X")) == Reason("CardTypeMismatch")


def test_defaults_answer_for_hooks_left_out():
    vendor = one(Minimal)
    rules = vendor.rules()[0]
    chosen = Request("ONE", 1, annotations={"one.com/use": "d7"})
    assert rules.check_type(REQUEST, KIND) is None
    assert rules.check_type(REQUEST, DeviceKind("OTHER", "T")).code == "CardTypeMismatch"
    assert rules.check_uuid(chosen, "d7") is None
    assert rules.check_uuid(chosen, "d0").code == "CardUuidMismatch"
    assert (rules.fit_mask, rules.choose, rules.account, rules.score_node) == (None,) * 4
    assert rules.custom_filter(REQUEST, USAGE, ()) is None
    request = vendor.parse_request(container(**{"one.com_gpu": 2, "one.com_mem": 500}), POD, ONE)
    assert (request.count, request.memory_mib) == (2, 500)
    assert vendor.mutate_admission(container(**{"one.com_gpu": 1}), POD) == Mutation(uses_devices=True)
    assert vendor.mutate_admission(container(), POD) is None
    assert vendor.patch_annotations(POD, ALLOCATION) == {}
    assert vendor.lock_annotations("n1", POD) == {}
    assert vendor.register(NODE) is None
    text = json.dumps([{"id": "d0", "count": 10, "devmem": 1000, "devcore": 100, "type": "T", "health": True}])
    [device] = vendor.register(NodeFacts("n1", {"hami.io/node-one": text}))
    assert (device.id, device.memory_mib, device.family) == ("d0", 1000, "ONE")


def test_hooks_see_declared_annotations_only():
    seen = []
    vendor = one(
        vendor_with(
            parse_request=lambda self, pod, family: seen.append(pod) or Request("ONE", 1),
            patch_annotations=lambda self, pod: seen.append(pod) or {},
            mutate_admission=lambda self, pod: seen.append(pod),
            lock_annotations=lambda self, pod: seen.append(pod),
        )
    )
    request = vendor.parse_request(container(), POD, ONE)
    full = replace(POD, runtime_class="nvidia", decided_at_ns=7)
    vendor.patch_annotations(full, ALLOCATION)
    vendor.mutate_admission(container(), POD)
    vendor.lock_annotations("n1", POD)
    assert all(getattr(full, field.name) for field in fields(full)), "each field must have a value that could be lost"
    assert replace(seen[1], annotations=full.annotations) == full
    assert [dict(pod.annotations) for pod in seen] == [{"one.com/level": "3", "one.com/use": "d0"}] * 4
    assert dict(request.annotations) == {"one.com/level": "3", "one.com/use": "d0"}


def test_user_errors_pass_where_the_contract_allows_them():
    user = RequestError("container c", "one.com/gpu", "is 'many'", "write a number")
    vendor = one(vendor_with(parse_request=broken(user), mutate_admission=broken(user), lock_annotations=broken(user)))
    for call in (
        lambda: vendor.parse_request(container(), POD, ONE),
        lambda: vendor.mutate_admission(container(), POD),
    ):
        with pytest.raises(RequestError) as raised:
            call()
        assert raised.value is user
    with pytest.raises(VendorError, match="in lock_annotations: RequestError"):
        vendor.lock_annotations("n1", POD)


def test_malformed_node_annotation_is_not_the_vendors_failure():
    wire = WireError("hami.io/node-one", 3, "bad")
    assert one(vendor_with(register=broken(wire))).manager is not None
    both = loaded(vendor_with(register=broken(wire)))
    registration = both.register(NODE)
    assert registration.devices == {"ONE": None}
    assert registration.errors == (wire,)
    assert registration.closed
    assert both.reporter.failures == {}


@pytest.mark.parametrize("hook", ["parse_request", "mutate_admission"])
def test_failure_refuses_only_pods_that_name_its_resources(hook):
    both = loaded(vendor_with(**{hook: broken(ValueError("x"))}))
    call = both.parse if hook == "parse_request" else both.mutate
    assert not call(container(other_com=1), POD)
    assert both.reporter.failures == {("one", hook): 1}
    for named in ({"one.com/gpu": "1"}, {"one.com/mem": "5"}):
        with pytest.raises(VendorError):
            call(ContainerSpec("c", ContainerKind.APP, named), POD)


CALLS = {
    "register": lambda v: v.register(NODE),
    "parse_request": lambda v: v.parse_request(container(), POD, ONE),
    "mutate_admission": lambda v: v.mutate_admission(container(), POD),
    "patch_annotations": lambda v: v.patch_annotations(POD, ALLOCATION),
    "lock_annotations": lambda v: v.lock_annotations("n1", POD),
    "discover": lambda v: v.discover(),
    "advertise": lambda v: v.advertise([DEVICE]),
    "allocate": lambda v: v.allocate((SLICE,), REF),
    "health": lambda v: v.health([DEVICE]),
    "metrics": lambda v: v.metrics({}, {}),
}
SILENT = {"release": lambda v: v.release(REF), "tend": lambda v: v.tend({}, {}, {})}
"""Hooks without an answer."""
NODE_SIDE = {
    "discover": answers([DEVICE]),
    "advertise": answers(Advertisement()),
    "allocate": answers(ContainerEdits()),
}


def anywhere(**methods):
    """Make a vendor whose class serves both sides, so that every hook can be called."""
    return one(vendor_with(**methods), node=vendor_with(**{**NODE_SIDE, **methods}))


@pytest.mark.parametrize("error", FAILURES, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("hook", [*CALLS, *SILENT])
def test_failure_error_names_distribution_hook_and_arguments(hook, error):
    vendor = anywhere(**{hook: broken(error)})
    call = {**CALLS, **SILENT}[hook]
    with pytest.raises(VendorError) as raised:
        call(vendor)
    assert raised.value.__cause__ is error
    assert (raised.value.vendor, raised.value.distribution, raised.value.hook) == ("one", "dist-one 1.0", hook)
    assert type(error).__name__ in str(raised.value)
    assert ("; called with" in str(raised.value)) == (hook != "discover")  # discover has no arguments


@pytest.mark.parametrize("value", NONSENSE, ids=NONSENSE_IDS)
@pytest.mark.parametrize("hook", CALLS)
def test_answer_of_the_wrong_type_is_an_error(hook, value):
    with pytest.raises(VendorError, match=f"in {hook}: "):
        CALLS[hook](anywhere(**{hook: answers(value)}))


def test_device_error_of_allocate_passes_with_its_own_text():
    error = DeviceError("/dev/acme0 is missing: load the driver")
    with pytest.raises(DeviceError, match=f"^{error}$"):
        CALLS["allocate"](anywhere(allocate=broken(error)))


@pytest.mark.parametrize("hook", ["discover", "advertise", "allocate"])
def test_required_node_hooks_may_not_answer_none(hook):
    with pytest.raises(VendorError, match=f"in {hook}: answered None"):
        CALLS[hook](anywhere(**{hook: answers(None)}))


@pytest.mark.parametrize(
    ("device", "shown"),
    [
        (Device("", 0, 1, 1, 1, "T", "ONE"), "expected a non-empty str"),
        (Device("d", 0, 1, 1, 1, "T", "TWO"), "is of family 'TWO', expected one of ONE"),
        (Device("d", 0, -1, 1, 1, "T", "ONE"), "slots is -1"),
        (Device("d", 0, 1, 2**31, 1, "T", "ONE"), "memory_mib is 2147483648"),
        (Device("d", 0, 1, 1.5, 1, "T", "ONE"), "memory_mib is 1.5"),
        (Device("d", 0, 1, 1, True, "T", "ONE"), "cores is True"),
        (Device("d", None, 1, 1, 1, "T", "ONE"), "index is None"),
    ],
)
def test_devices_out_of_range_close_the_node(device, shown):
    both = loaded(vendor_with(register=answers([DEVICE, device])))
    registration = both.register(NODE)
    assert registration.devices == {"ONE": None}
    assert shown in str(registration.errors[0])


def test_device_listed_twice_closes_the_node():
    assert "'d0' is listed twice" in str(loaded(vendor_with(register=answers([DEVICE] * 2))).register(NODE).errors[0])


@pytest.mark.parametrize(
    "request_",
    [
        Request("TWO", 1),
        Request("ONE", 0),
        Request("ONE", -1),
        Request("ONE", 1, memory_mib=-1),
        Request("ONE", 1, memory_mib=2**31),
        Request("ONE", 1, cores=1.0),
        Request("ONE", 1, memory_percent=101),
        Request("ONE", True),
    ],
)
def test_request_out_of_range_refuses_the_pod(request_):
    vendor = one(vendor_with(parse_request=answers(request_)))
    with pytest.raises(VendorError, match="in parse_request"):
        vendor.parse_request(container(), POD, ONE)


@pytest.mark.parametrize("value", [(), (0,), (0, 0), (0, 2), (-1, 0), "01", (0.0, 1.0), 3, [0, 1, 0]])
def test_unusable_choice_refuses_the_candidates(value):
    rules = one(vendor_with(choose=answers(value))).rules()[0]
    two = Request("ONE", 2)
    refusal = rules.choose(two, (USAGE, USAGE), "binpack", (USAGE, USAGE))
    assert refusal.code == "VendorPluginFailed"
    assert "expected" in refusal.detail


def test_choice_is_used():
    rules = one(vendor_with(choose=answers([1, 0]))).rules()[0]
    assert rules.choose(Request("ONE", 2), (USAGE, USAGE), "binpack", (USAGE, USAGE)) == (1, 0)


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (None, SLICE),
        (Slice("d0", "ONE", 5120, 0, mig_profile="1g.5gb"), Slice("d0", "ONE", 5120, 0, mig_profile="1g.5gb")),
        (Reason("NoMig"), Reason("NoMig")),
    ],
)
def test_account_decides_the_booked_slice(answer, result):
    assert one(vendor_with(account=answers(answer))).rules()[0].account(REQUEST, USAGE, SLICE, ()) == result


@pytest.mark.parametrize("answer", [Slice("d1", "ONE", 1, 0), Slice("d0", "ONE", -1, 0), "d0", 0])
def test_unusable_answer_of_account_refuses_the_device(answer):
    reason = one(vendor_with(account=answers(answer))).rules()[0].account(REQUEST, USAGE, SLICE, ())
    assert (reason.code, reason.device) == ("VendorPluginFailed", "d0")


@pytest.mark.parametrize("value", ["high", math.nan, math.inf, True, [1.0]])
def test_score_that_is_not_a_number_counts_0(value):
    assert (
        one(vendor_with(score_node=answers(value))).rules()[0].score_node(NODE, ALLOCATION, "binpack", (USAGE,)) == 0.0
    )


@pytest.mark.parametrize(
    "answer", [np.ones((2, 3), bool), None, np.ones((3, 2), bool), np.ones((2, 3)), [[True]], ZeroDivisionError()]
)
def test_mask_is_used_only_as_bool_of_the_right_shape(answer):
    hook = broken(answer) if isinstance(answer, Exception) else answers(answer)
    mask = one(vendor_with(fit_mask=hook)).rules()[0].fit_mask(REQUEST, COLUMNS)
    if answer is None:
        assert mask is None
    elif getattr(answer, "shape", None) == (2, 3) and answer.dtype == bool:
        assert mask.all()
    else:
        assert mask.shape == (2, 3)
        assert not mask.any()


def test_object_whose_own_methods_raise_is_a_vendor_error():
    class Trap(dict):
        def items(self):
            raise OSError("trap")

        def __repr__(self):
            raise RuntimeError("no repr")

    vendor = one(vendor_with(patch_annotations=answers(Trap(a="b"))))
    with pytest.raises(VendorError, match="OSError: trap"):
        vendor.patch_annotations(POD, ALLOCATION)
    trap = Trap()
    vendor = one(vendor_with(check_uuid=lambda self, device_id: 1 / 0))
    assert "<Trap, whose repr raised RuntimeError>" in vendor.rules()[0].check_uuid(REQUEST, trap).detail


def test_long_arguments_are_cut_in_reports():
    vendor = one(vendor_with(check_uuid=lambda self, device_id: 1 / 0))
    assert len(vendor.rules()[0].check_uuid(REQUEST, "x" * 10**6).detail) < 1500


@pytest.mark.usefixtures("interruptible")
def test_interrupt_passes_only_where_ctrl_c_would_raise_it():
    vendor = one(vendor_with(check_uuid=broken(KeyboardInterrupt())))
    check = vendor.rules()[0].check_uuid
    with pytest.raises(KeyboardInterrupt):
        check(REQUEST, "d0")
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        assert check(REQUEST, "d0").code == "VendorPluginFailed"
    finally:
        signal.signal(signal.SIGINT, before)
    answers_of_thread = []
    thread = threading.Thread(target=lambda: answers_of_thread.append(check(REQUEST, "d0")))
    thread.start()
    thread.join()
    assert answers_of_thread[0].code == "VendorPluginFailed"


def test_repeated_failures_are_counted_and_logged_sparsely(caplog):
    both = loaded(vendor_with(check_uuid=lambda self, device_id: 1 / 0))
    check = both.rules()[0].check_uuid
    with caplog.at_level(logging.ERROR, "hami.plugins"):
        for position in range(1000):
            check(REQUEST, f"d{position}")
    assert both.reporter.failures == {("one", "check_uuid"): 1000}
    assert [record.args[-1] for record in caplog.records] == [1, 10, 100, 1000]


@pytest.mark.parametrize(("error", "traced"), [(DeviceError("is the driver loaded?"), False), (OSError("odd"), True)])
def test_only_unforeseen_failures_are_logged_with_a_traceback(caplog, error, traced):
    check = loaded(vendor_with(check_uuid=broken(error))).rules()[0].check_uuid
    with caplog.at_level(logging.ERROR, "hami.plugins"):
        check(REQUEST, "d0")
    assert str(error) in caplog.text
    assert ("Traceback" in caplog.text) is traced


def test_arguments_can_be_taken_by_name_in_any_number():
    class Vendor(Minimal):
        from hami_core import hookimpl

        @hookimpl
        def custom_filter(self, chosen, request):
            return Reason(f"{len(chosen)}-{request.count}")

        @hookimpl
        def check_uuid(self, device_id, extra="default"):
            return Reason(device_id + extra)

        @hookimpl
        @staticmethod
        def check_type(kind):
            return Reason(kind.type)

    rules = one(Vendor).rules()[0]
    assert rules.custom_filter(REQUEST, USAGE, (USAGE,)) == Reason("1-1")
    assert rules.check_uuid(REQUEST, "d") == Reason("ddefault")
    assert rules.check_type(REQUEST, KIND) == Reason("T")


def other_vendor(**methods):
    two = ONE.__class__(word="TWO", resources=ONE.resources.__class__(count="two.com/gpu"), allocated_key="two")
    return vendor_with(families=answers([two]), **methods)


def pair(first, second):
    result = assemble([found(first), found(second, "two", distribution="dist-two", version="2.0")])
    assert result.problems == ()
    return result


def test_one_broken_vendor_closes_its_own_families_only():
    both = pair(vendor_with(register=broken(OSError())), other_vendor(register=answers([])))
    registration = both.register(NODE)
    assert registration.devices == {"ONE": None, "TWO": ()}


def test_two_vendors_that_patch_one_key_are_both_named():
    both = pair(vendor_with(patch_annotations=answers({"k": "1"})), other_vendor(patch_annotations=answers({"k": "1"})))
    slices = (SLICE, Slice("x", "TWO", 1, 0))
    allocation = Allocation("n", (ContainerSlices("c", ContainerKind.APP, slices),))
    with pytest.raises(VendorError, match=r"two \(dist-two 2\.0\).*k is answered by vendor one \(dist-one 1\.0\)"):
        both.patch_annotations(POD, allocation)
    assert both.patch_annotations(POD, ALLOCATION) == {"k": "1"}


def test_vendor_cannot_patch_what_the_framework_writes():
    both = loaded(vendor_with(patch_annotations=answers({"hami.io/one-allocated": "x"})))
    with pytest.raises(VendorError, match=r"hami\.io/one-allocated is written by the framework"):
        both.patch_annotations(POD, ALLOCATION)


def test_mutations_are_merged_or_the_conflict_is_named():
    mine = Mutation(uses_devices=True, limits={"a": "1"}, env=(("A", "1"),), pod_annotations={"k": "v"})
    other = Mutation(uses_devices=False, limits={"b": "2"}, env=(("A", "2"), ("B", "2")), runtime_class="rc")
    both = pair(vendor_with(mutate_admission=answers(mine)), other_vendor(mutate_admission=answers(other)))
    assert both.mutate(container(), POD) == Mutation(
        uses_devices=True,
        limits={"a": "1", "b": "2"},
        env=(("A", "1"), ("B", "2")),
        pod_annotations={"k": "v"},
        runtime_class="rc",
    )
    clash = Mutation(uses_devices=True, limits={"a": "9"})
    both = pair(vendor_with(mutate_admission=answers(mine)), other_vendor(mutate_admission=answers(clash)))
    with pytest.raises(VendorError, match=r"limits a is answered by vendor one"):
        both.mutate(container(), POD)


def test_locks_with_an_unknown_or_a_second_protocol_are_refused():
    with pytest.raises(VendorError, match="protocol 'flock'"):
        one(vendor_with(lock_annotations=answers({"k": "flock"}))).lock_annotations("n", POD)
    both = pair(
        vendor_with(lock_annotations=answers({"k": "hami"})), other_vendor(lock_annotations=answers({"k": "time"}))
    )
    with pytest.raises(VendorError, match="k is answered by vendor one"):
        both.lock_annotations("n", POD, ["ONE", "TWO"])
    assert both.lock_annotations("n", POD, ["TWO"]) == {"k": "time"}


def test_family_without_a_vendor_is_an_error():
    with pytest.raises(VendorError, match="no loaded vendor serves this family"):
        loaded(Minimal).serving(["XYZ"])


def test_parse_collects_one_request_per_family():
    both = pair(Minimal, other_vendor())
    asked = both.parse(container(**{"one.com_gpu": 1, "two.com_gpu": 2}), POD)
    assert [(request.family, request.count) for request in asked] == [("ONE", 1), ("TWO", 2)]
    with pytest.raises(RequestError, match=r"two\.com/gpu"):
        both.parse(container(**{"two.com_gpu": "-1"}), POD)


def test_node_class_that_extends_the_vendor_class_serves_as_both():
    class Node(Minimal):
        made = 0

        def __init__(self):
            Node.made += 1

    for name, function in NODE_SIDE.items():
        from hami_core import hookimpl

        setattr(Node, name, hookimpl(lambda self, f=function: f(self)))
    result = assemble(
        [found(Minimal)], [Found(Source("one", "hami.node", "m:Node", "dist-one", "1.0"), Node)], side="node"
    )
    assert result.problems == ()
    assert Node.made == 1
    assert result.vendors[0].discover() == (DEVICE,)


@pytest.mark.parametrize("node", [NodeContext("n1", Path("/state")), None], ids=["agent", "scheduler"])
def test_families_gets_the_node_if_it_takes_that_argument(node):
    heard = {}

    def with_node(self, config, node):
        heard["with"] = (config, node)
        return [ONE]

    def node_alone(self, node):
        heard["alone"] = node
        return [ONE]

    def without_node(self, config):
        heard["without"] = config
        return [ONE]

    for method in (with_node, node_alone, without_node):
        assert assemble([found(vendor_with(families=method))], node=node).problems == ()
    assert heard == {"with": (None, node), "alone": node, "without": None}
