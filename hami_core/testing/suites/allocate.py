"""The node side: it discovers devices, advertises them to the scheduler side, and allocates them to containers."""

# ruff: noqa: S101 - these are tests
from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from hami_core.model import ContainerKind, ContainerRef, NodeFacts, Slice
from hami_core.plugins.examine import illegal_keys
from hami_core.testing.suites.case import VendorCase

if TYPE_CHECKING:
    import pytest

    from hami_core.model import Device
    from hami_core.plugins.vendor import LoadedVendor

_SLOT = re.compile(r"(?P<device>.+)-\d+")
_ENV = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FORBIDDEN = ("/proc", "/sys/fs/cgroup", "/var/run/docker.sock", "/run/containerd", "/var/lib/kubelet")
_HOOKS = {"prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"}


class AllocateSuite(VendorCase):
    """Tests of the node side. They need the fixture ``node_side``."""

    def test_devices_are_discovered(self, node_loaded: LoadedVendor) -> None:
        """`discover` finds at least one device here. A second call finds the same devices."""
        devices = node_loaded.discover()
        assert devices
        assert node_loaded.discover() == devices

    def test_scheduler_reads_back_what_the_node_advertises(self, node_loaded: LoadedVendor) -> None:
        """From the annotations and capacity of `advertise`, `register` reads the devices that `discover` found."""
        devices = node_loaded.discover()
        said = node_loaded.advertise(devices)
        capacity = {name: str(len(slots)) for name, slots in said.slots.items()}
        found = node_loaded.register(NodeFacts("node", said.annotations, said.labels, capacity, capacity)) or ()
        assert [_essence(device) for device in found] == [_essence(device) for device in devices]

    def test_slots_are_named_after_their_device(self, node_loaded: LoadedVendor) -> None:
        """Slot ids have HAMi's form ``<uuid>-<k>``. Each device has as many ids as slots."""
        devices = node_loaded.discover()
        said = node_loaded.advertise(devices)
        assert not illegal_keys((*said.annotations, *said.labels)), "advertise: illegal keys of annotations or labels"
        counts = {family.resources.count for family in node_loaded.families}
        assert set(said.slots) & counts, f"no slots under any of {sorted(counts)}"
        for resource, slots in said.slots.items():
            owners = [match["device"] if (match := _SLOT.fullmatch(slot)) else slot for slot in slots]
            for device in devices:
                assert owners.count(device.id) == device.slots, f"{resource}: slots of {device.id}"

    def test_unhealthy_device_has_unhealthy_slots(self, node_loaded: LoadedVendor) -> None:
        """`advertise` passes the health of devices on to the kubelet."""
        devices = [replace(device, healthy=False) for device in node_loaded.discover()]
        for slots in node_loaded.advertise(devices).slots.values():
            assert not any(healthy for healthy, _ in slots.values())

    def test_allocate_answers_the_same_again(self, node_loaded: LoadedVendor) -> None:
        """The agent repeats `allocate` after a crash, a reboot or an upgrade. A running container must not change."""
        for device in node_loaded.discover():
            slices = (_slice(device),)
            assert node_loaded.allocate(slices, _container()) == node_loaded.allocate(slices, _container())

    def test_edits_are_well_formed_and_keep_off_the_host(self, node_loaded: LoadedVendor) -> None:
        """Paths are absolute and names legal. No file of kubelet, runtime or the kernel's controls is mounted."""
        for device in node_loaded.discover():
            edits = node_loaded.allocate((_slice(device),), _container())
            for name in edits.env:
                assert _ENV.fullmatch(name), f"environment variable {name!r}"
            for mount in edits.mounts:
                assert mount.host_path.startswith("/"), mount
                assert mount.container_path.startswith("/"), mount
                assert mount.host_path != "/", mount
                assert not mount.host_path.startswith(_FORBIDDEN), mount
            for node in edits.device_nodes:
                assert node.path.startswith("/dev/"), node
                assert set(node.permissions) <= set("rwm"), node
            for hook in edits.hooks:
                assert hook.name in _HOOKS, hook
                assert hook.path.startswith("/"), hook

    def test_hooks_of_the_node_print_and_change_nothing(
        self, node_loaded: LoadedVendor, capfd: pytest.CaptureFixture[str]
    ) -> None:
        """The agent's output is its log, so hooks must not print. Other calls share their arguments."""
        devices = node_loaded.discover()
        container = _container()
        calls: list[tuple[str, partial[Any]]] = [
            ("discover", partial(node_loaded.discover)),
            ("advertise", partial(node_loaded.advertise, list(devices))),
            ("health", partial(node_loaded.health, list(devices))),
            ("release", partial(node_loaded.release, container)),
            ("tend", partial(node_loaded.tend, {}, {}, {})),
            ("metrics", partial(node_loaded.metrics, {}, {})),
            *[("allocate", partial(node_loaded.allocate, (_slice(device),), container)) for device in devices],
        ]
        for hook, call in calls:
            capfd.readouterr()
            before = repr(call.args)
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


def _slice(device: Device) -> Slice:
    return Slice(device.id, device.family, device.memory_mib // 2, 0, device.family, device.mode, index=device.index)


def _essence(device: Device) -> tuple[object, ...]:
    return device.id, device.index, device.slots, device.memory_mib, device.cores, device.type, device.family
