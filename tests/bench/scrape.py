"""Duration of a scrape of the scheduler's metrics, and its effect on Filters at the same time."""

from __future__ import annotations

import http.client
import json
import threading
import time

from tests.bench.figures import Figure

PATIENCE_S = 300.0
FEW = 8
"""Candidates of each Filter. They are so few that a long Filter must have waited for something else."""


def measure(port: int, metrics: int, size: str) -> list[Figure]:
    """Measure a first scrape, one after a change of one node, and the longest Filter during each.

    Args:
        port: The extender's port. Its nodes are ``node-00000`` and following.
        metrics: The port of ``/metrics``.
        size: The cluster's size, for the names of the figures.
    """
    figures, found = [], 0
    for case in ("scrape after start", "scrape after one change"):
        taken, longest, found = _scrape(port, metrics)
        figures.append(Figure("http", f"{case}, {size}", taken * 1e3, "ms"))
        figures.append(Figure("http", f"longest filter during: {case}, {size}", longest * 1e3, "ms", 50.0))
    return [*figures, Figure("http", f"length of a scrape, {size}", found / 2**20, "MiB")]


def _scrape(port: int, metrics: int) -> tuple[float, float, int]:
    """Seconds of the scrape, seconds of the longest Filter at the same time, and bytes.

    All Filters are for the same pod, so only its hold changes.
    """
    ended = threading.Event()
    filters: list[float] = []
    asking = threading.Thread(target=_ask, args=(port, ended, filters))
    asking.start()
    try:
        while len(filters) < 3:
            time.sleep(0.01)
        filters.clear()
        connection = http.client.HTTPConnection("127.0.0.1", metrics, timeout=PATIENCE_S)
        start = time.perf_counter()
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        length = 0
        while part := answer.read(1 << 20):
            length += len(part)
        taken = time.perf_counter() - start
        assert answer.status == 200
        connection.close()
    finally:
        ended.set()
        asking.join()
    return taken, max(filters), length


def _ask(port: int, ended: threading.Event, filters: list[float]) -> None:
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "500"}
    pod = {
        "metadata": {"name": "scraped", "namespace": "default", "uid": "scraped"},
        "spec": {"containers": [{"name": "c", "resources": {"limits": limits}}]},
    }
    body = json.dumps({"Pod": pod, "NodeNames": [f"node-{number:05d}" for number in range(FEW)]}).encode()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    while not ended.is_set():
        start = time.perf_counter()
        connection.request("POST", "/filter", body, {"Content-Type": "application/json"})
        assert json.loads(connection.getresponse().read())["NodeNames"]
        filters.append(time.perf_counter() - start)
        time.sleep(0.002)
    connection.close()
