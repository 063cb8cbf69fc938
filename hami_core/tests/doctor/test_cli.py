"""`hami doctor` as a user types it, against an API server."""

from __future__ import annotations

import json


async def test_a_sound_cluster_through_the_command_line(server, cluster):
    await server.create(cluster)
    done = server.doctor("--output", "json", "--strict")
    shown = json.loads(done.stdout)
    complaints = [f for f in shown["findings"] if f["level"] != "ok"]
    assert complaints == [], done.stderr
    assert done.returncode == 0


async def test_without_an_api_server_it_could_not_look(tmp_path):
    import subprocess
    import sys

    argv = [sys.executable, "-m", "hami_core", "doctor", "--kubeconfig", str(tmp_path / "none")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "kubeconfig" in done.stderr
    assert "Traceback" not in done.stderr
