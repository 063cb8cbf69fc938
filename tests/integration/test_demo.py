"""`hami demo` as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def result(short_folder):
    work = short_folder
    done = subprocess.run(
        [sys.executable, "-m", "hami_core", "demo", "--json", "--dir", str(work)],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    logs = "\n".join(f"--- {log.name}\n{log.read_text()[-3000:]}" for log in sorted(work.rglob("*.log")))
    assert done.stdout, f"{done.stderr}\n{logs}"
    document = json.loads(done.stdout)
    assert done.returncode == 0, f"{json.dumps(document, indent=1)}\n{logs}"
    return document


def pod(result, name):
    return next(pod for pod in result["pods"] if pod["name"] == name)


def test_every_container_gets_exactly_its_request(result):
    assert result["ok"]
    assert result["overshoot_bytes"] == 0
    assert result["limit_mib_equal_to_request"]
    asked = {
        (pod["name"], container["container"]): [device["asked"] >> 20 for device in container["devices"]]
        for pod in result["pods"]
        for container in pod["containers"]
    }
    assert asked[("alice", "main")] == [3000]
    assert asked[("bob", "main")] == [20_000]
    assert asked[("dave", "look")] == [1000]
    assert asked[("dave", "main")] == [10_000, 10_000]


def test_two_pods_share_a_card_and_nobody_shares_a_whole_card(result):
    cards = {
        name: {d["uuid"] for c in pod(result, name)["containers"] for d in c["devices"]}
        for name in ("alice", "bob", "dave", "erin")
    }
    assert cards["alice"] == cards["bob"]
    assert not cards["erin"] & (cards["alice"] | cards["bob"] | cards["dave"])


def test_pod_that_fits_nowhere_is_pending_with_the_reason(result):
    carol = pod(result, "carol")
    assert carol["phase"] == "Pending"
    assert "CardInsufficientMemory" in carol["reason"]
    assert "needs 200000 MiB" in carol["explanation"]


def test_allocation_stops_at_the_limit_with_the_right_error(result):
    filled = [d for p in result["pods"] for c in p["containers"] for d in c["devices"] if d["refusal"] is not None]
    assert len(filled) == 4
    assert {d["refusal"] for d in filled} == {2}
    assert all(d["asked"] - (2 << 20) < d["driver_used"] <= d["asked"] for d in filled)
