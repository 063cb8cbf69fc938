"""The public functions of the vendorkit."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AliasChoices, Field
from pydantic_settings import SettingsConfigDict

from hami_core.errors import ConfigError, DeviceError, RequestError, WireError
from hami_core.model import (
    ContainerKind,
    ContainerSpec,
    DeviceKind,
    Family,
    NodeFacts,
    PodFacts,
    Request,
    Resources,
    SelectorKeys,
)
from hami_core.vendorkit import (
    LockVerdict,
    Template,
    capacity,
    capacity_devices,
    default_check_type,
    default_check_uuid,
    default_parse_request,
    format_lock,
    judge_lock,
    may_release,
    parse_lock,
    read_json_register,
    smallest_template,
)
from hami_core.vendorkit.node import EnvironmentSettings, wait_for_room

FAMILY = Family(
    "X",
    Resources("x.io/n", "x.io/mem", "x.io/pct", "x.io/cores"),
    "hami.io/x-allocated",
    register_key="x.io/register",
    uuid_selectors=(SelectorKeys("x.io/use", "x.io/nouse"), SelectorKeys("y.io/use", "y.io/nouse")),
    type_selectors=(SelectorKeys("x.io/use-type", "x.io/nouse-type"),),
    memory_factor=256,
)
POD = PodFacts("ns", "p", "uid")


def ask(**limits: str) -> Request | None:
    names = {"n": "x.io/n", "mem": "x.io/mem", "pct": "x.io/pct", "cores": "x.io/cores"}
    spec = ContainerSpec("trainer", ContainerKind.APP, {names[k]: v for k, v in limits.items()})
    return default_parse_request(spec, POD, FAMILY)


def test_amounts_as_the_api_server_rewrites_them():
    assert ask(n="1", mem="1k") == Request("X", 1, 256_000)
    assert ask(n="1", mem="4096") == Request("X", 1, 1 << 20)
    assert ask(n="2000m") == Request("X", 2, 0, 100)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (
            {"n": "1", "mem": "16Gi"},
            "container trainer: x.io/mem: '16Gi' has a unit .*in units of 256 MiB that is 64: write",
        ),
        ({"n": "1", "mem": "32Ki"}, "'32Ki' has a unit"),
        ({"n": "1", "mem": "8G"}, "'8G' has a unit .*write 30"),
        ({"n": "8G"}, "container trainer: x.io/n: '8G' has a unit .write a plain whole number: 8"),
        ({"n": "1", "cores": "30M"}, "x.io/cores: '30M' has a unit .write a plain whole number: 30"),
        ({"n": "1", "pct": "50G"}, "x.io/pct: '50G' has a unit .write a plain whole number: 50"),
        ({"n": "1", "mem": "-5"}, "-5 is negative"),
        ({"n": "1", "mem": "1500m"}, "not a whole number .write 2"),
        ({"n": "4294967296"}, "container trainer: x.io/n: 4294967296 is above the largest amount 2147483647"),
        ({"n": "1", "mem": "8388608"}, "above the largest amount 4096, in units of 256 MiB"),
        ({"n": "many"}, "'many' is not a Kubernetes quantity"),
        ({"n": "1e99"}, "exponent beyond"),
        ({"n": "1", "pct": "0.5"}, "not a whole number"),
    ],
)
def test_meaningless_amounts_are_refused_with_their_resource(limits, words):
    with pytest.raises(RequestError, match=words):
        ask(**limits)


@given(
    st.dictionaries(
        st.sampled_from(["n", "mem", "pct", "cores"]),
        st.text(max_size=12) | st.from_regex(r"-?\d{1,12}[A-Za-z.]{0,2}\d?", fullmatch=True),
    )
)
def test_any_text_gives_a_bounded_request_or_a_request_error(limits):
    with contextlib.suppress(RequestError):
        request = ask(**limits)
        if request is not None:
            assert 1 <= request.count < 2**31
            assert 0 <= request.memory_mib < 2**31
            assert 0 <= request.cores < 2**31
            assert request.memory_percent is None or 1 <= request.memory_percent <= 100


def test_all_pairs_of_id_selectors_must_pass():
    def verdict(**annotations: str) -> bool:
        keys = {"x_use": "x.io/use", "x_nouse": "x.io/nouse", "y_use": "y.io/use", "y_nouse": "y.io/nouse"}
        request = Request("X", 1, annotations={keys[k]: v for k, v in annotations.items()})
        return default_check_uuid(request, "d1", FAMILY) is None

    assert verdict(x_use="d1", y_use="d1, d2")
    assert not verdict(x_use="d1", y_use="d2")
    assert not verdict(x_use="d1", y_nouse="d1")
    assert not verdict(x_use="d", x_nouse="")
    assert not verdict(x_use="D1")


def test_model_selectors_ignore_case_and_blank_entries():
    def verdict(use: str = "", nouse: str = "") -> bool:
        request = Request("X", 1, annotations={"x.io/use-type": use, "x.io/nouse-type": nouse})
        return default_check_type(request, DeviceKind("X", "NVIDIA-A100"), FAMILY) is None

    assert verdict(use="a100")
    assert not verdict(use="V100,")
    assert verdict(nouse=",V100")
    assert not verdict(nouse=",A1")
    assert default_check_type(Request("X", 1), DeviceKind("Y", "NVIDIA-A100"), FAMILY) is not None


def test_capacity_and_register_errors_are_wire_errors():
    with pytest.raises(WireError, match=r"capacity x.io/n: '-1' is not a whole number from 0 to 1000000000"):
        capacity(NodeFacts("n1", capacity={"x.io/n": "-1"}), "x.io/n")
    assert capacity(NodeFacts("n1"), "x.io/n") == 0
    assert capacity(NodeFacts("n1", capacity={"x.io/n": "1M"}), "x.io/n") == 1_000_000
    assert read_json_register(NodeFacts("n1"), FAMILY) is None
    with pytest.raises(WireError, match=r"x.io/register at 1: .*`\$\[1\].count`"):
        read_json_register(NodeFacts("n1", {"x.io/register": '[{"id":"a"},{"id":"b","count":-1}]'}), FAMILY)


def test_the_smallest_template_that_holds_it():
    sizes = (Template("big", 16), Template("small", 4), Template("mid", 8))
    assert smallest_template(sizes, 5) == Template("mid", 8)
    assert smallest_template(sizes, 17) is None


NOW = datetime(2026, 7, 3, 15, 35, 10, tzinfo=UTC)


def test_a_lock_reads_back_and_expires():
    text = format_lock(NOW, "ns", "p")
    assert text == "2026-07-03T15:35:10Z,ns,p"
    assert parse_lock(text).held_by("ns", "p")
    later = NOW + timedelta(minutes=5)
    assert judge_lock(text, namespace="a", pod="b", now=later) is LockVerdict.CONTENDED
    assert judge_lock(text, namespace="a", pod="b", now=later + timedelta(seconds=1)) is LockVerdict.TAKE_OVER
    assert judge_lock(text, namespace="ns", pod="p", now=later) is LockVerdict.OURS
    assert may_release(text, namespace="ns", pod="p")
    assert not may_release(text, namespace="ns", pod="pp")
    assert not may_release(None, namespace="ns", pod="p")


@given(st.text(max_size=50) | st.from_regex(r"2026-\d\d-\d\dT\d\d:\d\d:\d\d(Z|\+\d\d:\d\d)(,\w*){0,3}", fullmatch=True))
def test_reading_any_lock_raises_wire_errors_only(text):
    with contextlib.suppress(WireError):
        assert parse_lock(text).taken.tzinfo is not None


def cards_of(capacity: dict[str, str], **more: object) -> list[tuple[str, int, int, int, str]]:
    node = NodeFacts("n1", capacity=capacity)
    found = capacity_devices(node, FAMILY, "x", **more) or ()
    return [(d.id, d.index, d.slots, d.memory_mib, d.type) for d in found]


def test_capacity_makes_one_card_for_every_started_unit():
    by_cores = {"counted": "x.io/cores", "per_card": 100, "slots": 100}
    assert cards_of({"x.io/cores": "150", "x.io/mem": "3"}, **by_cores) == [
        ("n1-x-0", 0, 100, 3 * 256 * 100 // 150, "X"),
        ("n1-x-1", 1, 100, 3 * 256 * 100 // 150, "X"),
    ]
    assert cards_of({"x.io/n": "2"}, memory_mib=65536, model="X-1") == [
        ("n1-x-0", 0, 1, 65536, "X-1"),
        ("n1-x-1", 1, 1, 65536, "X-1"),
    ]


def test_capacity_of_nothing_makes_no_cards():
    assert capacity_devices(NodeFacts("n1", capacity={"x.io/mem": "3"}), FAMILY, "x") is None
    assert cards_of({"x.io/n": "0", "x.io/mem": "3"}) == []


@pytest.mark.parametrize("sizes", [{"x.io/n": "1025"}, {"x.io/n": "1", "x.io/mem": "8388608"}, {"x.io/n": "-1"}])
def test_capacity_beyond_bounds_names_the_resource(sizes):
    with pytest.raises(WireError, match=r"capacity x\.io/n"):
        cards_of(sizes)


@pytest.mark.parametrize(("free_after", "made"), [(0, True), (3, True), (1000, False)])
def test_room_is_awaited_for_five_seconds(free_after, made):
    now = [0.0]
    calls: list[float] = []

    def make() -> str:
        calls.append(now[0])
        if len(calls) <= free_after:
            raise DeviceError("full")
        return "instance"

    def sleep(seconds: float) -> None:
        now[0] += seconds

    with contextlib.nullcontext() if made else pytest.raises(DeviceError, match="full"):
        assert wait_for_room(make, lambda error: True, lambda: now[0], sleep) == "instance"
    assert calls[-1] == pytest.approx(0.05 * free_after if made else 5.0, abs=0.06)


def test_other_failures_are_not_repeated():
    calls: list[int] = []

    def make() -> None:
        calls.append(1)
        raise DeviceError("broken")

    with pytest.raises(DeviceError, match="broken"):
        wait_for_room(make, lambda error: "full" in str(error), lambda: 0.0, lambda seconds: None)
    assert len(calls) == 1


class AcmeSettings(EnvironmentSettings):
    model_config = SettingsConfigDict(env_prefix="HAMI_ACME_")
    slots: int = Field(default=10, validation_alias=AliasChoices("HAMI_ACME_SLOTS", "ACME_SPLIT"))
    library: str = "libacme.so"


def test_settings_come_from_variables_and_their_old_names(monkeypatch):
    monkeypatch.setenv("ACME_SPLIT", "4")
    monkeypatch.setenv("HAMI_ACME_LIBRARY", "/opt/libacme.so")
    assert AcmeSettings.from_environment() == AcmeSettings(slots=4, library="/opt/libacme.so")


def test_unknown_variable_is_logged_with_the_likely_one(monkeypatch, caplog):
    monkeypatch.setenv("HAMI_ACME_LIBARY", "/opt/libacme.so")
    assert AcmeSettings.from_environment().library == "libacme.so"
    assert "HAMI_ACME_LIBARY has no effect" in caplog.text
    assert "did you mean LIBRARY?" in caplog.text


def test_wrong_value_names_the_variable_that_was_set(monkeypatch):
    monkeypatch.setenv("ACME_SPLIT", "many")
    with pytest.raises(ConfigError, match="environment variable ACME_SPLIT: "):
        AcmeSettings.from_environment()
