from __future__ import annotations

import msgspec
import pytest
from hami_nvidia.demo.stage import GpuDemo

from hami_core.demo.manifests import Ask, asks, count_of, load, pods_of
from hami_core.demo.run import describe, failures
from hami_core.demo.verdict import (
    MIB,
    Given,
    GivenSlice,
    Report,
    fits_nowhere,
    judge_container,
    judge_given,
    judge_refused,
    read_report,
)
from hami_core.demo.view import BAR_WIDTH, Card, bar
from hami_core.errors import ConfigError
from hami_core.plugins import load as load_vendors

CARD = {"GPU-a": 80_000 * MIB}
ASK = Ask("main", 1, 3000, 30)


def report(**changes):
    device = {
        "index": 0,
        "uuid": "GPU-a",
        "total_bytes": 3000 * MIB,
        "allocated_bytes": 2500 * MIB,
        "refusal": 2,
    } | changes
    return msgspec.convert({"program": "test", "pid": 1, "devices": [device], "again": True}, Report)


def test_container_that_got_its_request_is_ok():
    verdict = judge_container(ASK, report(), CARD, {"GPU-a": 2999 * MIB})
    assert verdict.ok
    assert verdict.devices[0].overshoot == 0


@pytest.mark.parametrize(
    ("changes", "driver", "words"),
    [
        ({"total_bytes": 80_000 * MIB}, 2999, "saw 80000 MiB"),
        ({"refusal": 999}, 2999, "not CUDA_ERROR_OUT_OF_MEMORY"),
        ({}, 3001, "more than its limit"),
        ({"allocated_bytes": 3001 * MIB}, 2999, "more than its limit"),
        ({}, 2998, "with 2 MiB left"),
        ({"uuid": "GPU-b"}, 2999, "no card of this node"),
    ],
)
def test_each_deviation_is_named(changes, driver, words):
    verdict = judge_container(ASK, report(**changes), CARD, {"GPU-a": driver * MIB})
    assert not verdict.ok
    assert words in " ".join(p for d in verdict.devices for p in d.problems)


def test_program_without_output_is_not_ok():
    assert not judge_container(ASK, None, CARD, {}).ok


def test_wrong_report_is_not_ok_and_says_what_is_wrong():
    verdict = judge_container(ASK, read_report('{"program": "mine", "pid": "1", "devices": []}'), CARD, {})
    assert not verdict.ok
    assert verdict.problems == ("its report is wrong: Expected `int`, got `str` - at `$.pid`",)


@pytest.mark.parametrize("line", ["", "hello", '{"level": "info"}', "{", '[{"devices": 1}]'])
def test_ordinary_output_is_no_report(line):
    assert read_report(line) is None


def test_report_may_have_further_fields():
    line = '{"program": "mine", "pid": 7, "time": 1, "devices": [{"uuid": "GPU-a", "total_bytes": 5, "name": "H100"}]}'
    read = read_report(line)
    assert (read.pid, read.devices[0].total_bytes, read.devices[0].refusal) == (7, 5, None)


@pytest.mark.parametrize(
    ("status", "found"),
    [
        ({"state": {"terminated": {"exitCode": 3}}}, [("main", 3)]),
        ({"state": {"waiting": {}}, "lastState": {"terminated": {"exitCode": 3}}}, [("main", 3)]),
        ({"state": {"terminated": {"exitCode": 0}}}, []),
        ({"state": {"running": {}}, "lastState": {"terminated": {"exitCode": 3}}}, []),
        ({"state": {"waiting": {}}, "lastState": {}}, []),
    ],
    ids=["ended", "restarted", "succeeded", "runs again", "not started"],
)
def test_failed_container_is_found_in_the_status(status, found):
    assert failures({"status": {"containerStatuses": [{"name": "main", **status}]}}) == found


def test_container_with_a_missing_card_is_not_ok():
    assert not judge_container(Ask("main", 2, 3000, 0), report(), CARD, {}).ok


def test_refused_pod_must_be_pending_with_the_reason():
    assert judge_refused("carol", "Pending", "needs 200000 MiB").ok
    assert not judge_refused("carol", "Running", "needs 200000 MiB").ok
    assert not judge_refused("carol", "Pending", "").ok


def nvidia():
    return load_vendors(only=["nvidia"]).parse


def test_examples_are_read_in_order_and_one_fits_nowhere():
    pods = load(GpuDemo.manifests)
    assert [pod["metadata"]["name"] for pod in pods] == ["alice", "bob", "carol", "dave", "erin"]
    found = [asks(pod, nvidia(), GpuDemo.programs) for pod in pods]
    assert [fits_nowhere(each, {"NVIDIA": 80_000}) for each in found] == [False, False, True, False, False]
    assert [(a.container, a.count, a.memory_mib, a.cores, a.reports) for a in found[3]] == [
        ("look", 1, 1000, 0, True),
        ("main", 2, 10_000, 0, True),
    ]
    assert (found[4][0].memory_mib, found[4][0].memory_percent) == (None, 100)


@pytest.mark.parametrize(
    ("limits", "mib"),
    [
        ({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000}, 3000),
        ({"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "25"}, 20_389),
        ({"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 100}, 81_559),
        ({"nvidia.com/gpu": 1}, 81_559),
    ],
)
def test_requested_amount_is_the_vendors_parsing(limits, mib):
    container = {"name": "main", "command": ["sleep", "9"], "resources": {"limits": limits}}
    found = asks({"metadata": {"name": "p"}, "spec": {"containers": [container]}}, nvidia())
    assert [(ask.count, ask.memory_on(81_559), ask.reports) for ask in found] == [(1, mib, False)]


def test_exact_share_of_a_card_is_ok():
    ask = Ask("main", 1, None, 0, memory_percent=25)
    right = judge_container(ask, report(total_bytes=20_000 * MIB), CARD, {"GPU-a": 19_999 * MIB})
    assert right.ok
    assert not judge_container(ask, report(total_bytes=80_000 * MIB), CARD, {}).ok


@pytest.mark.parametrize(
    ("slices", "problem"),
    [
        ([("d", 3000)], ""),
        ([("d", 4096)], ""),
        ([("d", 0)], ""),
        ([("d", 2999)], "asked for 3000 MiB, was given 2999 MiB of d"),
        ([], "asked for 1 devices, was given 0"),
        ([("d", 3000), ("e", 3000)], "asked for 1 devices, was given 2"),
    ],
)
def test_ordinary_program_is_judged_by_its_allocation(slices, problem):
    given = Given(tuple(GivenSlice(device, memory, 0) for device, memory in slices))
    assert "; ".join(judge_given(ASK, given, {"d": 32_768}).problems) == problem


def test_request_without_memory_is_not_judged_by_memory():
    """Enflame books what the profile has, of which the request knows nothing."""
    ask = Ask("main", 1, None, 0, family="Enflame")
    assert judge_given(ask, Given((GivenSlice("d", 6144, 17),)), {"d": 40_960}).ok


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (Ask("main", 2, None, 0, memory_percent=100, family="A"), "2 x whole"),
        (Ask("main", 2, None, 1, family="A", cores_are_units=True), "2 x A, 1 compute unit"),
        (Ask("main", 1, 3000, 8, family="A", cores_are_units=True), "1 x 3,000 MiB, 8 compute units"),
    ],
)
def test_request_is_described_in_its_own_units(ask, words):
    assert describe(ask) == words


@pytest.mark.parametrize("held", [{}, {"p": 0}, {"p": 0, "q": 0}])
def test_device_without_counted_memory_has_a_bar(held):
    drawn = bar(Card("n", "u", 0, held), list(held)).plain
    assert drawn == ("█" if held else "░") * BAR_WIDTH


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: ResourceQuota\nmetadata: {name: d}", "holds a ResourceQuota .*submits Pods.*--keep.*kubectl"),
        ("kind: Deployment\nmetadata: {name: d}", "Deployment d has no spec.template.spec.containers"),
        ("kind: Job\nmetadata: {name: d}\nspec: {template: {spec: {}}}", "Job d has no spec.template.spec.containers"),
        ("- 1", "holds a document without a kind"),
        ("kind: Pod\nmetadata: {generateName: d-}", "without metadata.name"),
        ("kind: Pod\nmetadata: {name: d, namespace: team}\nspec: {containers: [{name: a}]}", "namespace team.*leave"),
        ("kind: Pod\nmetadata: {name: d}\nspec: {}", "Pod d has no spec.containers"),
        ("kind: Pod\nmetadata: {name: d}\nspec: {containers: [{name: a}]}\n---\n" * 2, "two objects are named d"),
        ("a: [", r"^\S+pods.yaml, line \d, column \d: is not YAML: .*$"),
        ("", "no manifest of kind Pod or Deployment or Job .give a .yaml file"),
    ],
)
def test_unusable_manifest_is_refused_with_the_reason(tmp_path, text, words):
    file = tmp_path / "pods.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=words):
        load(file)


def test_pods_of_a_workload_are_found_by_their_owner():
    spec = {"containers": [{"name": "main"}]}
    web = {"kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 2, "template": {"spec": spec}}}
    job = {"kind": "Job", "metadata": {"name": "web"}, "spec": {"template": {"spec": spec}}}
    owners = {
        "web-5f-a": ("ReplicaSet", "web-5f"),
        "web-2-7d-a": ("ReplicaSet", "web-2-7d"),
        "web-x": ("Job", "web"),
        "alone": None,
    }
    seen = {
        name: {"metadata": {"ownerReferences": [{"kind": owner[0], "name": owner[1]}] if owner else []}}
        for name, owner in owners.items()
    }
    assert [pod["metadata"]["name"] for pod in pods_of(web, seen)] == ["web-5f-a"]
    assert pods_of(job, seen) == [{"kind": "Pod", "metadata": {"name": "web-x"}, "spec": spec}]
    assert (count_of(web), count_of(job)) == (2, 1)
