"""The runner handles every case that the format allows: variants of our own cases, run like foreign vectors.

A variant with the same meaning as its case passes. A variant with a wrong expectation fails by name.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .cases import ERRORS, OWN, groups
from .later import LATER

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.vectors

ANSWERS = {
    "aws_select": ["pick"],
    "aws_split_cores": ["nums", "each"],
    "ascend910c_pairs": ["fit", "pick_set", "reason_contains"],
    "check_type": ["ok"],
    "check_uuid": ["ok"],
    "collapse": ["effective", "app_only"],
    "enflame_profile": ["profile", "id", "mem", "core"],
    "extender_http": ["status"],
    "filter_end_to_end": ["node", "first_device"],
    "filter_quota": ["fit", "failed"],
    "filter_simulation": ["fit", "returns", "node_names_null", "failed_contains", "nodes_null", "failed"],
    "gpu_less": ["a_before_b"],
    "gpu_pick_end_to_end": ["pick"],
    "gpu_score": ["score"],
    "health_generic": ["out"],
    "is_mig_request": ["out"],
    "kunlun_select": ["pick"],
    "mig_allocations_json": ["out", "gpuInstanceID", "computeInstanceID", "runtime_ready", "count"],
    "mig_placement": ["starts", "fit", "profile", "placement", "ok"],
    "mig_restore": ["healthy", "in_use"],
    "node_default_score": ["score"],
    "node_devices_csv_decode": ["devices"],
    "node_devices_csv_encode": ["out"],
    "node_devices_json": ["out"],
    "node_fit_and_score": ["allocation", "score", "failed"],
    "node_order": ["a_before_b"],
    "node_override_score": ["added"],
    "numa_bind_annotation": ["enforced"],
    "nvidia_fit": ["fit", "pick", "reason", "result_cores", "result_mem"],
    "nvidia_fit_quota_helper": ["ok"],
    "pair_scores_json": ["scores"],
    "pod_devices_encode_decode": ["encoded", "decoded"],
    "pod_group_member": ["out"],
    "policy_contains": ["out"],
    "quota_manager": ["ok"],
    "reason_string": ["out"],
    "request_nvidia": ["request"],
    "request_other_vendors": ["request"],
    "scoring_weights_annotation": ["slot", "core", "memory"],
    "topology_pair_score": ["score", "asymmetric"],
    "topology_select": ["pick", "pick_set"],
    "usage_from_cache": ["used", "usedmem", "usedcores"],
    "vgpu_mode_annotation": ["ok"],
    "vxpu_fit": ["ok"],
    "webhook_nvidia": ["has_resource", "limits_out", "env_added"],
    "webhook_other_vendors": ["has", "mem_out", "count_out", "core_out", "limits_out"],
    "webhook_pipeline": ["result", "message", "patched", "schedulerName_out"],
    "webhook_quota": ["ok"],
}
"""Keys of answers in each group's cases, besides errors. Every other key is input."""
DEFAULTS: tuple[Any, ...] = (0, "", [], {}, None, False)
MEANT = {"ok", "value", "annotation", "superPod", "force_overwrite"}
"""Input keys with other defaults than `DEFAULTS`. A value that looks like a default there has a meaning."""
VERDICTS = {"ok", "fit", "has_resource"}
"""Answers whose "no" is a refusal with a text. An expected error can replace them."""


def group_cases(name: str) -> Iterator[dict[str, Any]]:
    for case in groups(OWN)[name]["cases"]:
        if "points" not in case and "client_cancelled" not in case:
            yield case


def same(name: str) -> Iterator[dict[str, Any]]:
    """Variants with the same meaning: without defaults, without optional answers, with a refusal as an error."""
    found = list(group_cases(name))
    optional = {key for case in found for key in case if any(key not in other for other in found)}
    for case in found:
        answers = {*ANSWERS[name], *ERRORS}
        yield {k: v for k, v in case.items() if k in answers | MEANT or v not in DEFAULTS}
        for key in sorted(optional & answers & case.keys() - set(ERRORS) - {"fit", "failed", "request", "slot"}):
            if name not in {"scoring_weights_annotation", "topology_pair_score"}:
                yield {k: v for k, v in case.items() if k != key}
        for key in VERDICTS & case.keys():
            if case[key] is False and "contention" not in case and key in ANSWERS[name] and name != "webhook_nvidia":
                rest = {k: v for k, v in case.items() if k not in ANSWERS[name]}
                yield {**rest, "error": case.get("reason", case.get("failed", True))}
        records = json.loads(json.dumps(case))
        if _without_pct(records):
            yield records


def _without_pct(part: Any) -> bool:
    """Remove each percentage that is not set. Returns whether there was one."""
    found = False
    if isinstance(part, dict):
        if part.get("pct") == 101 and "nums" in part and "type" in part:
            del part["pct"]
            found = True
        part = list(part.values())
    for one in part if isinstance(part, list) else ():
        found |= _without_pct(one)
    return found


def wrong(name: str) -> Iterator[dict[str, Any]]:
    """Variants with a wrong expectation: a changed answer, or an error that does not occur."""
    for case in group_cases(name):
        if any(key in case for key in ERRORS):
            continue
        for key in ANSWERS[name]:
            if key in case and not (key == "request" and case[key] == {}):
                yield {**case, key: changed(case[key])}
        refused = any(case.get(key) is False for key in (*VERDICTS, "healthy", "enforced", "out"))
        refused |= "failed" in case or "denied" in case.values()
        if not refused and name not in {"health_generic", "reason_string"}:
            yield {**case, "error": "no such error"}


def changed(answer: Any) -> Any:
    match answer:
        case bool():
            return not answer
        case int() | float():
            return answer + 1
        case str():
            return answer + "x"
        case dict():
            return {key: changed(value) for key, value in answer.items()} or {"surprise": 1}
        case list() if answer and isinstance(answer[0], str):
            return ["surprise"]
        case list():
            return [*answer, [["surprise", 1, 1, 1]]]
        case _:
            return "surprise"


BESIDE = {
    "usage_from_cache": [
        {"pods": [{"devices": [["GPU0", 1000, 5]]}], "gpu": "GPU0", "used": 1, "usedmem": 1000, "usedcores": 5},
        {"pods": [{"devices": [[["GPU0", 1000, 5]], [["GPU0", 9, 0]]]}], "used": 2, "usedmem": 1009, "usedcores": 5},
        {
            "pods": [{"devices": [[["GPU0", 1000, 5]], [["GPU0", 9, 0]]], "init": 1}],
            "used": 1,
            "usedmem": 1000,
            "usedcores": 5,
        },
        {
            "pods": [{"devices": [{"uuid": "GPU0", "usedmem": 7, "usedcores": 5}]}],
            "used": 1,
            "usedmem": 7,
            "usedcores": 5,
        },
        {"pods": []},
    ],
    "extender_http": [{"route": "/filter", "status": 400}, {"route": "/bind", "status": 400}],
    "webhook_pipeline": [
        {"result": "allowed"},
        {"gpu": True, "nodeName": "n", "error": "pod has node assigned"},
        {"gpu": True, "privileged_container": "c1", "error_contains": "privileged"},
    ],
    "mig_placement": [
        {"op": "by_memory", "mem": 10000, "profile": "2g.10gb", "booked_mem": 10240, "booked_cores": 28},
        {"op": "by_memory", "pct": 25, "profile": "2g.10gb", "booked_mem": 10240},
        {"op": "by_memory", "mem": 90000, "error_contains": "CardMig"},
    ],
    "mig_restore": [
        {"cached_entries": 1, "reservations": 1, "healthy": True, "in_use": 1, "booked_mem": 5120, "booked_cores": 14},
        {"cached_entries": 2, "reservations": 2, "booked_mem": 10240, "booked_cores": 28},
    ],
    "node_fit_and_score": [
        {
            "devices": [
                {
                    "id": "a",
                    "count": 10,
                    "totalmem": 8000,
                    "totalcore": 100,
                    "used": 5,
                    "usedmem": 4000,
                    "usedcores": 50,
                }
            ],
            "app": [{"nums": 1, "mem": 1000}],
            "allocation": [["a"]],
            "score": 15,
        },
        {
            "devices": [{"id": "a", "count": 1, "totalmem": 10, "totalcore": 100}],
            "app": [{"mem": 11}],
            "error": "1/1 CardInsufficientMemory",
        },
    ],
    "gpu_score": [
        {
            "device": {"type": "t", "count": 10, "totalcore": 10, "totalmem": 10000},
            "requests": [{"nums": 1, "type": "t", "mem": 1000, "pct": 50, "cores": 2}],
            "score": 8.0,
        }
    ],
    "nvidia_fit": [
        {
            "devices": [{"id": "a", "count": 10, "totalmem": 1000, "totalcore": 100}],
            "request": {"nums": 1, "mem": 600, "pct": 50},
            "fit": True,
            "result_mem": [600],
        }
    ],
    "request_nvidia": [
        {
            "limits": {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000, "nvidia.com/gpumem-percentage": 50},
            "request": {"nums": 1, "mem": 1000, "pct": 50, "cores": 0},
        },
        {"limits": {"nvidia.com/gpu": "one"}, "error_contains": "one"},
    ],
    "scoring_weights_annotation": [{"value": None}, {}],
    "node_devices_csv_encode": [{"devices": [{"id": "a:b"}], "error": True}],
}
"""Combinations that our own cases lack."""


def folder(path: Path, make: Any) -> dict[str, int]:
    """Write variants as a vector file. Returns the number of cases in each group."""
    written = {}
    for name in ANSWERS:
        group = groups(OWN)[name]
        written[name] = {**group, "cases": list(make(name))}
    (path / "control-plane.json").write_text(json.dumps(written))
    return {name: len(group["cases"]) for name, group in written.items()}


def failures(path: Path) -> tuple[dict[str, str], str]:
    """Failed variants with the last line of the reason, and the output."""
    modules = sorted(
        str(module) for module in OWN.glob("test_*.py") if module.name not in {Path(__file__).name, "test_loader.py"}
    )
    command = [sys.executable, "-m", "pytest", "-q", "-m", "vectors", "-p", "no:cacheprovider", "--tb=line", "-rf"]
    done = subprocess.run(
        [*command, *modules, "-k", "control_plane or " + " or ".join(ANSWERS)],
        env={**os.environ, "HAMI_VECTORS": str(path), "COLUMNS": "400"},
        cwd=OWN.parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.findall(r"^FAILED \S+\[(\w+\[\d+\])\](.*)$", done.stdout, re.MULTILINE)
    return dict(found), done.stdout


def test_every_group_with_cases_has_variants() -> None:
    with_cases = {name for name, body in groups(OWN).items() if isinstance(body, dict) and "cases" in body}
    covered = {*ANSWERS, *LATER, "patch_annotations", "kunlun_trim_memory", "metrics"}
    assert {name for name in with_cases if not name.startswith("vendors/")} <= covered


def test_variants_with_the_same_meaning_pass(tmp_path: Path) -> None:
    counts = folder(tmp_path, lambda name: [*same(name), *BESIDE.get(name, [])])
    failed, output = failures(tmp_path)
    assert not failed, output
    passed = re.search(r"^(\d+) passed", output, re.MULTILINE)
    assert passed is not None, output
    assert int(passed[1]) >= sum(counts.values()), "not every variant ran"


def test_variants_with_a_wrong_expectation_fail(tmp_path: Path) -> None:
    counts = folder(tmp_path, wrong)
    failed, _ = failures(tmp_path)
    wanted = {f"{name}[{number}]" for name, count in counts.items() for number in range(count)}
    assert failed.keys() == wanted, sorted(wanted - failed.keys())
