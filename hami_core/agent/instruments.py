"""The agent's own metrics: its counters, its containers and the states of its devices."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hami_core.wire import keys
from hami_core.wire.node import decode_cordon

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hami_core.agent.cdi_check import CdiCheck
    from hami_core.agent.health import HealthTracker
    from hami_core.agent.pod_actions import PodActions
    from hami_core.agent.reconcile import Reconciler
    from hami_core.agent.registration import NodeWriter
    from hami_core.model import Device
    from hami_core.observe.metrics import Row


class Instruments:
    """Reads the agent's parts at each scrape.

    Args:
        node: The writer of the node object.
        core: Has the containers and counters.
        actions: Counts evictions.
        cdi_check: Knows the containers that run without their limits.
        discovered: Devices by vendor name, as last discovered.
        trackers: The devices' health by vendor name.
        failures: Returns the number of failed hook calls by plugin and hook.
    """

    def __init__(
        self,
        *,
        node: NodeWriter,
        core: Reconciler,
        actions: PodActions,
        cdi_check: CdiCheck,
        discovered: Mapping[str, tuple[Device, ...]],
        trackers: Mapping[str, HealthTracker],
        failures: Callable[[], Mapping[tuple[str, str], int]],
    ) -> None:
        self._node = node
        self._core = core
        self._actions = actions
        self._cdi_check = cdi_check
        self._discovered = discovered
        self._trackers = trackers
        self._failures = failures

    def rows(self) -> Iterable[Row]:
        """One row for each sample of the table `hami_core.observe.metrics.AGENT`."""
        node = {"node": self._node.name}
        counters = self._core.counters
        yield "hami_agent_allocations_total", node, float(counters.allocations)
        yield "hami_agent_prestarts_total", node, float(counters.prestarts)
        yield "hami_agent_refusals_total", node, float(counters.refusals)
        yield "hami_agent_checkpoint_nudges_total", node, float(counters.nudges)
        yield "hami_agent_specs_written_total", node, float(counters.specs_written)
        yield "hami_agent_names_lost_total", node, float(counters.lost_names)
        yield "hami_slot_card_mismatches_total", node, float(counters.slot_card_mismatches)
        yield "hami_agent_evictions_total", node, float(self._actions.evicted)
        yield "hami_agent_node_writes_total", node, float(self._node.written)
        yield "hami_agent_containers", node, float(len(self._core.records))
        yield "hami_agent_containers_unlimited", node, float(len(self._cdi_check.missing))
        for (plugin, hook), count in self._failures().items():
            yield "hami_agent_plugin_failures_total", {**node, "plugin": plugin, "hook": hook}, float(count)
        for namespace, pod, container, uid in sorted(self._containers()):
            labels = {**node, "namespace": namespace, "pod": pod, "container": container, "pod_uid": uid}
            yield "hami_agent_container_info", labels, 1.0
        yield from self._device_rows(node)

    def _containers(self) -> set[tuple[str, str, str, str]]:
        """Namespace, pod, container and pod UID of each live container with devices. It may have several vendors'."""
        refs = [record.ref for vendor in self._discovered for record in self._core.live(vendor)]
        refs += [ref for vendor in self._discovered for ref in self._core.adopted(vendor).values()]
        return {(ref.namespace, ref.pod, ref.container, ref.pod_uid) for ref in refs}

    def _device_rows(self, node: Mapping[str, str]) -> Iterable[Row]:
        mine = self._node.node
        cordoned = decode_cordon(mine.metadata.annotations.get(keys.DEVICE_CORDON, "") if mine else "")
        for name, devices in self._discovered.items():
            states = self._trackers[name].states_shown(devices, cordoned)
            for device, state in states.items():
                yield "hami_device_state", {**node, "device_uuid": device, "state": state.value}, 1.0
                problem = self._trackers[name].problem(device)
                if problem:
                    yield "hami_device_problem", {**node, "device_uuid": device, "reason": problem}, 1.0
            for kept in devices:
                if kept.not_offered:
                    labels = {**node, "device_uuid": kept.id, "reason": kept.not_offered}
                    yield "hami_device_not_offered", labels, 1.0
            for state, count in Counter(states.values()).items():
                yield "hami_devices", {**node, "vendor": name, "state": state.value}, float(count)
