"""A record says whether its spec has the agent's mark, across upgrades, lost specs and reboots."""

from __future__ import annotations

import shutil

import msgspec
import pytest

from hami_core.agent.records import RecordStore
from hami_core.model import ContainerKind
from hami_core.tests.agent.node import GPU

CARD = "card-00000000"
MARK = f"/.hami/{GPU}"


async def container(node):
    """Start a container once."""
    await node.up()
    await node.registered()
    uid = await node.pod("a", [("main", ContainerKind.APP, [(CARD, 300)])])
    given = await node.kubelet.admit(uid, "main", GPU, 1)
    await node.kubelet.prestart(given)
    return given


def as_an_older_agent_left_it(node, given) -> None:
    """Remove from record and spec what older agents did not write."""
    store = RecordStore(node.state_dir)
    (record,) = store.load().values()
    store.write(msgspec.structs.replace(record, marked=False))
    (store.path / record.id / "mark").unlink()
    (spec,) = node.cdi_dir.glob("*.json")
    whole = msgspec.json.decode(spec.read_bytes())
    edits = whole["devices"][0]["containerEdits"]
    edits["mounts"] = [mount for mount in edits["mounts"] if mount["containerPath"] != MARK]
    spec.write_bytes(msgspec.json.encode(whole))


def sources(node, given) -> dict[str, str]:
    return {mount["containerPath"]: mount["hostPath"] for mount in node.kubelet.create(given)["mounts"]}


@pytest.mark.parametrize("old", [False, True], ids=["with a mark", "an older agent's"])
@pytest.mark.parametrize("specs", ["kept", "lost", "lost in a reboot"])
async def test_spec_and_record_agree_on_the_mark(node, old, specs):
    given = await container(node)
    await node.down()
    if old:
        as_an_older_agent_left_it(node, given)
    if specs != "kept":
        shutil.rmtree(node.cdi_dir)
    agent = await node.up(boot_id="boot-2" if "reboot" in specs else "boot-1")
    await node.kubelet.until(lambda: agent.link.is_connected)
    await node.kubelet.prestart(given)
    store = RecordStore(node.state_dir)
    (record,) = store.load().values()
    found = sources(node, given)
    assert record.marked == (MARK in found) == (not old or "reboot" in specs)
    assert found[MARK if record.marked else "/usr/local/vgpu/limits"].endswith(store.expected_mount(record))
