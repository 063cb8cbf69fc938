"""`hami doctor` as a user types it, against an API server."""

from __future__ import annotations

import json
import subprocess
import sys

from hami_core.tests.doctor.spoil import hook


def findings(done, *levels):
    return [f for f in json.loads(done.stdout)["findings"] if f["level"] in levels]


async def test_command_line_finds_a_sound_cluster_sound(server, cluster):
    await server.create(cluster)
    done = server.doctor("--output", "json", "--strict")
    assert findings(done, "warn", "fail", "unknown") == [], done.stderr
    assert done.returncode == 0
    counts = json.loads(done.stdout)["counts"]
    assert counts["ok"] == len(json.loads(done.stdout)["findings"])

    one = server.doctor("--output", "json", "--node", "n2", "--namespace", "hami-system")
    assert one.returncode == 0
    assert [f["object"] for f in findings(one, "ok") if f["check"] == "agents.mode"] == ["Node n2"]


async def test_failure_is_printed_in_ascii_with_its_fix(server, cluster):
    hook(cluster, failurePolicy="Ignore")
    await server.create(cluster)
    done = server.doctor()
    assert done.returncode == 1
    assert done.stdout.isascii()
    lines = done.stdout.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("FAIL"))
    assert "webhook.failure-policy" in lines[at]
    assert lines[at + 1].strip().startswith("-> set Fail")
    assert "1 fail" in lines[-1]


async def test_least_rights_name_what_may_not_be_read(server, cluster):
    await server.create(cluster)
    for verb, resource in (("list", "leases"), ("get", "secrets"), ("list", "validatingadmissionpolicies")):
        await server.running.fault("status", verb=verb, resource=resource, code=403, count=None)
    done = server.doctor("--output", "json")
    assert done.returncode == 0, done.stderr
    seen = {f["seen"] for f in findings(done, "unknown")}
    assert {"not allowed to list leases", "not allowed to list validatingadmissionpolicies"} <= seen
    assert "not allowed to get secrets hami-system/hami-signing" in seen
    assert server.doctor("--strict").returncode == 1


async def test_empty_cluster_first_names_the_missing_scheduler(server):
    done = server.doctor("--output", "json")
    assert done.returncode == 1
    assert findings(done, "fail")[0]["seen"] == "no pod runs `hami scheduler`"


def test_missing_kubeconfig_exits_with_2(tmp_path):
    argv = [sys.executable, "-m", "hami_core", "doctor", "--kubeconfig", str(tmp_path / "none")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "kubeconfig" in done.stderr
    assert "Traceback" not in done.stderr
