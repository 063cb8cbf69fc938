"""The node side: it discovers devices, advertises them to the scheduler side, and allocates them to containers."""

# ruff: noqa: S101 - these are tests
from __future__ import annotations

import os
import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from hami_core.model import ContainerEdits, ContainerKind, ContainerRef
from hami_core.plugins.examine import illegal_keys
from hami_core.testing.scheduling import facts
from hami_core.testing.suites.case import VendorCase

if TYPE_CHECKING:
    from hami_core.plugins.vendor import LoadedVendor
    from hami_core.testing.node_run import NodeRun

_SLOT = re.compile(r"(?P<device>.+)-\d+")
_ENV = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FORBIDDEN = ("/proc", "/sys/fs/cgroup", "/var/run/docker.sock", "/run/containerd", "/var/lib/kubelet")
_FACTS = ("index", "slots", "memory_mib", "cores", "type", "family")
"""What a device's register must keep."""
_HOOKS = {"prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"}


class AllocateSuite(VendorCase):
    """Tests of the node side. They need the fixture ``node_side``."""

    def test_devices_are_discovered(self, node_loaded: LoadedVendor) -> None:
        """`discover` finds at least one device here. A second call finds the same devices."""
        devices = node_loaded.discover()
        assert devices, "discover finds no device here"
        again = node_loaded.discover()
        assert again == devices, f"discover finds {devices}, then {again}"

    def test_scheduler_reads_back_what_the_node_advertises(self, node_run: NodeRun) -> None:
        """From the annotations and capacity of `advertise`, `register` reads the devices that `discover` found."""
        devices, registered = node_run.loaded.discover(), node_run.registered()
        ids, read = [device.id for device in devices], [device.id for device in registered]
        assert read == ids, f"register reads the devices {read}, discover says {ids}"
        for device, got in zip(devices, registered, strict=True):
            for fact in _FACTS:
                says, reads = getattr(device, fact), getattr(got, fact)
                assert reads == says, f"register reads {fact}={reads!r} for {device.id}, discover says {says!r}"

    def test_slots_are_named_after_their_device(self, node_loaded: LoadedVendor) -> None:
        """Slot ids have HAMi's form ``<uuid>-<k>``. Each device has as many ids as slots."""
        devices = node_loaded.discover()
        said = node_loaded.advertise(devices)
        assert not illegal_keys((*said.annotations, *said.labels)), "advertise: illegal keys of annotations or labels"
        counts = {family.word: family.resources.count for family in node_loaded.families}
        for device in devices:
            resource = counts[device.family]
            assert resource in said.slots, f"advertise offers no slots of {resource}, the resource of {device.id}"
            have = sum(_owner(slot) == device.id for slot in said.slots[resource])
            assert have == device.slots, f"advertise offers {have} slots of {device.id}, discover says {device.slots}"

    def test_unhealthy_device_has_unhealthy_slots(self, node_loaded: LoadedVendor) -> None:
        """`advertise` passes the health of each device on to the kubelet and to the scheduler, and to no other."""
        devices = node_loaded.discover()
        for one in devices:
            health = {device.id: device.healthy and device is not one for device in devices}
            said = node_loaded.advertise([replace(device, healthy=health[device.id]) for device in devices])
            for slot, (healthy, _) in [pair for slots in said.slots.values() for pair in slots.items()]:
                expected = health.get(_owner(slot), healthy)
                assert healthy == expected, f"slot {slot} is healthy={healthy} while {one.id} is unhealthy"
            for device in node_loaded.register(facts(said)) or ():
                assert device.healthy == health[device.id], f"register reads {device.id} as healthy={device.healthy}"

    def test_allocate_serves_what_the_scheduler_books(self, node_run: NodeRun) -> None:
        """Every pod that the scheduler places gets its devices. `allocate` reads the slices from its annotations."""
        for given in node_run.containers():
            assert node_run.allocate(given) != ContainerEdits(), f"allocate gives nothing for {given.slices}"

    def test_allocate_answers_the_same_again(self, node_run: NodeRun) -> None:
        """The agent repeats `allocate` after a crash, a reboot or an upgrade. A running container must not change."""
        for given in node_run.containers():
            assert node_run.allocate(given) == node_run.allocate(given)

    def test_container_gets_each_of_its_devices(self, node_run: NodeRun) -> None:
        """A container with two devices gets both. So `allocate` answers otherwise for any one of them alone."""
        containers = node_run.several()
        if not containers:
            pytest.skip("no container gets two devices here")
        for given in containers:
            together = node_run.allocate(given)
            node_run.release_all()
            for piece in given.slices:
                alone = node_run.allocate(replace(given, slices=(piece,)))
                node_run.release_all()
                assert alone != together, f"allocate gives the same for {given.slices} and for {piece} alone"

    def test_annotations_of_the_pod_grant_nothing(self, node_run: NodeRun) -> None:
        """Tenants may edit annotations. Only the slices say which devices, and how much of them, a container gets."""
        keys = {key for family in node_run.loaded.families for key in family.pod_keys}
        if not keys:
            pytest.skip("no family declares pod_keys, so allocate sees no annotations")
        for own, other in node_run.unequal():
            entitled = _facts(node_run.allocate(own))
            node_run.release_all()
            foreign = _facts(node_run.allocate(other)) - entitled
            node_run.release_all()
            texts = {*other.devices, *(str(piece.memory_mib) for piece in other.slices), "0", "100", "true", "none"}
            for claim in [other.container.annotations, *(dict.fromkeys(keys, text) for text in sorted(texts))]:
                try:
                    got = node_run.allocate(replace(own, container=replace(own.container, annotations=dict(claim))))
                except AssertionError:
                    continue  # a refusal grants nothing
                finally:
                    node_run.release_all()
                gained = _facts(got) & foreign
                assert not gained, f"allocate for {own.slices} with annotations {dict(claim)} grants {sorted(gained)}"

    def test_edits_are_well_formed_and_keep_off_the_host(self, node_run: NodeRun) -> None:
        """Paths are absolute and names legal. No file of kubelet, runtime or the kernel's controls is mounted."""
        for given in node_run.containers():
            edits = node_run.allocate(given)
            for name in edits.env:
                assert _ENV.fullmatch(name), f"allocate: {name!r} is no name of an environment variable"
            for mount in edits.mounts:
                host = os.path.normpath(mount.host_path)
                assert mount.host_path.startswith("/"), f"allocate: host path of {mount} is not absolute"
                assert mount.container_path.startswith("/"), (
                    f"allocate: container_path of {mount} does not begin with /"
                )
                assert host != "/", f"allocate: {mount} mounts the host's root"
                assert not host.startswith(_FORBIDDEN), f"allocate: {mount} mounts one of {', '.join(_FORBIDDEN)}"
            for node in edits.device_nodes:
                assert node.path.startswith("/dev/"), f"allocate: path of {node} is not below /dev"
                assert set(node.permissions) <= set("rwm"), f"allocate: permissions of {node} are not of r, w and m"
            for hook in edits.hooks:
                assert hook.name in _HOOKS, f"allocate: {hook.name!r} is no CDI hook ({', '.join(sorted(_HOOKS))})"
                assert hook.path.startswith("/"), f"allocate: path of {hook} is not absolute"

    def test_hooks_of_the_node_print_and_change_nothing(
        self, node_run: NodeRun, capfd: pytest.CaptureFixture[str]
    ) -> None:
        """The agent's output is its log, so hooks must not print. Other calls share their arguments."""
        node_loaded, containers = node_run.loaded, node_run.containers()
        devices = node_loaded.discover()
        calls: list[tuple[str, partial[Any]]] = [
            ("discover", partial(node_loaded.discover)),
            ("advertise", partial(node_loaded.advertise, list(devices))),
            ("health", partial(node_loaded.health, list(devices))),
            ("tend", partial(node_loaded.tend, {}, {}, {})),
            ("metrics", partial(node_loaded.metrics, {}, {})),
            *[("allocate", partial(node_loaded.allocate, given.slices, given.container)) for given in containers],
            *[("release", partial(node_loaded.release, given.container)) for given in containers],
        ]
        for hook, call in calls:
            capfd.readouterr()
            before = repr(call.args)
            with capture_logs():
                call()
            assert repr(call.args) == before, f"{hook} changes its arguments"
            out, err = capfd.readouterr()
            assert not out + err, f"{hook} prints {(out + err).splitlines()[0]!r}"

    def test_release_may_be_repeated(self, node_loaded: LoadedVendor) -> None:
        """`release` may be called twice, and for a container that never got anything."""
        container = _container()
        for _ in range(2):
            node_loaded.release(container)

    def test_tending_nothing_is_fine(self, node_loaded: LoadedVendor) -> None:
        """`tend` may be called without any container."""
        node_loaded.tend({}, {}, {})

    def test_health_and_metrics_speak_of_known_devices(self, node_loaded: LoadedVendor) -> None:
        """`health` answers only for the given devices. Names of samples are legal for Prometheus."""
        devices = node_loaded.discover()
        assert {change.device_id for change in node_loaded.health(devices)} <= {device.id for device in devices}
        for sample in node_loaded.metrics({}, {}):
            assert re.fullmatch(r"[a-zA-Z_:][a-zA-Z0-9_:]*", sample.name), sample


def _container() -> ContainerRef:
    return ContainerRef("3f1c1b5e-0000-4000-8000-000000000001", "default", "pod", "main", ContainerKind.APP, {}, {})


def _owner(slot: str) -> str:
    """Id of the device that a slot belongs to."""
    match = _SLOT.fullmatch(slot)
    return match["device"] if match else slot


def _facts(edits: ContainerEdits) -> set[tuple[str, ...]]:
    """What a container gets, in comparable parts."""
    return {
        *(("env", name, value) for name, value in edits.env.items()),
        *(("mount", mount.host_path, mount.container_path) for mount in edits.mounts),
        *(("device", node.path, node.host_path) for node in edits.device_nodes),
        *(("limits", name, repr(content)) for name, content in edits.limits.items()),
    }
