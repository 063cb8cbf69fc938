"""What the agent and its vendors read from the agent's settings."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from hami_core.agent.authority import Mode, Policy
from hami_core.agent.options import NodeLabels, from_settings, node_context
from hami_core.model import NodeContext
from hami_core.settings import AgentSettings


def settings(**told) -> AgentSettings:
    return AgentSettings(**{"node_name": "n1", "mode": "trust:other"} | told)


def test_vendors_receive_the_agents_settings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = settings(
        state_dir="state",
        cdi_search_dirs="/a,/b",
        node_config_file="/c.json",
        enforcement="observe",
        legacy_metrics=True,
    )
    labels = NodeLabels()
    wanted = NodeContext(
        "n1", tmp_path / "state", (Path("/a"), Path("/b")), Path("/c.json"), "observe", True, labels=labels
    )
    assert node_context(told, labels) == wanted
    assert wanted.labels() is None


def test_boot_id_and_policy_are_read_from_the_settings(tmp_path):
    (tmp_path / "sys/kernel/random").mkdir(parents=True)
    (tmp_path / "sys/kernel/random/boot_id").write_text("boot-7\n")
    options = from_settings(settings(proc_dir=tmp_path))
    assert options.boot_id == "boot-7"
    assert options.policy == Policy(Mode.TRUST, None, frozenset({"other"}))
    assert options.token() == ""


def test_a_time_without_a_zone_is_utc(tmp_path):
    keys = tmp_path / "keys"
    keys.mkdir()
    told = settings(mode="adopt", adopt_before="2026-01-02T03:04:05", signing_keys=keys)
    assert from_settings(told).policy.adopt_before == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
