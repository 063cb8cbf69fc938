"""Registers, scores and handshake: encoding and decoding agree, and malformed text is refused."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_core.errors import WireError
from hami_core.model import Device, MigPlacement, MigProfile
from hami_core.wire import node
from hami_core.wire.reasons import encode_histogram, parse_histogram

amounts = st.integers(0, 2**31 - 1)
names = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=30)
plain = st.from_regex(r"[A-Za-z0-9 ._-]{1,20}", fullmatch=True)
OURS = {"reservedmem", "notoffered", "wholeonly"}
"""Keys of ``custominfo`` that have fields of their own."""
profiles = st.builds(
    MigProfile, names, amounts, amounts, st.integers(0, 16),
    st.lists(st.builds(MigPlacement, st.integers(0, 16), st.integers(1, 16)), max_size=3).map(tuple),
)  # fmt: skip
devices = st.lists(
    st.builds(
        Device, id=names, index=amounts, slots=amounts, memory_mib=amounts, cores=amounts, type=names,
        family=st.just("F"), numa=st.integers(0, 8), mode=st.sampled_from(["", "mig", "hami-core"]),
        healthy=st.booleans(), mig_profiles=st.lists(profiles, max_size=2).map(tuple),
        custom=st.dictionaries(names.filter(lambda name: name not in OURS), st.integers(0, 9) | names, max_size=2),
    ),
    max_size=4, unique_by=lambda d: d.id,
)  # fmt: skip


@given(devices)
def test_json_comes_back_as_written(listed):
    text = node.encode_devices_json(listed, custom=True)
    assert list(node.decode_devices_json(text, key="k", family="F")) == listed
    bare = node.encode_devices_json(listed)
    assert "custominfo" not in "".join(key for entry in json.loads(bare) for key in entry)


@pytest.mark.parametrize(
    ("fields", "custominfo"),
    [
        ({"reserved_mib": 450}, {"reservedmem": 450}),
        ({"not_offered": "card is in MIG mode", "healthy": False}, {"notoffered": "card is in MIG mode"}),
        ({"whole_only": "compute mode EXCLUSIVE_PROCESS"}, {"wholeonly": "compute mode EXCLUSIVE_PROCESS"}),
        ({}, None),
    ],
)
@pytest.mark.parametrize("own", [{}, {"NetworkID": 1}])
def test_how_a_device_is_offered_comes_back_as_written(fields, custominfo, own):
    device = replace(Device("a", 0, 10, 15360, 100, "T4", "F", custom=own), **fields)
    text = node.encode_devices_json([device], custom=True)
    assert json.loads(text)[0].get("custominfo") == (own | (custominfo or {}) or None)
    assert node.decode_devices_json(text, key="k", family="F") == (device,)
    bare = json.loads(node.encode_devices_json([device]))[0]
    assert bare.get("custominfo") == custominfo, "the vendor's own data is published on demand, this always"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("reservedmem", value) for value in (-1, 15360, 2**40, 1.5, "450", True, [], None)),
        *((key, value) for key in ("notoffered", "wholeonly") for value in ("", 1, ["x"], "x" * 513, None)),
    ],
)
def test_a_wrong_offer_is_refused_naming_its_key(key, value):
    entries = [{"id": "a", "devmem": 15360}, {"id": "b", "devmem": 15360, "custominfo": {key: value}}]
    if value is None:  # as a key that is absent
        assert node.decode_devices_json(json.dumps(entries), key="k", family="F")[1].custom == {}
        return
    with pytest.raises(WireError, match=key) as caught:
        node.decode_devices_json(json.dumps(entries), key="k", family="F")
    assert caught.value.position == 1


def test_a_device_that_is_not_offered_is_never_healthy():
    text = '[{"id":"a","health":true,"custominfo":{"notoffered":"card is in MIG mode"}}]'
    assert not node.decode_devices_json(text, key="k", family="F")[0].healthy


@given(devices, st.data())
def test_csv_comes_back_as_written(listed, data):
    listed = [
        replace(d, id=f"{data.draw(plain)}{n}", type=data.draw(plain), mig_profiles=(), custom={})
        for n, d in enumerate(listed)
    ]
    text = node.encode_devices_csv(listed)
    if listed:
        assert list(node.decode_devices_csv(text, key="k", family="F")) == listed
    else:
        assert text == ""


@given(st.dictionaries(names, st.dictionaries(names, st.integers(-(2**31) + 1, 2**31 - 1), max_size=3), max_size=3))
def test_link_scores_come_back_as_written(scores):
    assert node.decode_pair_scores(node.encode_pair_scores(scores), key="k") == scores


any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["id", "index", "count", "devmem", "numa", "migProfiles", "uuid", "score"]), inner
        )
    ),
    max_leaves=12,
).map(json.dumps)


@given(
    any_json | st.text(max_size=60) | st.text('[]{}":,idcount0129e-', max_size=60) | st.text("a,:1t\ud800", max_size=40)
)
def test_reading_anything_raises_wire_errors_only(text):
    for read in (node.decode_devices_json, node.decode_devices_csv):
        with contextlib.suppress(WireError):
            for device in read(text, key="k", family="F"):
                assert device.id
                assert 0 <= device.memory_mib < 2**31
    with contextlib.suppress(WireError):
        node.decode_pair_scores(text, key="k")
    assert node.judge_handshake(text, allocatable=0, now=datetime(2026, 1, 1)) in node.Liveness  # noqa: DTZ001
    assert all(node.decode_cordon(text))
    parse_histogram(text)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('[{"id":"a"},{"id":"a"}]', "k at 1: device 'a' is listed twice"),
        ('[{"id":"a"},{"id":"b","devmem":2147483648}]', "k at 1: .*devmem"),
        ('[{"id":"a","devmem":1.5}]', "k at 0: .*devmem"),
        ('[{"id":""}]', "k at 0: "),
        ('[{"index":1}]', "k at 0: .*`id`"),
        ('[{"id":"a","health":"true"}]', "k at 0: .*health"),
        ('[{"id":"a"},', "k at 12: Input data was truncated"),
        ('{"id":"a"}', "k: Expected `array"),
    ],
)
def test_errors_name_key_and_position(text, where):
    with pytest.raises(WireError, match=where):
        node.decode_devices_json(text, key="k", family="F")


def test_a_list_may_be_null_and_too_many_devices_are_refused():
    assert node.decode_devices_json("null", key="k", family="F") == ()
    many = node.encode_devices_json(Device(f"d{n}", n, 1, 1, 1, "t", "F") for n in range(node.MAX_DEVICES + 1))
    with pytest.raises(WireError, match="at most 4096"):
        node.decode_devices_json(many, key="k", family="F")


def test_devices_get_the_scores_that_are_theirs():
    listed = [Device("a", 0, 1, 1, 1, "t", "F"), Device("b", 1, 1, 1, 1, "t", "F")]
    scored = node.with_pair_scores(listed, {"a": {"b": 7}, "z": {"a": 1}})
    assert [dict(d.pair_scores) for d in scored] == [{"b": 7}, {}]


def test_the_cordon_list_ignores_blanks():
    assert node.decode_cordon(" dev-1, ,dev-2,") == {"dev-1", "dev-2"}


def test_a_request_is_kept_for_a_minute_and_read_back():
    now = datetime(2026, 7, 3, 15, 35, 10)  # noqa: DTZ001
    asked = node.format_requesting(now)
    assert asked == "Requesting_2026-07-03 15:35:10"
    for seconds, verdict in ((59, node.Liveness.KEEP), (60, node.Liveness.DEAD)):
        later = now + timedelta(seconds=seconds)
        assert node.judge_handshake(asked, allocatable=0, now=later) is verdict
    assert node.judge_handshake(node.format_reported(now), allocatable=0, now=now) is node.Liveness.REFRESH


@given(
    st.dictionaries(st.from_regex(r"[A-Z][A-Za-z]{1,20}", fullmatch=True), st.integers(1, 10**6)), st.integers(1, 10**6)
)
def test_histograms_come_back_as_written(counts, total):
    assert parse_histogram(encode_histogram(counts, total)) == counts
