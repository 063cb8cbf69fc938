"""The journal's length is bounded, across restarts too."""

from __future__ import annotations

from itertools import pairwise

from hami_core.sim import store
from hami_core.sim.resources import RESOURCES
from hami_core.sim.store import Store

PODS = next(resource for resource in RESOURCES if resource.plural == "pods")


def test_journal_is_rewritten_at_twice_its_snapshot(tmp_path, monkeypatch):
    """100 objects, written again and again, by a process that restarts once the journal is nearly twice as long."""
    monkeypatch.setattr(store, "_COMPACT_BYTES", 1000)
    file = tmp_path / "journal"
    written, pods = 0, [{"metadata": {"name": f"p{number:03}", "namespace": "d"}} for number in range(100)]

    def write(opened: Store) -> int:
        nonlocal written
        opened.write(PODS, "MODIFIED", pods[written % len(pods)], None)
        written += 1
        return file.stat().st_size

    opened = Store(file)
    sizes = [write(opened) for _ in range(1000)]
    snapshot = min(after for before, after in pairwise(sizes) if after < before and after > 10_000)
    line = snapshot / len(pods)
    for _ in range(5):
        while write(opened) < 2 * snapshot - 5 * line:
            pass
        opened.close()
        opened = Store(file)
    assert max(write(opened) for _ in range(500)) <= 2 * snapshot + 10 * line
    assert [pod["metadata"]["name"] for pod in opened.all(PODS)] == [pod["metadata"]["name"] for pod in pods]
    opened.close()
