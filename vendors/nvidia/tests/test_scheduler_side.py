"""Requests, admission, devices on a node, MIG and links, through NVIDIA's hooks."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
import yaml
from hami_nvidia import Nvidia, NvidiaConfig, mig, topology
from hypothesis import given
from pydantic import ValidationError

from hami_core import (
    ContainerKind,
    ContainerSpec,
    Device,
    DeviceKind,
    DeviceUsage,
    MigPlacement,
    MigProfile,
    NodeFacts,
    PodFacts,
    Reason,
    Request,
    RequestError,
    Slice,
    WireError,
)

NODES = Path(__file__).parent / "data" / "nodes"


def nvidia(**config: Any) -> Nvidia:
    made = Nvidia()
    made.families(NvidiaConfig(**config), None)
    return made


def node(name: str, **annotations: str) -> NodeFacts:
    manifest = yaml.safe_load((NODES / f"{name}.yaml").read_text())
    return NodeFacts(name, {**manifest["metadata"]["annotations"], **annotations})


def container(**limits: str) -> ContainerSpec:
    return ContainerSpec("trainer", ContainerKind.APP, {f"nvidia.com/{key}": text for key, text in limits.items()})


def pod(**annotations: str) -> PodFacts:
    return PodFacts("default", "p", "uid", {f"nvidia.com/{k.replace('_', '-')}": v for k, v in annotations.items()})


def parse(spec: ContainerSpec, facts: PodFacts | None = None, **config: Any) -> Request | None:
    made = nvidia(**config)
    (family,) = made.families(NvidiaConfig(**config), None)
    return made.parse_request(spec, facts or pod(), family)


@pytest.mark.parametrize(
    ("limits", "field", "problem"),
    [
        ({"gpu": "1", "gpumem": "16Gi"}, "nvidia.com/gpumem", "16384"),
        ({"gpu": "1", "gpumem": "-5"}, "nvidia.com/gpumem", "negative"),
        ({"gpu": "1", "gpumem": "0.5"}, "nvidia.com/gpumem", "not a whole number"),
        ({"gpu": "1", "gpumem": "99999999999"}, "nvidia.com/gpumem", "above the largest"),
        ({"gpu": "-1"}, "nvidia.com/gpu", "negative"),
        ({"gpu": "many"}, "nvidia.com/gpu", "not a Kubernetes quantity"),
        ({"gpu": "1", "gpucores": "1.5"}, "nvidia.com/gpucores", "not a whole number"),
    ],
)
def test_amounts_that_cannot_be_granted_are_refused_by_name(limits: dict[str, str], field: str, problem: str) -> None:
    with pytest.raises(RequestError, match=problem) as caught:
        parse(container(**limits))
    assert (caught.value.subject, caught.value.field) == ("container trainer", field)
    assert caught.value.fix


@given(
    st.dictionaries(
        st.sampled_from(["gpu", "gpumem", "gpumem-percentage", "gpucores"]),
        st.text(max_size=12) | st.integers(-(10**12), 10**12).map(str),
    )
)
def test_any_text_gives_a_bounded_request_or_a_refusal(limits: dict[str, str]) -> None:
    try:
        request = parse(container(**limits))
    except RequestError:
        return
    if request is not None:
        assert 1 <= request.count < 2**31
        assert 0 <= request.memory_mib < 2**31
        assert request.memory_percent is None or 0 < request.memory_percent <= 100
        assert 0 <= request.cores < 2**31


@pytest.mark.parametrize(("text", "bound"), [("true", True), ("1", True), ("T", True), ("yes", False), ("", False)])
def test_numa_binding(text: str, bound: bool) -> None:
    request = parse(container(gpu="2"), pod(numa_bind=text))
    assert request is not None
    assert request.numa_bind is bound


def test_a_count_of_zero_asks_for_nothing() -> None:
    assert parse(container(gpu="0", gpumem="1000")) is None
    mutation = nvidia(overwrite_env=True).mutate_admission(container(gpu="0"), pod())
    assert mutation is not None
    assert not mutation.uses_devices
    assert mutation.env == (("NVIDIA_VISIBLE_DEVICES", "none"),)
    assert nvidia().mutate_admission(container(gpu="0"), pod()) is None


def test_the_runtime_class_of_a_pod_is_kept() -> None:
    made = nvidia(runtime_class_name="nvidia")
    first = made.mutate_admission(container(gpu="1"), pod())
    assert first is not None
    assert first.runtime_class == "nvidia"
    own = made.mutate_admission(container(gpu="1"), PodFacts("default", "p", "uid", runtime_class="kata"))
    assert own is not None
    assert own.runtime_class == ""


@pytest.mark.parametrize("text", ["101", "-1", "50Gi", "half"])
def test_a_percentage_beyond_its_range_is_denied(text: str) -> None:
    with pytest.raises(RequestError, match=r"nvidia\.com/gpumem-percentage"):
        nvidia().mutate_admission(container(gpu="1", **{"gpumem-percentage": text}), pod())


def test_devices_come_with_cordon_and_link_scores() -> None:
    devices = nvidia().register(node("a100x4"))
    assert devices is not None
    assert [device.cordoned for device in devices] == [False, False, False, True]
    assert devices[0].pair_scores[devices[1].id] == 210
    assert {device.numa for device in devices} == {0, 1}
    assert nvidia().register(NodeFacts("cpu-only")) is None


@pytest.mark.parametrize(
    ("allocatable", "healthy"),
    [({}, True), ({"nvidia.com/gpu": "40"}, True), ({"nvidia.com/gpu": "0"}, False), ({"cpu": "8"}, False)],
)
def test_a_node_whose_device_plugin_is_gone_takes_no_pods(allocatable: dict[str, str], healthy: bool) -> None:
    devices = nvidia().register(replace(node("t4x2"), allocatable=allocatable))
    assert devices is not None
    assert {device.healthy for device in devices} == {healthy}


@pytest.mark.parametrize("key", ["hami.io/node-nvidia-register", "hami.io/node-nvidia-score"])
@pytest.mark.parametrize("text", ["{", '[{"uuid": 1}]', '[{"id": "", "count": 1}]', '{"id": "x"}'])
def test_a_malformed_annotation_names_itself(key: str, text: str) -> None:
    with pytest.raises(WireError) as caught:
        nvidia().register(node("a100x4", **{key: text}))
    assert caught.value.key == key


def _usage(profiles: tuple[MigProfile, ...], *taken: tuple[int, int], mode: str = "mig") -> DeviceUsage:
    device = Device("GPU-0", 0, 7, 40960, 100, "NVIDIA A100", "NVIDIA", mode=mode, mig_profiles=profiles)
    return DeviceUsage(device, mig_in_use=tuple(MigPlacement(*place) for place in taken))


def _profiles() -> tuple[MigProfile, ...]:
    devices = nvidia().register(node("a100-mig"))
    assert devices is not None
    return devices[0].mig_profiles


def test_a_mig_card_gives_an_instance() -> None:
    piece = nvidia().account(_usage(_profiles(), (0, 4)), Slice("GPU-0", "NVIDIA", 9000, 0))
    assert isinstance(piece, Slice)
    assert (piece.mig_profile, piece.mig_placement) == ("2g.10gb", MigPlacement(4, 2))
    assert (piece.memory_mib, piece.cores) == (9856, 28)
    assert nvidia().account(_usage((), mode="hami-core"), Slice("GPU-0", "NVIDIA", 9000, 0)) is None


@pytest.mark.parametrize("profiles", [(), None])
def test_a_mig_card_without_a_place_refuses(profiles: tuple[MigProfile, ...] | None) -> None:
    known = _profiles() if profiles is None else profiles
    refusal = nvidia().account(_usage(known, (0, 8)), Slice("GPU-0", "NVIDIA", 1000, 0))
    assert isinstance(refusal, Reason)
    assert refusal.code == "CardMigTopologyInfeasible"


@given(st.lists(st.integers(0, 45000), max_size=12))
def test_instances_never_overlap(sizes: list[int]) -> None:
    taken: list[MigPlacement] = []
    for size in sizes:
        found = mig.smallest_instance(_PROFILES, taken, size)
        if found is not None:
            profile, place = found
            assert profile.memory_mib >= size
            assert all(place.start >= p.start + p.size or p.start >= place.start + place.size for p in taken)
            taken.append(place)


_PROFILES = _profiles()


def _linked(scores: dict[tuple[int, int], int], count: int) -> list[Device]:
    return [
        Device(str(i), i, 1, 1, 1, "x", "NVIDIA", pair_scores={str(j): s for (a, j), s in scores.items() if a == i})
        for i in range(count)
    ]


@given(st.data())
def test_the_best_linked_cards_are_chosen(data: st.DataObject) -> None:
    total = data.draw(st.integers(2, 7))
    count = data.draw(st.integers(1, total - 1))
    pairs = [(i, j) for i in range(total) for j in range(total) if i != j]
    scores = {pair: data.draw(st.sampled_from([-5, 0, 10, 100, 200])) for pair in pairs}
    chosen = topology.choose(_linked(scores, total), count)
    assert len(set(chosen)) == count
    if count == 1:
        sums = [sum(scores[i, j] for j in range(total) if j != i) for i in range(total)]
        assert chosen == (sums.index(min(sums)),)
    else:
        value = {c: sum(scores[pair] for pair in combinations(c, 2)) for c in combinations(range(total), count)}
        assert chosen == max(value, key=lambda c: value[c])


def test_very_many_cards_are_chosen_one_by_one() -> None:
    """The combinations of 32 out of 64 cards are too many to try. A clique of well-linked cards is still found."""
    clique = set(range(10, 18))
    scores = {(i, j): 200 if i in clique and j in clique else 10 for i in range(64) for j in range(64) if i != j}
    assert set(topology.choose(_linked(scores, 64), 8)) == clique


@pytest.mark.parametrize(
    "section",
    [
        {"migProfileAllowlist": [{"models": ["A100"], "profiles": ["big"]}]},
        {"migProfileAllowlist": [{"models": [], "profiles": ["1g.5gb"]}]},
        {"gpuCorePolicy": "sometimes"},
        {"deviceSplitCount": 0},
        {"defaultMemory": -1},
    ],
)
def test_settings_that_make_no_sense_are_refused(section: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        NvidiaConfig.model_validate(section)


def test_the_scheduler_side_loads_no_driver_library() -> None:
    import subprocess
    import sys

    check = "import sys, hami_nvidia; sys.exit(any(m in sys.modules for m in ('pynvml', 'hami_interpose', 'grpc')))"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


@pytest.mark.parametrize(
    ("wanted", "mode", "said"),
    [
        (None, "hami-core", None),
        (None, "mig", None),
        ("hami-core", "hami-core", None),
        ("hami-core,mig", "mig", None),
        ("hami-core", "mig", "mode mig; the pod takes hami-core (nvidia.com/vgpu-mode)"),
        ("", "", None),
        ("", "hami-core", "mode hami-core, nvidia.com/vgpu-mode is empty: name the modes to accept, or leave it out"),
        ("", "mig", "mode mig, nvidia.com/vgpu-mode is empty: name the modes to accept, or leave it out"),
        (" ", "mps", "mode mps, nvidia.com/vgpu-mode is empty: name the modes to accept, or leave it out"),
    ],
)
def test_a_mode_annotation_admits_the_modes_it_names(wanted, mode, said):
    request = Request("NVIDIA", 1, annotations={} if wanted is None else {"nvidia.com/vgpu-mode": wanted})
    reason = nvidia().check_type(request, DeviceKind("NVIDIA", "NVIDIA-T4", mode))
    assert (reason and reason.detail) == said


def test_nodes_of_hamis_plugin_are_locked_with_hamis_lock():
    (family,) = nvidia().families(None, None)
    assert family.foreign_lock == "hami.io/mutex.lock"
