"""Other device plugins on the same node."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from hami_core.agent.proto import deviceplugin_pb2
from tests.e2e.lifecycle import agents, plugins
from tests.e2e.lifecycle.device_plugin import Settings
from tests.e2e.pods import container, pod

if TYPE_CHECKING:
    from tests.e2e.system import System

FOO = "example.com/foo"
SLOTS = ["foo-1", "foo-2", "foo-3"]


def with_foo(body: dict[str, Any], count: int) -> dict[str, Any]:
    """A container that also asks for devices of the other plugin."""
    limits = body["resources"]["limits"] | {FOO: count}
    return body | {"resources": {"limits": limits}}


def foo_of(system: System, uid: str, name: str) -> tuple[set[str], str]:
    """A container's devices of the other plugin: by the kubelet's checkpoint, and by its OCI specification."""
    file = system.bed.root("node1") / "var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
    for entry in json.loads(file.read_bytes())["Data"]["PodDeviceEntries"]:
        if (entry["PodUID"], entry["ContainerName"], entry["ResourceName"]) == (uid, name, FOO):
            slots = {slot for ids in entry["DeviceIDs"].values() for slot in ids}
            answer = deviceplugin_pb2.ContainerAllocateResponse.FromString(base64.b64decode(entry["AllocResp"]))
            seen = system.bed.containers("node1")[uid, name].environment["FOO"]
            assert answer.envs["FOO"] == seen
            return slots, seen
    raise AssertionError(f"no {FOO} for {uid}/{name}")


def test_each_plugin_serves_its_own(tidy: System) -> None:
    """Three containers have devices of both plugins, of ours, and of the other. They survive a restart of our agent."""
    with plugins.running(tidy.bed, "node1", Settings(FOO, SLOTS)):
        tidy.submit(
            pod(
                "mixed",
                with_foo(container("both", 2000), 1),
                container("ours", 3000),
                with_foo(container("theirs", count=0, command=["sleep", "100000"]), 1),
            )
        )
        (now,) = tidy.running("mixed")
        check(tidy, now)
        agents.replace(tidy)
        assert plugins.allocatable(tidy.bed, "node1", FOO) == len(SLOTS)
        tidy.submit(pod("last", with_foo(container(memory=1000), 1)))
        (last,) = tidy.running("last")
        check(tidy, tidy.pod("mixed"))
        assert foo_of(tidy, last["metadata"]["uid"], "main")[0] == set(SLOTS) - foos(tidy, now)
        assert tidy.problems("last") == []
        tidy.submit(pod("none-left", with_foo(container(memory=1000), 1)))
        tidy.bed.wait("a reason", lambda: f"Insufficient {FOO}" in tidy.bed.kubectl("describe", "pod", "none-left"))
    tidy.bed.wait("theirs is gone", lambda: plugins.allocatable(tidy.bed, "node1", FOO) == 0)
    tidy.submit(pod("without", container(memory=1000)))
    tidy.running("without")
    assert tidy.problems("mixed", "without") == [], "the end of the other plugin does not affect ours"


def foos(system: System, now: dict[str, Any]) -> set[str]:
    """All devices of the other plugin in the mixed pod."""
    uid = now["metadata"]["uid"]
    return foo_of(system, uid, "both")[0] | foo_of(system, uid, "theirs")[0]


def check(system: System, now: dict[str, Any]) -> None:
    """Check that every container has its own devices of each plugin."""
    assert system.problems("mixed") == []
    assert len(foos(system, now)) == 2
    uid = now["metadata"]["uid"]
    alone = system.bed.containers("node1")[uid, "theirs"]
    assert not [path for path in alone.devices if "nvidia" in path]
    assert "FOO" not in system.bed.containers("node1")[uid, "ours"].environment
