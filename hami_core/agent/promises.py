"""Makes a container's record from its pod's allocation, after checking it against the pod and the kubelet's slots."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hami_core.agent.judge import covering_mount, is_whole
from hami_core.agent.kubelet import Refused, card_of
from hami_core.agent.records import Record
from hami_core.agent.serial import overriding_variables

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hami_core.agent.authority import Authority
    from hami_core.agent.counters import Counters
    from hami_core.agent.identity import Entry
    from hami_core.agent.judge import Claim
    from hami_core.agent.serial import SerialFolders
    from hami_core.agent.vendor import Vendor
    from hami_core.kube.objects import Pod
    from hami_core.model import Device


class Promises:
    """Makes records from allocations.

    Args:
        vendors: Vendor by resource.
        authority: Reads and verifies allocations.
        folders: The folders that Allocate mounts in serial mode.
        devices: Every device of the node by id, as last discovered.
        counters: Counts containers whose slots belong to other cards than booked.
        now: Unix seconds.
    """

    def __init__(
        self,
        *,
        vendors: Mapping[str, Vendor],
        authority: Authority,
        folders: SerialFolders,
        devices: Mapping[str, Device],
        counters: Counters,
        now: Callable[[], float],
    ) -> None:
        self._vendors = vendors
        self._authority = authority
        self._folders = folders
        self._devices = devices
        self._counters = counters
        self._now = now

    def slot_users(self, pod: Pod) -> tuple[set[tuple[str, str]], bool]:
        """The containers of a pod for which the kubelet asks us for slots, as (container, resource).

        They come from the allocation. If there is no valid one, they are the containers with limits of our resources.

        Returns:
            The containers, and whether they come from the allocation.
        """
        try:
            claim = self._authority.claim(pod)
        except Refused:
            named = [(c.name, resource) for _, c in pod.containers() for resource in c.resources.limits]
            return {(name, resource) for name, resource in named if resource in self._vendors}, False
        held = {
            (container.name, resource)
            for container in claim.containers
            for resource, vendor in self._vendors.items()
            if any(s.family in vendor.families_of(resource) for s in container.slices)
        }
        return held, True

    def record(self, pod: Pod, claim: Claim, entry: Entry, name: str, holders: Sequence[Claim]) -> Record:
        """The record of one container.

        Args:
            pod: Its pod.
            claim: What the pod was promised.
            entry: What the kubelet gave the container. In serial mode, at Allocate, an entry without mounts.
            name: The name that Allocate gave.
            holders: The claims that occupy cards of this node.

        Raises:
            Refused: The container must not get its slices; the text says why.
        """
        vendor = self._vendors[entry.resource]
        words = vendor.families_of(entry.resource)
        found = [
            (kind, spec, own)
            for (kind, spec), own in zip(pod.containers(), claim.containers, strict=True)
            if spec.name == entry.container
        ]
        if not found:
            raise Refused(f"the pod has no container {entry.container}")
        kind, spec, own = found[0]
        if spec.is_privileged:
            raise Refused("it is privileged and would see every device; remove securityContext.privileged")
        # Only serial mode makes records before the checkpoint has the container.
        serial = not (entry.names or entry.mounts) or self._folders.name_of(entry) == name
        if serial and (names := overriding_variables(spec, vendor.default_env)):
            raise Refused(
                f"its variable {names[0]} would override the agent's, since the runtime has no CDI; remove it from env"
            )
        if path := covering_mount(spec):
            raise Refused(f"it mounts a volume at {path}, over files that limit it; mount the volume elsewhere")
        slices = tuple(s for s in own.slices if s.family in words)
        if len(slices) != len(entry.slot_ids):
            raise Refused(
                f"the kubelet gave it {len(entry.slot_ids)} slots of {entry.resource}, its allocation has {len(slices)}"
            )
        booked = sorted(s.device_id for s in slices)
        if all(entry.slot_ids) and sorted(card_of(slot) for slot in entry.slot_ids) != booked:
            self._counters.slot_card_mismatches += 1
        declared = {key for word in words for key in vendor.families[word].pod_keys}
        return Record(
            name=name,
            vendor=vendor.name,
            resource=entry.resource,
            pod_uid=pod.uid,
            namespace=pod.metadata.namespace,
            pod=pod.metadata.name,
            container=entry.container,
            kind=kind,
            slot_ids=entry.slot_ids,
            slices=slices,
            pod_slices=claim.containers,
            epoch=claim.epoch,
            signature=claim.signature,
            # Serial mode has no spec as a barrier. Until the limits are written, the interposer must deny everything,
            # so every container gets an interposer, even one with whole devices.
            whole=not serial and is_whole(slices, claim, holders, self._devices),
            limits={key: str(value) for key, value in {**spec.resources.requests, **spec.resources.limits}.items()},
            annotations={k: v for k, v in pod.metadata.annotations.items() if k in declared},
            created=self._now(),
            serial=serial,
            marked=not serial,
        )
