"""Mistakes of users are refused at admission with container, resource, value and fix, or run as documented."""

from __future__ import annotations

import pytest

from tests.integration.bed import all_end, booked, container, pod, seen, wrong_slices

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(90)]

COUNT, MEMORY, PERCENT = "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage"
CORES, PRIORITY = "nvidia.com/gpucores", "nvidia.com/priority"

# Values as the API server stores them and the webhook gets them: 1.5 becomes 1500m.
AMOUNTS = [
    (COUNT, -1, "-1 is negative", "write a whole number from 0 up"),
    (COUNT, "1500m", "'1500m' is not a whole number", "write 2"),
    (COUNT, "500m", "'500m' is not a whole number", "write 1"),
    (COUNT, "1Gi", "'1Gi' has a unit", "write a plain whole number: 1"),
    (COUNT, "2G", "'2G' has a unit", "write a plain whole number: 2"),
    (COUNT, "99999999999", "99999999999 is above the largest amount 2147483647", "ask for less"),
    (COUNT, "1e40", "is above the largest amount", "ask for less"),
    (MEMORY, "-3001", "-3001 is negative", "write a whole number from 0 up"),
    (MEMORY, "3000500m", "'3000500m' is not a whole number", "write 3001"),
    (MEMORY, "1500m", "'1500m' is not a whole number", "write 2, or 1500 if m stands for MiB"),
    (MEMORY, "16Gi", "'16Gi' has a unit", "in MiB that is 16384"),
    (MEMORY, "8G", "'8G' has a unit and asks for 8000000000 MiB", "write 7630"),
    (MEMORY, "1M", "'1M' has a unit and asks for 1000000 MiB", "write 1, or 1000001 if MiB are meant"),
    (MEMORY, "2000Ki", "'2000Ki' has a unit", "write 2"),
    (MEMORY, 2_000_001, "2000001 is above the largest amount 1048576", "in MiB that is 2: write 2"),
    (MEMORY, "9223372036854775807", "is above the largest amount 1048576", "write at most 1048576"),
    (MEMORY, "1E", "'1E' has a unit", "write at most 1048576"),
    (PERCENT, 101, "101", "write the share of each card's memory in percent"),
    (PERCENT, -1, "-1", "write the share of each card's memory in percent"),
    (PERCENT, "50500m", "'50500m' is not a whole number", "write 51"),
    (CORES, -10, "-10 is negative", "write a whole number from 0 up"),
    (CORES, "30G", "'30G' has a unit", "write a plain whole number: 30"),
    (CORES, "33300m", "'33300m' is not a whole number", "write 34"),
    (PRIORITY, -1, "-1 is negative", "write a whole number from 0 up"),
    (PRIORITY, 10, "10 is above the largest amount 9", "ask for less"),
]


def asking(name, limits, *, init=False, **annotations):
    """A pod whose second container asks for these limits."""
    culprit = {"name": "culprit", "image": "x", "command": ["true"], "resources": {"limits": limits}}
    body = pod(name, [container("plain", None)])
    body["spec"]["initContainers" if init else "containers"] = [
        *body["spec"].get("initContainers" if init else "containers", []),
        culprit,
    ]
    body["metadata"]["annotations"] = {key.replace("__", "/"): value for key, value in annotations.items()}
    return body


async def test_bad_amounts_are_refused_with_place_value_and_fix(checked_scene):
    for init in (False, True):
        for resource, value, problem, fix in AMOUNTS:
            limits = {COUNT: 1, MEMORY: 1000} | {resource: value}
            words = await checked_scene.submit_refused(asking("odd", limits, init=init))
            for part in ("container culprit", resource, problem, fix):
                assert part in words, f"{resource}: {value}: {words}"


async def test_pod_that_asks_for_zero_devices_runs_without_devices(checked_scene):
    for init in (False, True):
        await checked_scene.stage.submit(asking("zero", {COUNT: 0, MEMORY: 1000}, init=init))
        assert not await all_end(checked_scene.stage, {"zero"}, 20)
        now = (await checked_scene.stage.pods())["zero"]
        assert now["spec"]["schedulerName"] == "hami-scheduler"
        assert not [key for key in now["metadata"].get("annotations", {}) if key.startswith("hami.io/")]
        await checked_scene.delete("zero")


async def test_pod_that_no_card_can_hold_waits_with_the_amounts(checked_scene):
    for name, limits, reason, words in [
        ("huge", {COUNT: 1, MEMORY: 1_000_001}, "FilteringFailed", "container culprit needs 1000001 MiB"),
        ("many", {COUNT: 2_000_000_001, MEMORY: 1}, "FilteringFailed", "1 MiB on each of 2000000001 cards"),
    ]:
        await checked_scene.stage.submit(asking(name, limits))
        await checked_scene.wait_for_event(name, reason, words)
    await checked_scene.delete("huge", "many")


async def test_pod_with_unknown_resource_waits_with_its_name(checked_scene):
    await checked_scene.stage.submit(asking("unknown", {COUNT: 1, MEMORY: 1000, "nvidia.com/gpumen": 5}))
    await checked_scene.wait_for_event("unknown", "FailedScheduling", "Insufficient nvidia.com/gpumen")
    await checked_scene.delete("unknown")


async def test_pod_of_a_hundred_containers_runs(checked_scene):
    sizes = {f"c{number}": 1000 + number for number in range(0, 100, 12)}
    crowd = [container(f"c{number}", sizes.get(f"c{number}")) for number in range(100)]
    body = pod("hundred", crowd)
    await checked_scene.stage.submit(body)
    assert not await all_end(checked_scene.stage, {"hundred"}, 60)
    assert not await wrong_slices(checked_scene.stage, [body])
    await checked_scene.delete("hundred")


async def test_pod_with_too_many_containers_is_refused(checked_scene):
    words = await checked_scene.submit_refused(pod("thousands", [container(f"c{number}", 1) for number in range(1001)]))
    assert "spec.containers: 1001 containers, at most 1000 can be placed" in words


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("slot=1", "expected slot, core, and memory weights"),
        ("slot=1,core=x,memory=1", '"core" weight must be an integer'),
        ("slot=-1,core=1,memory=1", '"slot" weight must not be negative'),
        ("slot=1,core=1,memory=99999999999999999999", '"memory" weight must be an integer'),
        ("slot=1,core=1,speed=1", 'unknown weight "speed"'),
        ("\u0000\u0001,,,", "expected slot, core, and memory weights"),
    ],
)
async def test_malformed_weights_are_refused(scene, text, problem):
    body = asking("weights", {COUNT: 1, MEMORY: 1000})
    body["metadata"]["annotations"]["hami.io/device-scoring-weights"] = text
    words = await scene.submit_refused(body)
    assert "hami.io/device-scoring-weights" in words
    assert problem.replace('"', '\\"') in words
    assert "write for example" in words


async def test_unknown_policies_are_ignored_with_a_warning(checked_scene):
    body = pod("policies", [container("main", 1234)])
    body["metadata"]["annotations"] = {
        "hami.io/gpu-scheduler-policy": "fastest;binpack",
        "hami.io/node-scheduler-policy": "binpak",
    }
    warnings = await checked_scene.submit_with_warnings(body)
    assert any("hami.io/gpu-scheduler-policy" in w and "'fastest;binpack'" in w and "binpack" in w for w in warnings)
    assert any("hami.io/node-scheduler-policy" in w and "'binpak'" in w and "spread" in w for w in warnings)
    assert not await all_end(checked_scene.stage, {"policies"}, 20)
    assert not await wrong_slices(checked_scene.stage, [body])
    await checked_scene.delete("policies")


async def test_known_policies_give_no_warning(scene):
    body = pod("policies", [container("main", 1234)])
    body["metadata"]["annotations"] = {
        "hami.io/gpu-scheduler-policy": "binpack, numa",
        "hami.io/node-scheduler-policy": "spread",
    }
    assert not await scene.submit_with_warnings(body)
    assert not await all_end(scene.stage, {"policies"}, 20)
    await scene.delete("policies")


async def test_pod_whose_selector_matches_nothing_waits_with_reason(checked_scene):
    selections = {
        "by-id": ({"nvidia.com/use-gpuuuid": ",,;;'../../etc\u0000\u202e" * 1000}, "excluded by the ids the pod names"),
        "by-type": ({"nvidia.com/use-gputype": "[[[{{{***"}, "the pod takes [[[{{{*** (nvidia.com/use-gputype)"),
        "by-mode": ({"nvidia.com/vgpu-mode": "warp"}, "mode hami-core; the pod takes warp (nvidia.com/vgpu-mode)"),
    }
    for name, (chosen, _) in selections.items():
        body = pod(name, [container("main", 1000)])
        body["metadata"]["annotations"] = chosen
        await checked_scene.stage.submit(body)
    for name, (_, words) in selections.items():
        await checked_scene.wait_for_event(name, "FilteringFailed", "no available node", "container main", words)
    await checked_scene.delete(*selections)


async def test_selector_that_excludes_unknown_cards_excludes_nothing(checked_scene):
    body = pod("odd-lists", [container("main", 1500)])
    body["metadata"]["annotations"] = {
        "nvidia.com/nouse-gpuuuid": ",GPU-nowhere,, ,\u00e9\u00e8",
        "nvidia.com/numa-bind": "maybe",
    }
    await checked_scene.stage.submit(body)
    assert not await all_end(checked_scene.stage, {"odd-lists"}, 20)
    slices = booked((await checked_scene.stage.pods())["odd-lists"])
    assert await seen(checked_scene.stage, "odd-lists", "main") == slices["main"]
    await checked_scene.delete("odd-lists")
