"""Wrapper plugins: they see every call and may refuse. A refusal never becomes a yes."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_core import Device, DeviceKind, NodeFacts, Reason, Request, RequestError, Slice, VendorError, hookimpl
from hami_core.plugins.hooks import HOOKS, START
from hami_core.tests.plugins.objects import (
    DEVICE,
    ONE,
    POD,
    REQUEST,
    USAGE,
    Minimal,
    container,
    loaded,
    one,
    vendor_with,
    wrapper_with,
)

KIND = DeviceKind("ONE", "T")
NO = Reason("No")


def passing():
    def hook(self):
        return (yield)

    return hook


def returning(value):
    def hook(self):
        yield
        return value

    return hook


def swallowing(value=None):
    def hook(self):
        with contextlib.suppress(BaseException):
            yield
        return value

    return hook


def raising(error, before=False):
    def hook(self):
        if before:
            raise error
        yield
        raise error

    return hook


def says(value):
    return lambda self: value


def fails(self):
    raise OSError("vendor")


def problems_of(result):
    return {key for key, count in result.reporter.failures.items() if count}


def test_wrapper_sees_arguments_and_answer():
    log = []

    class Audit:
        @hookimpl(wrapper=True)
        def check_uuid(self, device_id):
            answer = yield
            log.append((device_id, answer))
            return answer

    vendor = one(vendor_with(check_uuid=says(NO)), Audit)
    assert vendor.rules()[0].check_uuid(REQUEST, "d0") == NO
    assert log == [("d0", [NO])]


def test_wrapper_sees_the_defaults_too():
    result = loaded(Minimal, wrapper_with(check_type=returning([NO])))
    assert result.rules()[0].check_type(REQUEST, KIND) == NO
    assert result.vendors[0].hooks == ("families",)


@pytest.mark.parametrize("hook", ["check_type", "check_uuid", "custom_filter"])
@pytest.mark.parametrize("inner", [NO, "fails"], ids=["refuses", "fails"])
@pytest.mark.parametrize("outer", [[], None, [None], 5], ids=repr)
def test_refusal_never_becomes_a_yes(hook, inner, outer):
    vendor = vendor_with(**{hook: fails if inner == "fails" else says(inner)})
    result = loaded(vendor, wrapper_with(**{hook: swallowing(outer)}))
    args = {"check_type": (KIND,), "check_uuid": ("d0",), "custom_filter": (USAGE, ())}[hook]
    reason = getattr(result.rules()[0], hook)(REQUEST, *args)
    assert reason is not None
    assert ("w0", hook) in problems_of(result)


@pytest.mark.parametrize("hook", ["check_type", "check_uuid", "custom_filter"])
@pytest.mark.parametrize("wrap", [returning([NO]), raising(OSError("w")), raising(SystemExit(), before=True)])
def test_wrapper_may_refuse(hook, wrap):
    result = loaded(vendor_with(**{hook: says(None)}), wrapper_with(**{hook: wrap}))
    args = {"check_type": (KIND,), "check_uuid": ("d0",), "custom_filter": (USAGE, ())}[hook]
    assert getattr(result.rules()[0], hook)(REQUEST, *args) is not None


def test_failing_wrapper_is_named_not_the_vendor():
    result = loaded(vendor_with(check_type=says(None)), wrapper_with(check_type=raising(OSError("mine"))))
    assert "vendor w0 (dist-w0 1.0) in check_type: OSError: mine" in result.rules()[0].check_type(REQUEST, KIND).detail
    result = loaded(vendor_with(check_type=fails), wrapper_with(check_type=passing()))
    assert "vendor one (dist-one 1.0) in check_type: OSError: vendor" in (
        result.rules()[0].check_type(REQUEST, KIND).detail
    )


def test_innermost_wrapper_cannot_hide_the_vendors_refusal():
    class Sly:
        @hookimpl(wrapper=True, trylast=True)
        def check_type(self):
            yield
            return []

    class Outer:
        @hookimpl(wrapper=True, tryfirst=True)
        def check_type(self):
            yield
            return []

    result = loaded(vendor_with(check_type=says(NO)), Sly, Outer)
    assert result.rules()[0].check_type(REQUEST, KIND) == NO
    assert {("w0", "check_type"), ("w1", "check_type")} <= problems_of(result)


def test_request_stays_as_parsed_or_is_refused():
    parse = vendor_with(parse_request=says(Request("ONE", 2, memory_mib=100)))
    for other in (None, Request("ONE", 1), Request("ONE", 2, memory_mib=9000)):
        vendor = one(parse, wrapper_with(parse_request=returning(other)))
        assert vendor.parse_request(container(), POD, ONE).count == 2
        assert vendor.parse_request(container(), POD, ONE).memory_mib == 100
    policy = wrapper_with(parse_request=raising(RequestError("pod p", "one.com/gpu", "not on Sundays")))
    with pytest.raises(RequestError, match="not on Sundays"):
        one(parse, policy).parse_request(container(), POD, ONE)

    def refuse(self):
        raise RequestError("container c", "one.com/gpu", "is wrong")

    vendor = one(vendor_with(parse_request=refuse), wrapper_with(parse_request=swallowing(Request("ONE", 1))))
    with pytest.raises(RequestError, match="is wrong"):
        vendor.parse_request(container(), POD, ONE)


def test_devices_may_be_left_out_not_added():
    more = Device("d1", 1, 10, 1000, 100, "T", "ONE")
    node = NodeFacts("n")
    register = vendor_with(register=says([DEVICE, more]))
    assert one(register, wrapper_with(register=returning([more]))).register(node) == (more,)
    bigger = Device("d0", 0, 10, 9000, 100, "T", "ONE")
    for answer in ([DEVICE, more, bigger], None, [bigger], "x"):
        assert one(register, wrapper_with(register=returning(answer))).register(node) == (DEVICE, more)


def test_slices_may_shrink_not_grow():
    plain = Slice("d0", "ONE", 100, 50)
    account = lambda wrapped: (  # noqa: E731
        one(vendor_with(account=says(plain)), wrapper_with(account=returning(wrapped)))
        .rules()[0]
        .account(REQUEST, USAGE, plain, ())
    )
    assert account(Slice("d0", "ONE", 90, 50)) == Slice("d0", "ONE", 90, 50)
    assert account(NO) == NO
    for grown in (Slice("d0", "ONE", 101, 50), Slice("d0", "ONE", 0, 50), Slice("d0", "ONE", 100, 0), None, 3):
        assert account(grown) == plain
    refusing = one(vendor_with(account=says(NO)), wrapper_with(account=returning(plain)))
    assert refusing.rules()[0].account(REQUEST, USAGE, plain, ()) == NO


@given(st.lists(st.booleans(), min_size=6, max_size=6), st.lists(st.booleans(), min_size=6, max_size=6))
def test_masks_only_lose_devices(inner, outer):
    inner, outer = np.array(inner).reshape(2, 3), np.array(outer).reshape(2, 3)
    columns = {"free_memory": np.zeros((2, 3))}
    vendor = one(vendor_with(fit_mask=says(inner)), wrapper_with(fit_mask=returning(outer)))
    mask = vendor.rules()[0].fit_mask(REQUEST, columns)
    assert not (mask & ~inner).any()


def test_fit_mask_is_not_used_beside_a_wrapped_custom_filter():
    vendor = vendor_with(fit_mask=says(np.ones((1, 1), bool)), custom_filter=says(None))
    assert one(vendor).rules()[0].fit_mask is not None
    assert one(vendor, wrapper_with(custom_filter=returning([NO]))).rules()[0].fit_mask is None


def test_annotations_and_edits_are_the_vendors():
    vendor = one(
        vendor_with(patch_annotations=says({"k": "v"})), wrapper_with(patch_annotations=returning([{"k": "x"}]))
    )
    from hami_core import Allocation

    assert vendor.patch_annotations(POD, Allocation("n", ())) == {"k": "v"}


def test_swallowed_release_failure_stays_a_failure():
    from hami_core import Advertisement, ContainerEdits, ContainerKind, ContainerRef

    node = vendor_with(
        discover=says([]), advertise=says(Advertisement()), allocate=says(ContainerEdits()), release=fails
    )
    vendor = one(Minimal, wrapper_with(release=swallowing([])), node=node)
    with pytest.raises(VendorError, match="OSError: vendor"):
        vendor.release(ContainerRef("u", "ns", "p", "c", ContainerKind.APP))


@pytest.mark.parametrize(
    ("plugin", "shown"),
    [
        (vendor_with(check_type=says(None)), "may only wrap"),
        (wrapper_with(families=passing()), "cannot be wrapped"),
        (wrapper_with(config_model=passing()), "cannot be wrapped"),
        (wrapper_with(chck_type=passing()), "did you mean check_type?"),
        (type("Old", (), {"check_type": hookimpl(hookwrapper=True)(passing())}), "old-style wrappers"),
        (wrapper_with(check_type=lambda self, nonsense: (yield)), "nonsense"),
        (type("Future", (), {"api_version": (2, 0)}), "built for hook API 2.0"),
        (type("Broken", (), {"__init__": fails}), "cannot be created: OSError"),
    ],
)
def test_plugin_without_wrappers_is_refused_and_vendors_load(plugin, shown):
    result = loaded(Minimal, plugin)
    assert [vendor.name for vendor in result.vendors] == ["one"]
    assert result.wrappers == ()
    assert shown in str(result.problems[0])
    assert "w0 (dist-w0 1.0)" in str(result.problems[0])


def test_wrapper_that_does_not_yield_refuses():
    class Silent:
        @hookimpl(wrapper=True)
        def check_type(self):
            return
            yield

    assert one(vendor_with(check_type=says(None)), Silent).rules()[0].check_type(REQUEST, KIND) is not None


def test_wrapper_that_is_not_a_generator_is_refused_at_loading():
    result = loaded(Minimal, type("Plain", (), {"check_type": hookimpl(wrapper=True)(lambda self: None)}))
    assert result.wrappers == ()
    assert "w0" in str(result.problems[0])


def test_every_hook_but_the_first_two_may_be_wrapped():
    assert {"config_model", "families"} == START
    vendor = one(Minimal, wrapper_with(**{name: passing() for name in HOOKS.keys() - START}))
    assert {name for name, call in vendor.calls.items() if call.wrapped} == HOOKS.keys() - START


def test_nested_calls_of_wrapped_hooks_keep_their_answers_apart():
    class Vendor(Minimal):
        def __init__(self):
            self.other = None

        @hookimpl
        def check_type(self, request, kind):
            return NO if self.other is None else self.other.check_uuid(request, "d0")

        @hookimpl
        def check_uuid(self, device_id):
            return Reason("Uuid")

    result = loaded(Vendor, wrapper_with(check_type=passing(), check_uuid=passing()))
    rules = result.rules()[0]
    vendor_object = next(
        impl.plugin for impl in result.vendors[0].manager.hook.check_type.get_hookimpls() if not impl.wrapper
    )
    vendor_object.other = rules
    assert rules.check_type(REQUEST, KIND) == Reason("Uuid")
    assert result.reporter.failures == {}
