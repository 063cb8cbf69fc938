"""All vendors of the repository at once: their example pods, nodes with devices of every vendor, pods of two vendors.

Each node has devices of every vendor whose nodes other people's device plugins serve, as these plugins leave node
objects. The node ``gpu`` has simulated GPUs, which our agent serves.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import yaml

from contrib.vendor_folders import ROOT, in_tree
from hami_core.plugins import load
from hami_core.testing import StageError
from tests.bench.filter import Kind, facts_of, kinds
from tests.integration.bad_input import distributions
from tests.integration.mixed import MixedNode, MixedStage, foreign_node, gpu, node, npu, pod

pytestmark = pytest.mark.timeout(300)
EVERY = tuple(vendor.name for vendor in in_tree())
THEIRS = {vendor.name: vendor for vendor in in_tree() if vendor.folder.parts[-3:-1] == ("contrib", "vendors")}
"""Vendors whose nodes other people's device plugins serve."""


def kind_of(vendor: str) -> Kind:
    """A node of a vendor, and a container that fits there."""
    return next(kind for kind in kinds() if kind.vendor == vendor)


def nodes() -> list[MixedNode]:
    """Nodes that each have devices of all `THEIRS`.

    On the first, the first example pod of each vendor fits. The others have the nodes of the vendors' tests in turn.
    """
    files = [sorted(vendor.folder.glob("tests/data/nodes/*.yaml")) for vendor in THEIRS.values()]
    turns = [[facts_of(mine[turn % len(mine)]) for mine in files] for turn in range(max(map(len, files)))]
    made = []
    for number, vendors in enumerate([[kind_of(vendor).facts for vendor in THEIRS], *turns]):
        parts: dict[str, dict[str, str]] = {"annotations": {}, "labels": {}, "capacity": {}}
        for facts in vendors:
            parts["annotations"] |= facts.annotations
            parts["labels"] |= facts.labels
            parts["capacity"] |= facts.allocatable
        made.append(MixedNode(f"theirs-{number}", agents=(), **parts))
    return [*made, node("gpu", "a100x1"), foreign_node("npu-mlu", npus=2, mlus=2)]


def examples(vendor: str) -> list[dict[str, Any]]:
    """The example pods of a vendor."""
    documents = yaml.safe_load_all((ROOT / f"contrib/examples/{vendor}.yaml").read_text("utf-8"))
    return [document for document in documents if document["kind"] == "Pod"]


def asked(vendor: str) -> dict[str, Any]:
    """Limits of a container that asks for a device of a vendor."""
    return npu(8192) if vendor == "ascend" else dict(kind_of(vendor).limits)


def words(found: dict[str, Any]) -> set[str]:
    """Vendors of which a pod has devices, by its allocation annotations."""
    keys = {family.allocated_key: vendor.name for vendor in load({}).vendors for family in vendor.families}
    return {keys[key] for key, text in found["metadata"]["annotations"].items() if key in keys and text.strip(";")}


async def test_every_example_pod_runs_on_nodes_of_all_vendors(short_folder):
    async with MixedStage(short_folder / "examples", nodes(), vendors=EVERY) as stage:
        for vendor in THEIRS:
            for document in examples(vendor):
                name = document["metadata"]["name"]
                await stage.submit(document)
                assert words(await stage.wait_running(name)) == {vendor}
                await stage.call("DELETE", f"/api/v1/namespaces/default/pods/{name}", {"gracePeriodSeconds": 0})


async def test_pods_of_two_vendors_get_devices_of_both(short_folder):
    """Each vendor is paired with the next, in two containers and in one."""
    async with MixedStage(short_folder / "pairs", nodes(), vendors=EVERY) as stage:
        for first, second in pairwise([*THEIRS, next(iter(THEIRS))]):
            apart, together = f"apart-{first}", f"together-{first}"
            await stage.submit(pod(apart, asked(first), asked(second)))
            await stage.submit(pod(together, asked(first) | asked(second)))
            for name in (apart, together):
                assert words(await stage.wait_running(name)) == {first, second}
                await stage.call("DELETE", f"/api/v1/namespaces/default/pods/{name}", {"gracePeriodSeconds": 0})


class BesideBroken(MixedStage):
    """The scheduler has broken vendors, too. This process does not read them."""

    read_vendors = EVERY


async def test_broken_vendors_disturb_none_of_the_others(short_folder, monkeypatch):
    distributions.install(short_folder / "rogues")
    monkeypatch.setenv("PYTHONPATH", str(short_folder / "rogues"))
    broken = [*distributions.LOADABLE, *distributions.BROKEN]
    async with BesideBroken(short_folder / "broken", nodes(), vendors=(*EVERY, *broken)) as stage:
        for vendor in EVERY:
            await stage.submit(pod(f"one-{vendor}", asked(vendor)))
        for vendor in EVERY:
            assert words(await stage.wait_running(f"one-{vendor}")) == {vendor}
        log = stage.parts["scheduler"].tail(4000)
        assert [name for name in broken if f"rogue-{name}" not in log] == []


async def test_vendor_removed_and_replaced_at_run_time_disturbs_no_other(short_folder, monkeypatch):
    site = short_folder / "moving"
    site.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.syspath_prepend(site)
    register = '[{"id": "M-0", "count": 9, "devmem": 9000, "devcore": 100, "type": "M", "health": true}]'
    there = [replace(one, annotations={**one.annotations, "hami.io/node-mover": register}) for one in nodes()]
    mine = {"mover.example/gpu": 1, "mover.example/mem": 1000}
    family = distributions.FAMILY.format(word="MOVER", name="mover", body="")

    async def places(stage: MixedStage, name: str) -> str:
        """Submit a pod of the vendor and one of another. Returns why the vendor's pod does not run; empty: it does."""
        await stage.submit(pod(f"{name}-gpu", gpu(1000)))
        await stage.wait_running(f"{name}-gpu")
        try:
            await stage.submit(pod(name, mine))
            await stage.wait_running(name, limit_s=20)
        except StageError as error:
            return str(error)
        return ""

    distributions.write(site, "mover", family)
    # Without a list, the scheduler serves what is installed. With a list, a missing vendor is an error at its start.
    flags = ["--vendors=", f"--managed-resources={','.join(mine)}"]
    async with MixedStage(short_folder / "moves", there, vendors=(*EVERY, "mover"), scheduler=flags) as stage:
        assert await places(stage, "before") == ""
        shutil.rmtree(site / "rogue_mover-6.6.dist-info")
        (site / "rogue_mover.py").unlink()
        assert await places(stage, "removed") == "", "the running scheduler has the code in memory"
        await stage.restart("scheduler")
        assert "mover.example/gpu" in await places(stage, "gone")
        distributions.write(site, "mover", family.replace("MOVER", "MOVER2"), version="7.7")
        await stage.restart("scheduler")
        assert await places(stage, "replaced") == ""
        assert "rogue-mover 7.7" in stage.parts["scheduler"].tail(4000)
