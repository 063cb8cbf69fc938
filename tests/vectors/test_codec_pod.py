"""Pod allocations, MIG reservations, policies and reasons against the vectors."""

from __future__ import annotations

import json
from typing import Any

import pytest

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
from hami_core.wire import keys, mig, pod, reasons

from .cases import Case, cases, value

pytestmark = pytest.mark.vectors


def slices(row: list[Any]) -> Slice:
    uuid, word, memory, cores = row
    return Slice(uuid, "NVIDIA", memory, cores, word)


def described(containers: tuple[tuple[Slice, ...], ...]) -> list[list[list[Any]]]:
    return [[[s.device_id, s.type, s.memory_mib, s.cores] for s in c] for c in containers]


@pytest.mark.parametrize("case", cases("pod_devices_encode_decode"))
def test_pod_devices_match_hami(case: Case) -> None:
    def coded() -> tuple[tuple[Slice, ...], ...]:
        if "containers" in case:
            text = pod.encode_pod_devices([[slices(row) for row in container] for container in case["containers"]])
            assert text == case.get("encoded", text)
        else:
            text = case["decode_only"] if "decode_only" in case else case["encoded"]
        return pod.decode_pod_devices(text, key="k", family="NVIDIA")

    found = described(case.ask(coded))
    assert found == case.get("decoded", found)


@pytest.mark.parametrize("case", cases("vendors/codec.encode"))
def test_pod_devices_are_encoded_by_vendor_as_in_hami(case: Case) -> None:
    ((word, containers),) = case["in"].items()
    parts = tuple(
        ContainerSlices(f"c{n}", ContainerKind.APP, tuple(slices(row) for row in c)) for n, c in enumerate(containers)
    )
    family = Family(word, Resources("r"), "allocated", "to-allocate")
    allocation = Allocation("n1", parts)
    written = case.ask(lambda: pod.allocation_annotations(allocation, {"NVIDIA": family}, 7, keys.PHASE_SUCCESS))
    assert written["allocated"] == written["to-allocate"] == case["out"]


@pytest.mark.parametrize("case", cases("vendors/codec.decode"))
def test_pod_devices_are_decoded_by_count_as_in_hami(case: Case) -> None:
    found = case.ask(lambda: pod.decode_pod_devices(case["in"], key="k", family="NVIDIA"))
    assert [len(container) for container in found] == case["containers"]


# --- MIG ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("mig_allocations_json"))
def test_mig_reservations_match_hami(case: Case) -> None:
    assert case.head["annotation"] == keys.MIG_ALLOCATIONS
    match case["op"]:
        case "encode":
            parts = tuple(
                ContainerSlices(f"c{n}", ContainerKind.APP, tuple(mig_slice(d) for d in c))
                for n, c in enumerate(case["containers"])
            )
            text = case.ask(lambda: mig.encode_reservations(mig.reservations(Allocation("n1", parts))))
            assert text == case.get("out", text)
        case "decode" if case.get("ok", True):
            found = case.ask(lambda: mig.decode_reservations(case.get("in", "")))
            if "count" in case:
                assert len(found) == case["count"]
            if "runtime_ready" in case:
                assert [r.made for r in found] == [case["runtime_ready"]]
            if "gpuInstanceID" in case:
                assert [r.gpu_instance_id for r in found] == [case["gpuInstanceID"]]
            if "computeInstanceID" in case:
                assert [r.compute_instance_id for r in found] == [case["computeInstanceID"]]
        case "decode":
            with pytest.raises(WireError) as caught:
                mig.decode_reservations(case["in"])
            case.check_error(caught.value.problem, str(caught.value))
        case _:
            raise case.unknown("op")


def mig_slice(entry: dict[str, Any]) -> Slice:
    place = MigPlacement(entry["placement"].get("start", 0), entry["placement"]["size"])
    return Slice(entry["uuid"], "NVIDIA", 1, 1, mig_profile=entry["profile"], mig_placement=place)


@pytest.mark.parametrize("kind", ["scheduled", "realised"])
def test_mig_reservations_survive_decoding_and_encoding(kind: str) -> None:
    samples = {
        "scheduled": value("vendors/codec.migAllocations.scheduled"),
        "realised": value("vendors/codec.migAllocations.realised"),
    }
    text = json.dumps(samples[kind], separators=(",", ":"))
    found = mig.decode_reservations(text)
    assert mig.encode_reservations(found) == text
    assert all(r.made == (kind == "realised") for r in found)


BROKEN = {
    "duplicate (containerIndex,deviceIndex)": lambda e: [e, e],
    "1 or 2 of the 3 runtime fields present": lambda e: [e | {"migUUID": "MIG-a"}],
    "negative index": lambda e: [e | {"deviceIndex": -1}],
    "empty gpuUUID or profile": lambda e: [e | {"profile": ""}],
    "placement.size 0": lambda e: [e | {"placement": {"start": 0, "size": 0}}],
}


@pytest.mark.parametrize("reason", value("vendors/codec.migAllocations.rejects"))
def test_broken_mig_reservations_are_refused(reason: str) -> None:
    assert reason in BROKEN, f"no sample for {reason!r} in the runner"
    sound = {
        "containerIndex": 0, "deviceIndex": 0, "gpuUUID": "GPU-a", "profile": "1g.5gb",
        "placement": {"start": 6, "size": 1},
    }  # fmt: skip
    assert mig.decode_reservations(json.dumps([sound]))
    with pytest.raises(WireError):
        mig.decode_reservations(json.dumps(BROKEN[reason](sound)))


# --- policies and reasons -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("policy_contains"))
def test_policy_words_match_hami(case: Case) -> None:
    assert pod.policy_contains(case["policy"], case["token"]) is case["out"]


@pytest.mark.parametrize("case", cases("scoring_weights_annotation"))
def test_weights_match_hami(case: Case) -> None:
    assert case.head["annotation"] == keys.SCORING_WEIGHTS
    text = case.get("value")
    if case.fails:
        with pytest.raises(RequestError) as caught:
            pod.parse_weights(text)
        case.check_error(caught.value.problem)
        assert caught.value.problem.startswith(f'invalid {keys.SCORING_WEIGHTS} annotation "{text}": ')
    else:
        assert pod.parse_weights(text) == Weights(*(case.get(key, 1) for key in ("slot", "core", "memory")))


@pytest.mark.parametrize("case", cases("reason_string"))
def test_reason_texts_match_hami(case: Case) -> None:
    match case["op"]:
        case "parse":
            found = reasons.parse_histogram(case["in"])
            case.verdict("", bool(found), case["in"])
            assert found == case.get("out", {})
        case "generate":
            assert reasons.encode_histogram(case.get("counts", {}), case.get("cards", 0)) == case["out"]
        case _:
            raise case.unknown("op")
