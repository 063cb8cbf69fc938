"""``hami explain`` against a scheduler and an API server: what people read, by the rights that they have."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from hami_nvidia import Nvidia

from hami_core.cli.explain import command
from hami_core.model import Device
from hami_core.plugins.discovery import VENDORS, Found, Source
from hami_core.plugins.load import assemble
from hami_core.tests.kube.apiserver import Fault
from hami_core.tests.scheduler.conftest import api, server, signing_key, start  # noqa: F401 - fixtures
from hami_core.tests.scheduler.test_unreadable import bound
from hami_core.tests.scheduler.vendor import node, pod
from hami_core.wire.node import encode_devices_json

MINE = {"schedulerName": "hami-scheduler"}


class Stage:
    """A scheduler in a pod, and a way to call the command with a kubeconfig of its API server."""

    def __init__(self, server, client, folder) -> None:  # noqa: F811
        self.server = server
        self.client = client
        self.folder = folder
        self.port = int(client.scheduler.addresses[-1].rpartition(":")[2])
        self._kubeconfig = server.kubeconfig(folder)

    async def begin(self) -> None:
        await self.client.scheduler._tasks["first-sync"]  # which logs to the output that the command's runner captures
        container = {"name": "s", "image": "hami", "args": ["scheduler"]}
        container["ports"] = [{"name": "metrics", "containerPort": self.port}]
        meta = {"labels": {"hami.io/webhook": "ignore"}}
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        ours = pod("scheduler", namespace="kube-system", metadata=meta, spec={"containers": [container]})
        await self.server.put("pods", ours | {"status": ready})

    async def __call__(self, *words: str, text: str = "", status: int = 0) -> str:
        words = ("pod", *words, "--kubeconfig", str(self._kubeconfig))
        done = await asyncio.to_thread(CliRunner().invoke, command, words, input=text)
        if done.exception and not isinstance(done.exception, SystemExit):
            assert status == 1, done.exception
            return str(done.exception)
        assert done.exit_code == status, done.output
        return done.output


@pytest.fixture
async def stage(server, start, tmp_path):  # noqa: F811
    """Two nodes, each with a pod that uses most of its card."""
    for number, mem in ((1, 6000), (2, 7000)):
        await server.put("nodes", node(f"n{number}", cards=1))
        holder = bound(f"holder{number}", f"n{number}-0,ACME,{mem},10:;", uid=f"u{number}", on=f"n{number}")
        await server.put("pods", holder)
    made = Stage(server, await start(), tmp_path)
    await made.begin()
    return made


async def test_pending_pod(stage):
    said = {"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available: 2 refused."}
    await stage.server.put("pods", pod("big", mem=8000, spec=MINE) | {"status": {"conditions": [said]}})
    told = await stage("big", "--cards")
    assert told.splitlines() == [
        "Pod default/big is pending: it is not bound to a node",
        "  container c needs 8000 MiB and 10 % of the cores on one card (ACME)",
        "  kube-scheduler said: 0/2 nodes are available: 2 refused.",
        "",
        "It fits on none of 2 nodes now.",
        "",
        "NODE  WOULD FIT",
        "n1    with acme.com/mem ≤ 4000",
        "      when pod default/holder1 has ended",
        "      now: of n1's 1 card the freest has 4000 MiB free",
        "n2    with acme.com/mem ≤ 3000",
        "      when pod default/holder2 has ended",
        "      now: of n2's 1 card the freest has 3000 MiB free",
        "",
        "Cards of n1, in use / in all:",
        "CARD  ID    MODEL  SLOTS  MEMORY (MiB)  CORES   WHY NOT",
        "0     n1-0  A1     1/10   6000/10000    10/100  CardInsufficientMemory: needs 8000, has 4000",
        "",
        "Cards of n2, in use / in all:",
        "CARD  ID    MODEL  SLOTS  MEMORY (MiB)  CORES   WHY NOT",
        "0     n2-0  A1     1/10   7000/10000    10/100  CardInsufficientMemory: needs 8000, has 3000",
    ]


async def test_pod_that_fits_and_pod_that_runs(stage):
    await stage.server.put("pods", pod("small", mem=3500, spec=MINE))
    told = await stage("small")
    assert "It fits on 1 of 2 nodes now." in told
    assert "n1    8.00   c: card 0 (n1-0): 3500 MiB, cores 10" in told
    assert "node policy binpack (from the settings)" in told
    told = await stage("holder1")
    assert told.startswith("Pod default/holder1 is bound: it is bound to node n1\n")
    assert "  container c has, on node n1, card 0 (n1-0): 6000 MiB, cores 10" in told
    assert "Another pod like it fits on 2 of 2 nodes now." in told


async def test_each_kind_of_node_is_told(stage):
    """Nodes where no change helps, where the pod can never fit, and nodes that are only counted."""
    await stage.server.put("nodes", {"metadata": {"name": "bare"}})
    for number in range(3, 9):
        await stage.server.put("nodes", node(f"n{number}", cards=1, memory=100))
    names = stage.client.scheduler.cluster
    while len(names.nodes.store) < 9:
        await names.nodes.refresh()
    await stage.server.put("pods", pod("big", gpu=2, mem=8000, spec=MINE))
    told = await stage("big", "--nodes", "2")
    assert "never: the pod is too large for this node even if it is idle" in told
    assert re.search(r"^6 more: .*\(n\d, .*, …\)$", told, re.MULTILINE), told
    told = await stage("big", "--node", "bare")
    assert "bare  no change of the pod helps\n      now: bare: refuses: node unregistered (no agent" in told


async def test_held_pod_is_answered_by_a_second_one_like_it(stage):
    held = await stage.server.put("pods", pod("held", mem=3500, spec=MINE))
    assert (await stage.client.filter(held, ["n1"]))["NodeNames"] == ["n1"]
    told = await stage("held")
    assert told.startswith("Pod default/held is held: node n1 is held for it until its Bind\n")
    assert "Another pod like it fits on none of 2 nodes now." in told


async def test_names_are_hidden_where_rights_end(stage):
    await stage.server.put("pods", pod("big", mem=8000, spec=MINE))

    def everywhere(_: str, path: str) -> Fault | None:
        return Fault(403, "no") if path.startswith("/api/v1/pods") and "fieldSelector" in path else None

    stage.server.faults.append(everywhere)
    told = await stage("big", "-n", "default")
    assert "when pod default/holder1 has ended" in told, "the caller's own namespace can be listed"
    stage.server.faults.append(lambda _, path: Fault(403, "no") if "fieldSelector" in path else None)
    told = await stage("big")
    assert "when a pod you may not list (u1) has ended" in told
    assert "holder" not in told
    assert "Some pods have no name here: no" in told
    names = json.loads(await stage("big", "-o", "json"))["names"]
    assert names == {"u1": "a pod you may not list", "u2": "a pod you may not list"}


async def test_pods_of_a_file_are_those_that_the_server_would_create(stage):
    job = {"kind": "Job", "metadata": {"name": "train"}, "spec": {"template": {"spec": pod("x", mem=8000)["spec"]}}}
    file = stage.folder / "pods.yaml"
    file.write_text(yaml.safe_dump_all([{"kind": "Pod", **pod("new", mem=100, spec=MINE)}, None, job]))
    before = dict(stage.server.objects["pods"])
    one, two = json.loads(await stage("-f", str(file), "-o", "json"))
    assert (one["pod"]["name"], one["nodes"]["fit"]) == ("new", 2)
    assert two["pod"]["name"].startswith("train-")
    assert (one["state"], two["state"]) == ("hypothetical", "foreign"), "no webhook is installed here"
    assert dict(stage.server.objects["pods"]) == before
    told = await stage("-f", "-", text=json.dumps(pod("new", mem=100, spec=MINE)))
    assert "It fits on 2 of 2 nodes now." in told


async def test_one_node_and_one_card(stage):
    await stage.server.put("pods", pod("big", mem=8000, spec=MINE))
    told = await stage("big", "--node", "n2", "--card", "0")
    assert "n1" not in told
    assert "0     n2-0  A1" in told
    told = await stage("big", "--node", "n2", "--card", "7", status=1)
    assert told == "node n2: it has no card 7 (its cards: 0 (n2-0))"
    assert "there is no node n11 (did you mean n1?)" in await stage("big", "--node", "n11", status=1)


WRONG = {
    "no pod": (["bigg"], "pod default/bigg: there is no such pod (did you mean big?)"),
    "no namespace": (["big", "-n", "else"], "pod else/big: there is no such pod"),
    "no installation": (["big", "--hami-namespace", "else"], "no pod of it was found in namespace else"),
    "no file": (["-f", "none.yaml"], "none.yaml"),
    "no YAML": (["-f", "-"], "standard input"),
    "no kind": (["-f", "-"], "standard input: kind: is missing (write a Pod, or one of "),
}


@pytest.mark.parametrize("case", WRONG)
async def test_wrong_words_name_object_and_fix(stage, case):
    await stage.server.put("pods", pod("big", spec=MINE))
    words, says = WRONG[case]
    assert says in await stage(*words, text={"no YAML": "{", "no kind": "a: 1"}.get(case, ""), status=1)


async def test_words_that_contradict_are_refused(stage):
    for words in (
        (),
        ("big", "-f", "x"),
        ("big", "--card", "0"),
        ("big", "--nodes", "0"),
        ("big", "--cards", "-o", "json"),
    ):
        assert "Usage:" in await stage(*words, status=2)


async def test_refused_pod_shows_the_servers_words(stage):
    bad = pod("x", spec={"containers": []})
    told = await stage("-f", "-", text=json.dumps(bad), status=1)
    assert told.startswith("standard input: the API server refuses the pod: ")
    assert told.endswith("(correct the pod)")


async def test_hostile_words_are_printed_harmless(stage):
    evil = pod(
        "evil",
        spec={"containers": [{"name": "\x1b[31mc\n", "image": "i", "resources": {"limits": {"acme.com/gpu": "x"}}}]},
    )
    stage.server.objects["pods"]["default/evil"] = evil
    told = await stage("evil")
    assert all(line.isprintable() for line in told.splitlines())
    assert "\x1b" not in told


async def test_scheduler_by_its_address(stage):
    await stage.server.put("pods", pod("big", mem=8000, spec=MINE))
    await stage.server.remove("pods", "kube-system/scheduler")
    assert "no pod of it was found" in await stage("big", status=1)
    assert "WOULD FIT" in await stage("big", "--scheduler-url", f"http://127.0.0.1:{stage.port}")


def gpus(name: str, *, cordoned: str = "") -> dict:
    """A node with two cards of 40 GiB."""
    cards = [Device(f"GPU-{name}-{i}", i, 10, 40_960, 100, "NVIDIA-A100-PCIE-40GB", "NVIDIA") for i in range(2)]
    annotations = {"hami.io/node-nvidia-register": encode_devices_json(cards)}
    if cordoned:
        annotations["hami.io/device-cordon"] = cordoned
    labels = {"hami.io/agent-nvidia": "ready"}
    return {
        "metadata": {"name": name, "annotations": annotations, "labels": labels},
        "status": {"allocatable": {"nvidia.com/gpu": "20"}, "capacity": {"nvidia.com/gpu": "20"}},
    }


def asking(name: str, mib: int, *, given: str = "", on: str = "") -> dict:
    """A pod that asks for memory of one card; with ``given``, it runs there."""
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(mib), "nvidia.com/gpucores": "30"}
    containers = [{"name": "main", "image": "i", "resources": {"limits": limits}}]
    annotations = {"hami.io/vgpu-node": on, "hami.io/vgpu-devices-allocated": f"{given},NVIDIA,{mib},30:;"}
    meta = {"annotations": annotations} if on else {}
    made = pod(name, metadata=meta, spec={"containers": containers, **MINE, **({"nodeName": on} if on else {})})
    return made | ({"status": {"phase": "Running"}} if on else {})


async def test_examples_of_the_page(server, start, tmp_path):  # noqa: F811
    for name, cordoned in (("gpu-1", ""), ("gpu-2", "GPU-gpu-2-1")):
        await server.put("nodes", gpus(name, cordoned=cordoned))
    for name, mib, card, on in (
        ("notebook", 32_768, 0, "gpu-1"), ("trainer", 36_864, 1, "gpu-1"), ("server", 20_480, 0, "gpu-2"),
    ):  # fmt: skip
        await server.put("pods", asking(name, mib, given=f"GPU-{on}-{card}", on=on))
    await server.put("pods", asking("big", 30_000))
    found = [Found(Source("nvidia", VENDORS, "tests", "tests", "0"), Nvidia)]
    stage = Stage(server, await start(loaded=assemble(found, side="scheduler")), tmp_path)
    await stage.begin()
    small = asking("small", 6000)
    (tmp_path / "small.yaml").write_text(yaml.safe_dump({"kind": "Pod", **small}))
    page = (Path(__file__).parents[3] / "docs/reference/explain.md").read_text()
    await stage.client.filter(asking("big", 30_000), ["gpu-1", "gpu-2"])
    await stage.client.scheduler.recorder.flush()
    (event,) = (e["message"] for e in server.objects["events"].values() if "do not meet" in e["message"])
    (told,) = re.findall(r"```text\n((?:.|\n)*?)```", page)
    assert " ".join(told.split()) == event
    shown = re.findall(r"```console\n\$ hami explain pod (.*)\n((?:.|\n)*?)```", page)
    assert len(shown) >= 3
    for words, text in shown:
        given = [str(tmp_path / word) if word.endswith(".yaml") else word for word in words.split()]
        assert await stage(*given) == text, words
