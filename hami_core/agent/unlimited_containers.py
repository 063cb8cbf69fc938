"""Handles containers that run without the devices and limits of their CDI specs.

Each of them gets an event, or its pod is deleted. The first one also switches the agent to serial mode, if allowed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from hami_core.agent.cdi_check import container_id
from hami_core.wire import keys

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hami_core.agent.cdi_check import CdiCheck
    from hami_core.agent.pod_actions import PodActions
    from hami_core.agent.pods import PodIndex
    from hami_core.agent.reconcile import Reconciler
    from hami_core.agent.registration import NodeWriter
    from hami_core.agent.serial import NoCdiMarker

log = structlog.get_logger(__name__)


class UnlimitedContainers:
    """Acts on the containers that `CdiCheck` finds.

    Args:
        cdi_check: Finds the containers.
        vendors: Names of the vendors that this agent serves.
        core: Has the records, and is switched to serial mode.
        pods: This node's pods.
        actions: Writes events and deletes pods.
        node: Writes the node's mode.
        no_cdi: Stores that CDI does not work on this node; None: never switch to serial mode.
        evict: Delete the pods instead of only warning.
    """

    def __init__(
        self,
        *,
        cdi_check: CdiCheck,
        vendors: Iterable[str],
        core: Reconciler,
        pods: PodIndex,
        actions: PodActions,
        node: NodeWriter,
        no_cdi: NoCdiMarker | None,
        evict: bool,
    ) -> None:
        self._cdi_check = cdi_check
        self._vendors = tuple(vendors)
        self._core = core
        self._pods = pods
        self._actions = actions
        self._node = node
        self._no_cdi = no_cdi
        self._evict = evict

    async def check(self) -> None:
        """Check all running containers once."""
        running = []
        for record in self._core.records.values():
            pod = self._pods.get(record.pod_uid)
            if pod is not None:
                running.append((record, container_id(pod, record.container)))
        for record in await asyncio.to_thread(self._cdi_check.find_unlimited, running):
            pod = self._pods.get(record.pod_uid)
            if pod is None:
                continue
            what = f"container {record.container} runs without its devices and limits"
            text = f"{what}: the runtime ignored its CDI name; is CDI enabled?"
            if self._evict:
                self._actions.evict(pod, text)
            else:
                self._actions.warn(pod, "DevicesUnlimited", text)
            if self._no_cdi is not None and not self._core.serial:
                log.warning("the runtime does not support CDI; switching to serial mode")
                await asyncio.to_thread(self._no_cdi.set)
                self._core.serial = True
                self._node.want({keys.agent_mode(vendor): keys.MODE_SERIAL for vendor in self._vendors}, {})
