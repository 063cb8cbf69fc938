"""Register annotations, link scores, handshake and cordon against the vectors."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from hami_nvidia import rules

from hami_core.errors import WireError
from hami_core.model import Device, Family, MigPlacement, MigProfile, NodeFacts, Resources
from hami_core.vendorkit import read_json_register
from hami_core.wire import node

from .cases import COMMENTARY, Case, cases, value

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.vectors

NVIDIA = Family("NVIDIA", Resources("nvidia.com/gpu"), rules.ALLOCATED, register_key=rules.REGISTER)
SETS = {
    "id": "id", "index": "index", "count": "slots", "devmem": "memory_mib", "devcore": "cores", "type": "type",
    "numa": "numa", "mode": "mode", "health": "healthy",
}  # fmt: skip


def device(entry: dict[str, Any]) -> Device:
    unknown = set(entry) - set(SETS)
    assert not unknown, f"device keys unknown to the runner: {unknown}"
    full = {"id": "", "index": 0, "count": 0, "devmem": 0, "devcore": 0, "type": "", "health": False, **entry}
    return Device(family="NVIDIA", **{SETS[name]: full[name] for name in full})


def described(found: Device, like: dict[str, Any]) -> dict[str, Any]:
    """The device in the form of the vectors, with the keys of the expectation."""
    assert set(like) <= set(SETS), f"device keys unknown to the runner: {set(like) - set(SETS)}"
    return {name: getattr(found, SETS[name]) for name in like}


@pytest.mark.parametrize("case", cases("node_devices_csv_decode"))
def test_csv_is_decoded_as_in_hami(case: Case) -> None:
    found = case.ask(lambda: node.decode_devices_csv(case["in"], key="", family="NVIDIA"))
    check_devices(case, found)


def check_devices(case: Case, found: Sequence[Device]) -> None:
    if "devices" in case:
        wanted = case["devices"]
        assert [described(f, e) for f, e in zip(found, wanted, strict=True)] == wanted


@pytest.mark.parametrize("case", cases("node_devices_csv_encode"))
def test_csv_is_encoded_as_in_hami(case: Case) -> None:
    devices = [device(entry) for entry in case.get("devices", [])]
    assert case.ask(lambda: node.encode_devices_csv(devices)) == case["out"]


@pytest.mark.parametrize("case", cases("node_devices_json"))
def test_json_register_is_read_as_in_hami(case: Case) -> None:
    match case["op"]:
        case "encode":
            devices = [device(entry) for entry in case.get("devices", [])]
            text = case.ask(lambda: node.encode_devices_json(devices))
            assert text == case.get("out", text)
        case "decode":
            check_devices(case, case.ask(lambda: node.decode_devices_json(case["in"], key="k", family="NVIDIA")))
        case "encode_mig_profile":
            text = case.ask(lambda: node.encode_mig_profile(profile(case["profile"])))
            assert text == case.get("out", text)
        case "nvidia_get_node_devices":
            read_register(case)
        case _:
            raise case.unknown("op")


def profile(entry: dict[str, Any]) -> MigProfile:
    """A MIG profile of the vectors. Its instanceCount is internal to HAMi and never on the wire."""
    places = tuple(MigPlacement(p.get("start", 0), p["size"]) for p in entry.get("placements", []))
    amounts = (entry.get(key, 0) for key in ("memoryMB", "core", "sliceCount"))
    return MigProfile(entry["name"], *amounts, places)


def read_register(case: Case) -> None:
    """HAMi raises errors for "no annotation" and "no devices". We return None and an empty list."""
    text = case.get("annotation")
    facts = NodeFacts("n1", {} if text is None else {rules.REGISTER: text})
    try:
        found = read_json_register(facts, NVIDIA)
    except WireError as error:
        case.verdict("", False, error.problem, str(error))
        raise
    told = {None: f"annos not found {rules.REGISTER}", (): "no gpu found on node"}
    case.verdict("", bool(found), told.get(found, ""))
    check_devices(case, found or ())


@pytest.mark.parametrize("case", cases("pair_scores_json"))
def test_link_scores_match_hami(case: Case) -> None:
    assert case.head["annotation"] == rules.PAIR_SCORES
    scores = case.ask(lambda: node.decode_pair_scores(case["in"], key="k"))
    assert scores == case.get("scores", scores)
    assert node.encode_pair_scores(scores) == case["in"]


def test_link_score_text_survives_decoding_and_encoding() -> None:
    text = value("vendors/codec.pairScoreJson")
    assert node.encode_pair_scores(node.decode_pair_scores(text, key="k")) == text


@pytest.mark.parametrize("case", cases("health_generic"))
def test_handshake_matches_hami(case: Case) -> None:
    verdict = node.judge_handshake(
        case.get("handshake"), allocatable=case.get("allocatable", 0), now=datetime.fromisoformat("2026-07-03T12:00:00")
    )
    if case.get("node_get_fails") and verdict is node.Liveness.REFRESH:
        verdict = node.Liveness.KEEP  # as judge_handshake's docstring requires of the caller
    outcome = {
        node.Liveness.KEEP: [True, False],
        node.Liveness.REFRESH: [True, True],
        node.Liveness.DEAD: [False, False],
    }
    case.verdict("", outcome[verdict][0], verdict.name)
    assert outcome[verdict] == case["out"]


# --- vendors.json ---------------------------------------------------------------------------------------------------

FIELDS = {
    "id": "id", "count": "slots", "devmem": "memory_mib", "devcore": "cores", "type": "type", "numa": "numa",
    "health": "healthy", "index": "index", "mode": "mode",
}  # fmt: skip
PROBLEMS = {
    "no separator": "missing device separator",
    "malformed segment": "malformed node annotation segment",
    "negative index": "index field must not be negative",
}


@pytest.mark.parametrize("case", cases("vendors/codec.nodeText.encode"))
def test_node_text_is_encoded_as_in_hami(case: Case) -> None:
    assert case.ask(lambda: node.encode_devices_csv([device(case["in"])])) == case["out"]


@pytest.mark.parametrize("case", cases("vendors/codec.nodeText.decode"))
def test_node_text_is_decoded_as_in_hami(case: Case) -> None:
    named = case.get("error", True)
    if named is not True:  # any word
        expected = PROBLEMS.get(named) or (named if named.startswith("field count") else f"invalid {named} field")
        with pytest.raises(WireError, match=expected):
            node.decode_devices_csv(case["in"], key="k", family="DCU")
        return
    found = case.ask(lambda: node.decode_devices_csv(case["in"], key="k", family="DCU"))
    assert len(found) == case.get("devices", len(found))
    for name in ("mode", "index"):
        if name in case:
            assert [getattr(d, name) for d in found] == [case[name]]


def test_node_text_has_fields_in_hamis_order() -> None:
    fields = value("vendors/codec.nodeText.fields9")
    assert fields == list(FIELDS)
    assert value("vendors/codec.nodeText.fields7") == fields[:7]
    sample = Device("d", 3, 10, 7680, 100, "T", "DCU", 1, "mig")
    written = node.encode_devices_csv([sample]).rstrip(":").split(",")
    told = {True: "true", False: "false"}
    assert written == [str(told.get(v, v) if isinstance(v := getattr(sample, FIELDS[f]), bool) else v) for f in fields]
    (short,) = node.decode_devices_csv(",".join(written[:7]) + ":", key="k", family="DCU")
    assert {"index": short.index, "mode": short.mode} == value("vendors/codec.nodeText.defaults7")


@pytest.mark.parametrize("case", cases("vendors/codec.nodeJson.examples"))
def test_node_json_examples_match_hami(case: Case) -> None:
    (found,) = case.ask(lambda: node.decode_devices_json(case["json"], key="k", family="NVIDIA"))
    assert node.encode_devices_json([device(case["device"])]) == case["json"]
    assert found == device(case["device"])


def test_node_json_keys_are_in_hamis_order() -> None:
    order = value("vendors/codec.nodeJson.keyOrder")
    unwritten = {"migtemplate", "devicevendor"}
    full = Device("i", 1, 1, 1, 1, "t", "F", 1, "m", True, mig_profiles=(MigProfile("p", 1, 1, 1),), custom={"a": 1})
    text = node.encode_devices_json([full], custom=True)
    places = [text.index(f'"{name}":') for name in order if name not in unwritten]
    assert places == sorted(places)
    tolerated = text.replace('"health"', '"migtemplate":[],"devicevendor":"x","devicepairscore":{},"health"')
    assert node.decode_devices_json(tolerated, key="k", family="F") == (full,)
    assert node.encode_devices_json([]) == value("vendors/codec.nodeJson.emptyList")


def test_node_json_mig_profile_survives_decoding_and_encoding() -> None:
    text = value("vendors/codec.nodeJson.migProfileWire")
    (found,) = node.decode_devices_json(f'[{{"id":"d","migProfiles":[{text}]}}]', key="k", family="NVIDIA")
    assert node.encode_mig_profile(found.mig_profiles[0]) == text


def test_commentary_is_not_part_of_a_case() -> None:
    assert {"src", "origin", "note"} <= COMMENTARY
