"""The allocation of a pod: encoding and decoding agree, and malformed text is refused with its position."""

from __future__ import annotations

import contextlib

import pytest
from hami_nvidia import rules
from hypothesis import given
from hypothesis import strategies as st

from hami_core.errors import RequestError, WireError
from hami_core.model import (
    Allocation,
    ContainerKind,
    ContainerSlices,
    Family,
    MigPlacement,
    Resources,
    Slice,
    Weights,
)
from hami_core.wire import keys, mig, pod

NVIDIA = Family("NVIDIA", Resources("nvidia.com/gpu"), rules.ALLOCATED, rules.TO_ALLOCATE)
ACME = Family("Acme", Resources("acme.io/x"), "hami.io/acme-devices-allocated")
FAMILIES = {f.word: f for f in (NVIDIA, ACME)}

ids = st.text(
    st.characters(exclude_characters=",:;", codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=40
)
amounts = st.integers(0, 2**31 - 1)


def slices(word: str) -> st.SearchStrategy[Slice]:
    return st.builds(lambda i, m, c: Slice(i, word, m, c, type=word), ids, amounts, amounts)


containers = st.builds(
    lambda kind, nv, ac, name: ContainerSlices(name, kind, tuple(nv + ac)),
    st.sampled_from(ContainerKind),
    st.lists(slices("NVIDIA"), max_size=3),
    st.lists(slices("Acme"), max_size=3),
    st.text(max_size=8),
)


@given(st.lists(containers, max_size=6))
def test_allocation_comes_back_as_written(parts):
    allocation = Allocation("n1", tuple(parts))
    written = pod.allocation_annotations(allocation, FAMILIES, 1_700_000_000, keys.PHASE_SUCCESS)
    read = pod.decode_allocation(written, FAMILIES, [(c.name, c.kind) for c in parts])
    assert (read is None) == (not allocation.families)
    if read is not None:
        assert read == allocation


def test_every_container_has_its_entry_under_the_common_word():
    parts = (
        ContainerSlices("init", ContainerKind.INIT),
        ContainerSlices("a", ContainerKind.APP),
        ContainerSlices("b", ContainerKind.APP, (Slice("GPU-a", "NVIDIA", 1000, 30),)),
    )
    written = pod.allocation_annotations(Allocation("n1", parts), FAMILIES, 7, keys.PHASE_ALLOCATING)
    assert written == {
        "hami.io/vgpu-node": "n1",
        "hami.io/vgpu-time": "7",
        "hami.io/bind-time": "7",
        "hami.io/bind-phase": "allocating",
        "hami.io/vgpu-devices-allocated": ";;GPU-a,NVIDIA,1000,30:;",
        "hami.io/vgpu-devices-to-allocate": ";;GPU-a,NVIDIA,1000,30:;",
    }


def test_a_list_of_another_length_than_the_pod_is_refused():
    annotations = {keys.NODE: "n1", rules.ALLOCATED: "GPU-a,NVIDIA,1,1:;"}
    two = [("a", ContainerKind.APP), ("b", ContainerKind.APP)]
    with pytest.raises(WireError, match="1 containers in the list, the pod has 2"):
        pod.decode_allocation(annotations, FAMILIES, two)
    lenient = pod.decode_allocation(annotations, FAMILIES, two, strict=False)
    assert lenient is not None
    assert [len(c.slices) for c in lenient.containers] == [1, 0]


A, B, C = (f"GPU-{name},NVIDIA,1,1:" for name in "abc")
THREE = [("prep", ContainerKind.INIT), ("a", ContainerKind.APP), ("b", ContainerKind.APP)]


def read_for(text: str, asking: tuple[int, ...], *, counted: bool = False):
    """The devices of each of three containers that ask for so many."""
    limits = [{"nvidia.com/gpu": str(count), "cpu": "1"} if count else {"cpu": "1"} for count in asking]
    annotations = {keys.NODE: "n1", rules.ALLOCATED: text}
    if counted:
        read = pod.read_allocation(annotations, FAMILIES, THREE, limits).allocation
    else:
        read = pod.decode_allocation(annotations, FAMILIES, THREE, strict=False, limits=limits)
    assert read is not None
    return ["".join(piece.device_id[-1] for piece in container.slices) for container in read.containers]


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize(
    ("text", "asking", "found"),
    [
        (f"{A};", (0, 1, 0), ["", "a", ""]),
        (f"{A};", (0, 0, 1), ["", "", "a"]),
        (f"{A};", (1, 0, 0), ["a", "", ""]),
        (f"{A};{B}{C};", (1, 0, 2), ["a", "", "bc"]),
        (f"{A}{B};{C};", (0, 2, 1), ["", "ab", "c"]),
        (f";{A};;", (0, 1, 0), ["", "a", ""]),
        (f"{A};;", (0, 1, 0), ["", "a", ""]),
        (f";{A};", (0, 0, 1), ["", "", "a"]),
        (f"{A};{B};{C};", (1, 1, 1), ["a", "b", "c"]),
    ],
    ids=["2nd", "3rd", "init", "1st, 3rd", "2nd, 3rd", "padded", "padded behind", "padded before", "all"],
)
def test_a_short_list_of_hamis_goes_to_the_containers_that_ask(text, asking, found, counted):
    """HAMi v2.10 pads under the card's model name, so NVIDIA's list has entries only for containers with cards."""
    assert read_for(text, asking, counted=counted) == found


@pytest.mark.parametrize(
    ("text", "asking"),
    [
        (f"{A};", (0, 1, 1)),
        (f"{A};{B};", (0, 1, 0)),
        (f"{A}{B};", (0, 1, 0)),
        (f"{A};{B}{C};", (0, 2, 1)),
        (f"{A};", (0, 0, 0)),
    ],
    ids=["one for two", "two for one", "two cards for one", "sizes the other way round", "nobody asks"],
)
def test_short_list_that_fits_no_container_is_refused(text, asking):
    with pytest.raises(WireError, match="which container has which devices can't be told"):
        read_for(text, asking)
    assert read_for(text, asking, counted=True) == ["", "", "".join(c for c in "abc" if f"GPU-{c}" in text)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("GPU-a,NVIDIA,1,1:", "does not end in ';'"),
        ("GPU-a,NVIDIA,1,1;", "does not end in ':'"),
        ("GPU-a,NVIDIA,1,1,9:;", "malformed device"),
        ("x:GPU-a,NVIDIA,1,1:;", "malformed device"),
        (",NVIDIA,1,1:;", "malformed device"),
        ("GPU-a,NVIDIA,-1,1:;", "invalid memory field"),
        ("GPU-a,NVIDIA,1,2147483648:;", "invalid core field"),
        ("GPU-a,NVIDIA,1_0,1:;", "invalid memory field"),
        ("GPU-a,NVIDIA,\uff11,1:;", "invalid memory field"),
    ],
)
def test_strict_reading_names_what_is_wrong(text, problem):
    with pytest.raises(WireError, match=problem):
        pod.decode_pod_devices(text, key="k", family="NVIDIA", strict=True)


def test_ids_that_would_break_the_format_are_not_written():
    for bad in ("a,b", "a:b", "a;b", ""):
        with pytest.raises(WireError, match="cannot be written"):
            pod.encode_pod_devices([[Slice(bad, "NVIDIA", 1, 1)]])


def test_mig_reservations_travel_with_the_slices():
    piece = Slice("GPU-a", "NVIDIA", 4864, 15, "NVIDIA", "mig", mig_profile="1g.5gb", mig_placement=MigPlacement(6, 1))
    allocation = Allocation("n1", (ContainerSlices("a", ContainerKind.APP, (piece,)),))
    written = pod.allocation_annotations(allocation, FAMILIES, 7, keys.PHASE_SUCCESS)
    assert pod.decode_allocation(written, FAMILIES, [("a", ContainerKind.APP)]) == allocation
    written[keys.MIG_ALLOCATIONS] = written[keys.MIG_ALLOCATIONS].replace("GPU-a", "GPU-b")
    with pytest.raises(WireError, match="no slice of 'GPU-b'"):
        pod.decode_allocation(written, FAMILIES, [("a", ContainerKind.APP)])


@given(st.text(max_size=60) | st.text("GPU-a,N0129:;", max_size=60), st.booleans())
def test_reading_anything_raises_wire_errors_only(text, strict):
    for read in (
        lambda: pod.decode_pod_devices(text, key="k", family="F", strict=strict),
        lambda: mig.decode_reservations(text),
    ):
        with contextlib.suppress(WireError):
            read()


@given(st.text(max_size=40) | st.from_regex(r"slot=\d{1,30},core=-?\d,memory=\w", fullmatch=True))
def test_weights_raise_request_errors_only(text):
    with contextlib.suppress(RequestError):
        weights = pod.parse_weights(text)
        assert max(weights.slot, weights.core, weights.memory) > 0


def test_weights_in_any_order():
    assert pod.parse_weights(" memory = 3, slot = 1, core = 0 ") == Weights(1, 0, 3)
    assert pod.parse_weights(None) == Weights()


# --- lists that node plugins consume ---------------------------------------------------------------------------------

EATEN_KEY, LIST_KEY, KEPT_KEY = (
    f"hami.io/Eaten-devices-{end}" for end in ("allocated", "to-allocate", "kept-allocated")
)
EATEN = Family("Eaten", Resources("eaten.io/x"), EATEN_KEY, LIST_KEY, kept_key=KEPT_KEY)
WHOLE = ";e-0,Eaten,0,0:;e-1,Eaten,0,0:e-2,Eaten,0,0:;"


@pytest.mark.parametrize("left", [";e-1,Eaten,0,0:e-2,Eaten,0,0:;", ";", ""])
@pytest.mark.parametrize("consumed", [EATEN_KEY, LIST_KEY])
@pytest.mark.parametrize("by_us", [True, False])
def test_allocation_is_read_from_the_list_that_no_plugin_consumes(left, consumed, by_us):
    """HAMi writes no third list. Then the fuller one of its two counts."""
    written = {keys.NODE: "n1", EATEN_KEY: WHOLE, LIST_KEY: WHOLE} | ({KEPT_KEY: WHOLE} if by_us else {})
    limits = [{}, {"eaten.io/x": "1"}, {"eaten.io/x": "2"}]
    found = pod.read_allocation(written | {consumed: left}, {"Eaten": EATEN}, THREE, limits)
    assert found.unread == {}
    assert found.allocation is not None
    assert [[piece.device_id for piece in pieces] for pieces in found.allocation.of("Eaten")] == [
        [], ["e-0"], ["e-1", "e-2"],
    ]  # fmt: skip


def test_allocation_is_written_to_every_list():
    parts = tuple(
        ContainerSlices(name, kind, tuple(Slice(i, "Eaten", 0, 0) for i in ids))
        for (name, kind), ids in zip(THREE, ([], ["e-0"], ["e-1", "e-2"]), strict=True)
    )
    written = pod.allocation_annotations(Allocation("n1", parts), {"Eaten": EATEN}, 1, keys.PHASE_ALLOCATING)
    assert {written[key] for key in (EATEN_KEY, LIST_KEY, KEPT_KEY)} == {WHOLE}
