"""`hami_core.testing.Stage`: any installed vendor on the embedded cluster, as the vendor's author tests it."""

from __future__ import annotations

import asyncio
import inspect
import textwrap
from pathlib import Path

import pytest
import yaml

from hami_core import ConfigError
from hami_core.testing import Stage, StageError, StageNode
from tests.integration import acme

ASCEND = Path(__file__).parents[2] / "vendors/ascend/tests/data/nodes/ascend910b4.yaml"

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module", autouse=True)
def installed(short_folder):
    yield from acme.installed(short_folder)


async def stays_running(stage, name):
    while await stage.wait_running(name):
        await asyncio.sleep(0.1)


async def test_example_of_the_docstring_runs(short_folder):
    env = acme.devices(short_folder / "one", count=1)
    text = inspect.getdoc(Stage).partition("::\n")[2].partition("\n\nThe vendor must be installed")[0]
    code = "async def example():\n" + textwrap.indent(textwrap.dedent(text), "    ")
    names = {"Stage": Stage, "StageNode": StageNode, "folder": short_folder / "e", "pod": acme.pod("trainer", 3000)}
    names |= {"sysfs": Path(env["HAMI_ACME_SYSFS"]), "dev": Path(env["HAMI_ACME_DEV"])}
    exec(code, names)
    await names["example"]()


async def test_pods_run_end_or_wait_with_the_reason(short_folder):
    env = acme.devices(short_folder / "two")
    nodes = [StageNode("npu-1", env=env), StageNode("npu-2", env=env, labels={"zone": "b"})]
    async with Stage(short_folder / "s", nodes, vendors=["acme"]) as stage:
        await stage.submit(acme.pod("job", 3000, command="true"))
        await stage.submit(acme.pod("broken", 3000, command="false"))
        await stage.submit(acme.pod("large", 40_000))
        await stage.submit(
            acme.pod("picky", 3000) | {"spec": acme.pod("", 3000)["spec"] | {"nodeSelector": {"zone": "b"}}}
        )
        assert (await stage.wait_running("picky"))["spec"]["nodeName"] == "npu-2"
        assert (await stage.wait_running("job"))["spec"]["schedulerName"] == "hami-scheduler"
        with pytest.raises(StageError, match=r"pod broken is Failed"):
            await stays_running(stage, "broken")
        assert [(await stage.container(name)).exit_code for name in ("job", "broken", "picky")] == [0, 1, None]
        with pytest.raises(StageError, match=r"CardInsufficientMemory"):
            await stage.wait_running("large", limit_s=3)
        with pytest.raises(StageError, match=r"large, container main: was not created yet"):
            await stage.container("large")


class StageWithoutAgents(Stage):
    """A cluster on which other device plugins serve the nodes."""

    agent_vendors = ()


async def test_pods_of_a_vendor_without_node_side_run_in_turn(short_folder):
    """For a vendor without a node side, the stage acts as its device plugin and so frees the node for the next pod."""
    manifest = yaml.safe_load(ASCEND.read_text())
    node = StageNode("a", annotations=manifest["metadata"]["annotations"], capacity=manifest["status"]["capacity"])
    async with StageWithoutAgents(short_folder / "a", [node], vendors=["ascend"]) as stage:
        family = next(f for f in stage.loaded.families.values() if f.register_key in node.annotations)
        limits = {family.resources.count: 1, family.resources.memory: 1024}
        for name in ("first", "second"):
            pod = acme.pod(name, 1)
            pod["spec"]["containers"][0]["resources"] = {"limits": limits}
            await stage.submit(pod)
        for name in ("first", "second"):
            pod = await stage.wait_running(name)
            assert pod["metadata"]["annotations"][family.allocated_key]


async def test_vendor_that_is_not_installed_is_refused_by_name(short_folder):
    with pytest.raises(ConfigError, match=r"acmee.*acme"):
        async with Stage(short_folder / "x", [StageNode("n")], vendors=["acmee"]):
            pass


async def test_node_without_devices_fails_with_the_node_sides_error(short_folder):
    with pytest.raises(StageError, match=r"agent:n: devices can't be discovered.*/nowhere does not exist"):
        async with Stage(short_folder / "y", [StageNode("n", env={"HAMI_ACME_SYSFS": "/nowhere"})], vendors=["acme"]):
            pass


async def test_vendor_without_node_side_fails_without_annotated_nodes(short_folder):
    with pytest.raises(ConfigError, match=r"ascend: has no node side.*node n .*annotations"):
        async with StageWithoutAgents(short_folder / "z", [StageNode("n")], vendors=["ascend"]):
            pass
