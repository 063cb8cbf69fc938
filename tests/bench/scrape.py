"""Duration of a scrape of the scheduler's metrics and of an explanation, and of Filters at the same time."""

from __future__ import annotations

import http.client
import json
import threading
import time
from typing import Any

from tests.bench.figures import Figure

PATIENCE_S = 300.0
FEW = 8
"""Candidates of each Filter. They are so few that a long Filter must have waited for something else."""


def measure(port: int, metrics: int, size: str) -> list[Figure]:
    """Measure a first scrape, one after a change of one node, an explanation, and the longest Filter during each.

    Args:
        port: The extender's port. Its nodes are ``node-00000`` and following.
        metrics: The port of ``/metrics``.
        size: The cluster's size, for the names of the figures.
    """
    figures, found = [], 0
    for case in ("scrape after start", "scrape after one change"):
        taken, longest, found = _ask_for(port, metrics, "/metrics")
        figures.append(Figure("http", f"{case}, {size}", taken * 1e3, "ms"))
        figures.append(Figure("http", f"longest filter during: {case}, {size}", longest * 1e3, "ms", 50.0))
    figures.append(Figure("http", f"length of a scrape, {size}", found / 2**20, "MiB"))
    case = f"explanation of a pod that fits nowhere, {size}"
    taken, longest, _ = _ask_for(port, metrics, "/explain", _pod("refused", cards=2, mib=80_000))
    figures.append(Figure("http", case, taken * 1e3, "ms"))
    figures.append(Figure("http", f"longest filter during: {case}", longest * 1e3, "ms", 50.0))
    return figures


def _ask_for(port: int, metrics: int, path: str, body: dict[str, Any] | None = None) -> tuple[float, float, int]:
    """Seconds of an answer of the metrics' port, seconds of the longest Filter at the same time, and bytes.

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
        connection.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body))
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


def _pod(name: str, *, cards: int, mib: int) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": str(cards), "nvidia.com/gpumem": str(mib)}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"containers": [{"name": "c", "resources": {"limits": limits}}]},
    }


def _ask(port: int, ended: threading.Event, filters: list[float]) -> None:
    pod = _pod("scraped", cards=1, mib=500)
    body = json.dumps({"Pod": pod, "NodeNames": [f"node-{number:05d}" for number in range(FEW)]}).encode()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    while not ended.is_set():
        start = time.perf_counter()
        connection.request("POST", "/filter", body, {"Content-Type": "application/json"})
        assert json.loads(connection.getresponse().read())["NodeNames"]
        filters.append(time.perf_counter() - start)
        time.sleep(0.002)
    connection.close()
