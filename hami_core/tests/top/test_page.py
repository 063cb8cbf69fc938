"""The examples of docs/reference/top.md are what the command prints, through an API server."""

from __future__ import annotations

import asyncio
import re
import shlex
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
import pytest_asyncio
from aiohttp import web
from click.testing import CliRunner

from hami_core.cli.main import root
from hami_core.errors import HamiError
from hami_core.scheduler.usage import Amounts, NodeUse, SliceUse
from hami_core.sim import Cluster
from hami_core.sim.client import Client
from hami_core.tests.test_reach import SPACE, Stage, ours
from hami_core.tests.top.fakes import card, of_card, of_slice, usage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PAGE = (Path(__file__).parents[3] / "docs/reference/top.md").read_text("utf-8")
EXAMPLES = [
    (command.strip(), output)
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
]


async def listener(stack: AsyncExitStack, path: str, text: str) -> int:
    """Serve a text at a path. Returns the port."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=text)

    app = web.Application()
    app.router.add_get(path, answer)
    runner = web.AppRunner(app)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return int(runner.addresses[0][1])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster() -> AsyncIterator[Stage]:
    """The installation of the page: two nodes, two pods."""
    async with AsyncExitStack() as stack:
        embedded = await stack.enter_async_context(
            Cluster(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hami-"))), nodes=[])
        )
        client = Client(embedded.url, "test")
        stack.push_async_callback(client.close)
        stage = Stage(client, None, 0)
        stage.kubeconfig = str(embedded.kubeconfig)
        uids = []
        for space, name in (("team", "train"), ("other", "serve")):
            await client.call("POST", "/api/v1/namespaces", {"metadata": {"name": space}})
            pod = {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "i"}]}}
            pod["spec"] |= {"nodeName": "gpu-1", "schedulerName": "none"}
            uids.append((await client.call("POST", f"{SPACE}/{space}/pods", pod))["metadata"]["uid"])
        train, serve = uids
        slices = SliceUse(train, "main", memory_mib=3000, cores=30), SliceUse(serve, "main", memory_mib=8000)
        large = card("gpu-2", 0, type="NVIDIA H100", total=Amounts(10, 81559, 100))
        first = NodeUse("gpu-1", 1, (card("gpu-1", 0, *slices), card("gpu-1", 1)))
        text = msgspec.json.encode(usage(first, NodeUse("gpu-2", 0, (large,)))).decode()
        await stage.add(ours("scheduler", "scheduler", await listener(stack, "/usage", text)))
        of_first = of_card("gpu-1", 0, 5000, 61.4) + of_card("gpu-1", 1, 10, 0)
        of_first += of_slice(train, "gpu-1-0", 2500, 3000, 20.4) + of_slice(serve, "gpu-1-0", 2400, 8000, 41)
        for node, metrics in (("gpu-1", of_first), ("gpu-2", of_card("gpu-2", 0, 0, 0, "NVIDIA H100"))):
            agent = ours(f"agent-{node}", "agent", await listener(stack, "/metrics", metrics))
            agent["spec"]["nodeName"] = node
            await stage.add(agent)
        yield stage


async def run(stage: Stage, *words: str) -> tuple[int, str]:
    """Exit status and output of `hami`. The output is no terminal."""
    done = await asyncio.to_thread(CliRunner(env={"KUBECONFIG": stage.kubeconfig}).invoke, root, words)
    if isinstance(done.exception, HamiError):
        return 1, f"{done.output}hami: {done.exception}\n"
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


@pytest.mark.parametrize(("command", "output"), EXAMPLES, ids=[command for command, _ in EXAMPLES])
@pytest.mark.asyncio(loop_scope="module")
async def test_an_example_of_the_page_prints_what_the_page_says(cluster, command, output):
    _, said = await run(cluster, *shlex.split(command)[1:])
    assert re.sub(r'"age_s": [0-9.]+', '"age_s": 0.0', said) == output


def test_the_page_has_examples_of_every_view():
    commands = " ".join(command for command, _ in EXAMPLES)
    for words in ("top cards", "top slices", "--json", "--sort", "--filter"):
        assert words in commands


@pytest.mark.asyncio(loop_scope="module")
async def test_a_caller_without_rights_is_told_what_to_ask_for(cluster):
    await cluster.refuse("get", "pods/proxy")
    try:
        code, said = await run(cluster, "top")
    finally:
        await cluster.client.call("DELETE", "/sim/faults")
    assert code == 1
    assert "you need the right to get and create pods/proxy in namespace default" in said
    assert "the chart's role hami-scheduler-view" in said


@pytest.mark.asyncio(loop_scope="module")
async def test_without_textual_a_terminal_gets_the_table_and_one_line(cluster, monkeypatch):
    monkeypatch.setattr("hami_core.cli.top._is_terminal", lambda: True)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    code, said = await run(cluster, "top")
    assert code == 0
    head, summary, empty, header, *rows = said.splitlines()
    assert head == "hami: the live view needs textual: pip install 'hami[top]'; this is the table of now"
    assert summary.startswith("2 nodes, 3 cards, 2 slices, 1 held, 11000 of ")
    assert (empty, header.split()[0], len(rows)) == ("", "NODE", 2)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["gpus"], "'gpus' is not one of 'nodes', 'cards', 'slices'"),
        (["--interval", "0"], "0.0 is not in the range"),
        (["--limit", "0"], "0 is not in the range"),
        (["--filter", "nod=x"], "--filter nod=x: there is no key 'nod' (did you mean node?)"),
        (["--scheduler-url", "http://127.0.0.1:1", "--no-agents"], "check --scheduler-url"),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_wrong_command_line_is_explained(cluster, words, says):
    code, said = await run(cluster, "top", *words)
    assert code != 0
    assert says in said
