"""What the agent itself measures for its ``/metrics``: its counters, its containers, its devices' states."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hami_core.model import Sample
from hami_core.wire import keys
from hami_core.wire.node import decode_cordon

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hami_core.agent.health import HealthBook
    from hami_core.agent.notes import PodNotes
    from hami_core.agent.proof import Prover
    from hami_core.agent.reconcile import Reconciler
    from hami_core.agent.registration import NodeWriter
    from hami_core.model import Device


class Instruments:
    """Reads the agent's parts whenever its metrics are scraped.

    Args:
        node: Writes the node object.
        core: Containers and counters.
        notes: What pods were told.
        prover: Containers that run without their limits.
        discovered: Devices by vendor name, as last discovered.
        books: Their health, by vendor name.
        failures: Calls of hooks that failed, by plugin and hook.
    """

    def __init__(
        self,
        *,
        node: NodeWriter,
        core: Reconciler,
        notes: PodNotes,
        prover: Prover,
        discovered: Mapping[str, tuple[Device, ...]],
        books: Mapping[str, HealthBook],
        failures: Callable[[], Mapping[tuple[str, str], int]],
    ) -> None:
        self._node = node
        self._core = core
        self._notes = notes
        self._prover = prover
        self._discovered = discovered
        self._books = books
        self._failures = failures

    def samples(self) -> Iterable[Sample]:
        """What the agent has counted and what it knows now."""
        node = {"node": self._node.name}
        c = self._core.counters
        for name, value, text in (
            ("hami_agent_allocations", c.allocations, "Containers the kubelet asked a name for"),
            ("hami_agent_prestarts", c.prestarts, "PreStartContainer calls"),
            ("hami_agent_refusals", c.refusals, "PreStartContainer calls refused"),
            ("hami_agent_checkpoint_nudges", c.nudges, "Times the kubelet was made to write its checkpoint again"),
            ("hami_agent_specs_written", c.specs_written, "CDI specs written"),
            ("hami_agent_names_lost", c.lost_names, "Names given for containers that never came to be"),
            (
                "hami_slot_card_mismatch",
                c.slot_card_mismatches,
                "Containers whose slots are of other cards than booked",
            ),
            ("hami_agent_evictions", self._notes.evicted, "Pods deleted by the agent"),
            (
                "hami_agent_containers_unlimited",
                len(self._prover.missing),
                "Containers that run without what they were given",
            ),
            ("hami_agent_containers", len(self._core.records), "Containers with devices on this node"),
            ("hami_agent_node_writes", self._node.written, "Times the node object was written"),
        ):
            yield Sample(name, node, float(value), text)
        for (plugin, hook), count in self._failures().items():
            labels = {**node, "plugin": plugin, "hook": hook}
            yield Sample("hami_plugin_failures", labels, float(count), "Calls of a hook that failed since the start")
        yield from self._device_samples(node)

    def _device_samples(self, node: Mapping[str, str]) -> Iterable[Sample]:
        mine = self._node.node
        cordoned = decode_cordon(mine.metadata.annotations.get(keys.DEVICE_CORDON, "") if mine else "")
        for name, devices in self._discovered.items():
            states = self._books[name].shown(devices, cordoned)
            for device, state in states.items():
                labels = {**node, "device_uuid": device, "state": state.value}
                yield Sample("hami_device_state", labels, 1.0, "1 for the state each device is in")
            for kept in devices:
                if kept.not_offered:
                    labels = {**node, "device_uuid": kept.id, "reason": kept.not_offered}
                    yield Sample("hami_device_not_offered", labels, 1.0, "1 for each device that is kept from pods")
            for state, count in Counter(states.values()).items():
                labels = {**node, "vendor": name, "state": state.value}
                yield Sample("hami_devices", labels, float(count), "Devices by state")
