"""Resources that the kubelet hands out by itself, such as MIG instances that an administrator made.

Pods of any scheduler may ask for them. Nobody books them, so a container gets the slots that the kubelet picked, and
Allocate answers at once. There is no record. Each slot has a CDI spec that depends on nothing else, so after a restart
of the agent or a reboot the same specs are written again.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import structlog

from hami_core.agent import cdi
from hami_core.agent.kubelet import Refused
from hami_core.agent.proto import deviceplugin_pb2 as api

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hami_core.agent.cdi import SpecFolder
    from hami_core.model import NativeSlot

log = structlog.get_logger(__name__)

_CLASS: Final = "native"


class NativeSlots:
    """The native slots of one vendor; answers the kubelet (`hami_core.agent.kubelet.Binder`).

    Args:
        vendor: The vendor's name.
        specs: The CDI folder.
        is_serial: Returns whether the node's runtime has no CDI.
    """

    def __init__(self, vendor: str, specs: SpecFolder, is_serial: Callable[[], bool]) -> None:
        self._kind = cdi.kind_of(vendor, _CLASS)
        self._specs = specs
        self._is_serial = is_serial
        self._slots: dict[tuple[str, str], NativeSlot] = {}
        self._written: dict[str, bytes] | None = None

    def offer(self, native: Mapping[str, Mapping[str, NativeSlot]]) -> None:
        """Write the specs of these slots, and remove those of all others.

        Args:
            native: Slots by id, by resource.

        Raises:
            OSError: The CDI folder can't be written. The slots before stay.
        """
        slots = {(resource, slot): one for resource, own in native.items() for slot, one in own.items()}
        wanted = {(name := _name(*key)): cdi.spec(self._kind, name, one.edits, ()) for key, one in slots.items()}
        # At the first call specs of an earlier agent may be there.
        before = self._specs.names_of(self._kind) if self._written is None else self._written.keys()
        for name in before - wanted.keys():
            self._specs.remove(name)
        present = self._specs.names() if wanted else frozenset()
        for name, data in wanted.items():
            if name not in present or (self._written or {}).get(name) != data:
                self._specs.write(name, data)
        self._slots, self._written = slots, wanted

    async def allocate(self, resource: str, slot_ids: Sequence[str]) -> api.ContainerAllocateResponse:
        """The slots themselves: their CDI names, or in `serial` mode what is in them.

        Raises:
            Refused: A slot is not offered any more.
        """
        answer = api.ContainerAllocateResponse()
        for slot in self._offered(resource, slot_ids):
            if not self._is_serial():
                answer.cdi_devices.add(name=cdi.qualified(self._kind, _name(resource, slot)))
                continue
            edits = self._slots[resource, slot].edits
            answer.envs.update(edits.env)
            for mount in edits.mounts:
                if all(mount.container_path != one.container_path for one in answer.mounts):
                    answer.mounts.add(
                        container_path=mount.container_path, host_path=mount.host_path, read_only=mount.read_only
                    )
            for node in edits.device_nodes:
                if all(node.path != one.container_path for one in answer.devices):
                    answer.devices.add(
                        container_path=node.path, host_path=node.host_path or node.path, permissions=node.permissions
                    )
        return answer

    async def prestart(self, resource: str, slot_ids: Sequence[str]) -> None:
        """Refuse a container whose slot is gone, with a reason for its owner.

        Raises:
            Refused: A slot is not offered any more.
        """
        self._offered(resource, slot_ids)

    def _offered(self, resource: str, slot_ids: Sequence[str]) -> Sequence[str]:
        gone = sorted(slot for slot in slot_ids if (resource, slot) not in self._slots)
        if gone:
            raise Refused(f"{resource} {', '.join(gone)} is not on this node any more; delete the pod")
        return slot_ids


def _name(resource: str, slot: str) -> str:
    """The CDI name of a slot. It is a digest, since a resource may have characters that CDI names can't have."""
    return hashlib.sha256(f"{resource}/{slot}".encode()).hexdigest()[:32]
