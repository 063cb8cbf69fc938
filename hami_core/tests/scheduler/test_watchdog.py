"""A hook that blocks is named and ends the process after the limit. After that only its own vendor is closed."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from hami_core.sim.cluster import Cluster
from hami_core.tests.scheduler.test_process import _line, hami_scheduler, ready
from hami_core.tests.scheduler.vendor import node, pod
from hami_core.wire.signature import generate_private_key, private_key_pem

if TYPE_CHECKING:
    from pathlib import Path

    from hami_core.tests.scheduler.test_process import Process

pytestmark = pytest.mark.timeout(120)

VENDORS = """
import re, threading, time
from dataclasses import replace
from hami_core import Resources, hookimpl
from hami_core.tests.scheduler import vendor
from hami_core.wire.node import decode_devices_json

class Acme(vendor.Acme):
    {hook}

BETA = replace(
    vendor.FAMILY, word="BETA", resources=Resources("beta.com/gpu", "beta.com/mem"),
    allocated_key="hami.io/beta-devices-allocated", to_allocate_key="", register_key="beta.com/register",
)

class Beta:
    @hookimpl
    def families(self, config):
        return [BETA]

    @hookimpl
    def register(self, node):
        text = node.annotations.get("beta.com/register")
        return None if text is None else decode_devices_json(text, key="beta.com/register", family="BETA")
"""


POLICY = """
from hami_core import hookimpl

class Policy:
    @hookimpl(wrapper=True)
    def custom_filter(self):
        while True: pass
        return (yield)
"""


def install_policy(tmp_path: Path, version: str, text: str = POLICY) -> None:
    """Install a plugin that wraps every vendor's custom_filter into the same folder."""
    info = tmp_path / "site/hami_policy.dist-info"
    info.mkdir(exist_ok=True)
    (tmp_path / "site/site_policy.py").write_text(text)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: hami-policy\nVersion: {version}\n")
    (info / "entry_points.txt").write_text("[hami.plugins]\npolicy = site_policy:Policy\n")


def install(tmp_path: Path, misbehaves: str, version: str = "1.0") -> None:
    """Install two vendors into a folder as pip would. The first one has the given hook with the given body."""
    site = tmp_path / "site"
    site.mkdir(exist_ok=True)
    (tmp_path / "signing.key").write_bytes(private_key_pem(generate_private_key()))
    hook, _, what = misbehaves.partition(" ")
    mark = "" if hook == "__init__" else "@hookimpl\n    "
    text = f"{mark}def {hook}(self):\n        {what}" if hook else "pass"
    (site / "site_two.py").write_text(VENDORS.replace("{hook}", text))
    for name, number in {"acme": version, "beta": "1.0"}.items():
        info = site / f"hami_{name}.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: hami-{name}\nVersion: {number}\n")
        (info / "entry_points.txt").write_text(f"[hami.vendors]\n{name} = site_two:{name.title()}\n")


class Bed:
    """An API server with one node that has devices of both vendors, and a scheduler that starts again and again."""

    def __init__(self, tmp_path: Path, cluster: Cluster) -> None:
        self.tmp_path = tmp_path
        self.cluster = cluster
        self.closed = tmp_path / "closed.json"
        self.session = aiohttp.ClientSession()

    async def prepare(self) -> None:
        made = node("n1")
        mine = made["metadata"]["annotations"]["acme.com/register"]
        made["metadata"]["annotations"]["beta.com/register"] = mine.replace("n1-", "beta-n1-")
        async with self.session.post(f"{self.cluster.url}/api/v1/nodes", json=made) as response:
            assert response.status == 201, await response.text()

    def scheduler(self, limit_s: float = 1.5):
        flags = ("--vendors=acme,beta", "--http_bind=127.0.0.1:0", f"--hook-time-limit={limit_s}")
        return hami_scheduler(
            self.tmp_path, f"--kubeconfig={self.cluster.kubeconfig}", f"--closed-vendors-file={self.closed}", *flags
        )

    async def is_ready(self, hami: Process) -> None:
        await hami.listening()
        await asyncio.wait_for(ready(self.session, hami.addresses[0]), 60)

    async def place(self, hami: Process, name: str, vendor: str) -> str:
        """Create a pod, filter and bind it. Returns why that failed; empty: it is bound."""
        manifest = pod(name)
        limits = {f"{vendor}.com/gpu": "1", f"{vendor}.com/mem": "1000"}
        manifest["spec"]["containers"][0]["resources"]["limits"] = limits
        manifest["metadata"].pop("uid")
        async with self.session.post(f"{self.cluster.url}/api/v1/namespaces/default/pods", json=manifest) as response:
            made = await response.json()
        address = f"http://{hami.addresses[0]}"
        body: dict[str, Any] = {"Pod": made, "Nodes": None, "NodeNames": ["n1"]}
        async with self.session.post(f"{address}/filter", json=body) as response:
            answer = await response.json()
        if answer["Error"] or not answer["NodeNames"]:
            return f"{answer['Error']} {json.dumps(answer['FailedNodes'])}"
        body = {"PodName": name, "PodNamespace": "default", "PodUID": made["metadata"]["uid"], "Node": "n1"}
        async with self.session.post(f"{address}/bind", json=body) as response:
            return (await response.json())["Error"]

    async def get(self, hami: Process, path: str) -> str:
        async with self.session.get(f"http://{hami.addresses[-1]}{path}") as response:
            return await response.text()


@pytest.fixture
async def bed(tmp_path):
    async with Cluster(tmp_path / "c", nodes=[]) as cluster:
        made = Bed(tmp_path, cluster)
        await made.prepare()
        yield made
        await made.session.close()


async def ended(hami: Process, seconds: float = 30) -> int:
    """Wait for a process that ends by itself, and read its log."""
    _, errors = await asyncio.wait_for(hami.process.communicate(), seconds)
    hami.log += [_line(line) for line in errors.splitlines()]
    return hami.process.returncode


def logged(hami: Process, words: str) -> list[dict[str, Any]]:
    return [line for line in hami.log if words in str(line["event"])]


async def test_a_sleeping_hook_is_named_with_its_stack_and_counted(tmp_path, bed):
    install(tmp_path, "custom_filter time.sleep(1.3)")
    async with bed.scheduler(limit_s=30) as hami:
        await bed.is_ready(hami)
        assert await bed.place(hami, "a", "acme") == ""
        metrics = await bed.get(hami, "/metrics")
        assert await hami.end() == 0
    sample = 'hami_plugin_blocks_total{distribution="hami-acme 1.0",hook="custom_filter",plugin="acme"} '
    assert sample in metrics
    (line,) = logged(hami, "a hook holds up the process")
    assert (line["plugin"], line["version"], line["hook"]) == ("acme", "hami-acme 1.0", "custom_filter")
    assert "site_two.py" in str(line["stack"])
    assert "time.sleep(1.3)" in str(line["stack"])
    assert not bed.closed.exists()


async def test_a_hook_that_is_only_slow_is_not_accused(tmp_path, bed):
    install(tmp_path, "custom_filter time.sleep(0.1)")
    async with bed.scheduler() as hami:
        await bed.is_ready(hami)
        assert await bed.place(hami, "a", "acme") == ""
        assert await hami.end() == 0
    assert not logged(hami, "hook")


LOOPS = [
    ("custom_filter", "while True: pass"),
    ("parse_request", "time.sleep(1000)"),
    ("check_type", "import logging; logging._acquireLock() or logging.root.handlers[0].acquire(); time.sleep(1000)"),
    ("choose", "threading.Lock().acquire() and threading.Event().wait()"),
]


@pytest.mark.parametrize(("hook", "what"), LOOPS, ids=[hook for hook, _ in LOOPS])
async def test_blocked_hook_closes_only_its_vendor(tmp_path, bed, hook, what):
    install(tmp_path, f"{hook} {what}")
    async with bed.scheduler() as hami:
        await bed.is_ready(hami)
        with pytest.raises(aiohttp.ClientError):
            await bed.place(hami, "stuck", "acme")
        assert await ended(hami) == 1
        (line,) = logged(hami, "so it is ended")
        assert (line["plugin"], line["version"], line["hook"]) == ("acme", "hami-acme 1.0", hook)
    async with bed.scheduler() as hami:
        await bed.is_ready(hami)
        refused = await bed.place(hami, "a", "acme")
        assert await bed.place(hami, "b", "beta") == ""
        assert await hami.end() == 0
    for words in ("acme", "hami-acme 1.0", hook, "held up the process for", str(bed.closed)):
        assert words in refused
    install(tmp_path, "", version="1.1")
    async with bed.scheduler() as hami:
        await bed.is_ready(hami)
        assert await bed.place(hami, "c", "acme") == ""
        assert await hami.end() == 0
    install(tmp_path, "")
    bed.closed.unlink()
    async with bed.scheduler() as hami:
        await bed.is_ready(hami)
        assert await bed.place(hami, "d", "acme") == ""
        assert await hami.end() == 0


async def test_a_wrapper_that_blocks_is_named_and_opens_by_its_version(tmp_path, bed):
    install(tmp_path, "custom_filter pass")
    install_policy(tmp_path, "3.0")
    async with bed.scheduler() as hami:
        await bed.is_ready(hami)
        with pytest.raises(aiohttp.ClientError):
            await bed.place(hami, "stuck", "acme")
        assert await ended(hami) == 1
    async with bed.scheduler() as hami:
        await bed.is_ready(hami)
        assert "hami-policy 3.0 wraps it" in await bed.place(hami, "a", "acme")
        assert 'hami_plugin_refused{distribution="hami-acme 1.0",plugin="acme"} 1' in await bed.get(hami, "/metrics")
        assert await hami.end() == 0
    install_policy(tmp_path, "3.1", POLICY.replace("while True: pass", "pass"))
    async with bed.scheduler() as hami:
        await bed.is_ready(hami)
        assert await bed.place(hami, "b", "acme") == ""
        assert await hami.end() == 0


async def test_a_hook_that_keeps_pythons_lock_closes_its_vendor(tmp_path, bed):
    install(tmp_path, "custom_filter re.match('(a+)+b', 'a' * 60)")
    async with bed.scheduler() as hami:
        await bed.is_ready(hami)
        with pytest.raises(aiohttp.ClientError):
            await bed.place(hami, "stuck", "acme")
        assert await ended(hami) == 1
    async with bed.scheduler() as hami:
        await bed.is_ready(hami)
        refused = await bed.place(hami, "a", "acme")
        assert await bed.place(hami, "b", "beta") == ""
        assert await hami.end() == 0
    for words in ("hami-acme 1.0", "custom_filter", "held up the process for"):
        assert words in refused
    (line,) = logged(hami, "a call in C")
    assert "site_two.py" in line["stack"]


@pytest.mark.parametrize("hook", ["families", "__init__", "register"])
async def test_a_vendor_that_blocks_at_the_start_is_closed(tmp_path, bed, hook):
    install(tmp_path, f"{hook} time.sleep(1000)")
    async with bed.scheduler() as hami:
        assert await ended(hami) == 1
        assert logged(hami, "so it is ended")
    async with bed.scheduler() as hami:
        await bed.is_ready(hami)
        assert await bed.place(hami, "b", "beta") == ""
        assert hook != "register" or "held up the process" in await bed.place(hami, "a", "acme")
        assert await hami.end() == 0
    assert [line for line in hami.log if "held up the process" in str(line["event"])]


@pytest.mark.parametrize("what", ["time.sleep(1000)", "while True: pass"])
async def test_sigterm_ends_a_process_that_a_hook_blocks(tmp_path, bed, what):
    install(tmp_path, f"custom_filter {what}")
    async with bed.scheduler(limit_s=100) as hami:
        await bed.is_ready(hami)
        placing = asyncio.ensure_future(bed.place(hami, "stuck", "acme"))
        await asyncio.sleep(1)
        hami.process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        assert await ended(hami) == 128 + signal.SIGTERM
        assert time.monotonic() - began < 12
        with pytest.raises(aiohttp.ClientError):
            await placing
    (line,) = logged(hami, "so it is ended")
    assert line["hook"] == "custom_filter"


async def test_a_closed_vendors_file_that_is_no_json_ends_the_start(tmp_path, bed):
    install(tmp_path, "")
    bed.closed.write_text("{")
    async with bed.scheduler() as hami:
        _, errors = await asyncio.wait_for(hami.process.communicate(), 60)
    assert hami.process.returncode not in {0, None}
    assert f"--closed-vendors-file {bed.closed}" in errors.decode()
    assert "remove the file" in errors.decode()
    assert "Traceback" not in errors.decode()
