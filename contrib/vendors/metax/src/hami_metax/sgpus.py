"""sGPUs: the family, requests, the score of a node, and the allocation as MetaX's device plugin reads it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from hami_core import Capability, Family, Grade, Request, RequestError, Resources, SelectorKeys, Support
from hami_core.vendorkit import NODE_LOCK_KEY, amount_of
from hami_metax.gpus import DOCTOR
from hami_metax.memory import MIB_PER_GIB, vmemory_mib
from hami_metax.register import REGISTER_KEY
from hami_metax.sharing import APP_CLASS, LINKED, ONLINE, QOS_POLICY, TOPOLOGY_AWARE, WHOLE, mode_of, words
from hami_metax.topology import link_score, online_score

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hami_core import Allocation, ContainerSpec, DeviceUsage, PodFacts
    from hami_metax.config import MetaxConfig

WORD: Final = "Metax-SGPU"
ALLOCATED: Final = "metax-tech.com/gpu-devices-allocated"
"""Pod annotation for MetaX's device plugin: for each container the cards with percent of compute and MiB."""
PREDICATE_TIME: Final = "metax-tech.com/predicate-time"
"""Pod annotation: when the scheduler decided, in nanoseconds."""
WEIGHT: Final = 10000
"""Links and app classes count more than how full a node is."""


def family(config: MetaxConfig) -> Family:
    """The family of sGPUs with the names of a device-config."""
    return Family(
        word=WORD,
        resources=Resources(config.sgpu, memory=config.vmemory, cores=config.vcore),
        allocated_key="hami.io/metax-sgpu-devices-allocated",
        to_allocate_key="hami.io/metax-sgpu-devices-to-allocate",
        mode_key="hami.io/metax-sgpu-mode-allocated",
        register_key=REGISTER_KEY,
        offered_resource=config.sgpu,
        foreign_lock=NODE_LOCK_KEY,
        pod_keys=(APP_CLASS, QOS_POLICY, TOPOLOGY_AWARE),
        uuid_selectors=(SelectorKeys("metax-tech.com/use-gpuuuid", "metax-tech.com/nouse-gpuuuid"),),
        memory_factor=MIB_PER_GIB,
        full_card_rule=False,  # sharing.no_room has the rule, with the exception for online containers
        choose_is_preference=True,
        doctor=DOCTOR,
        capabilities={
            Capability.SHARING: Grade(Support.FULL),
            Capability.MEMORY_LIMIT: Grade(Support.FULL),
            Capability.CORE_LIMIT: Grade(Support.PARTIAL, "a hard limit only under the QoS policy fixed-share"),
            Capability.UUID_SELECTORS: Grade(Support.FULL),
            Capability.NUMA_BINDING: Grade(Support.FULL),
            Capability.TOPOLOGY: Grade(Support.FULL),
            Capability.QUOTA: Grade(Support.FULL),
        },
    )


def parse(container: ContainerSpec, pod: PodFacts, family: Family, *, topology_aware: bool) -> Request | None:
    """Read the request of a container. Without amounts it gets all memory and all compute of each card.

    Raises:
        RequestError: An amount or an annotation is wrong, or a container with an app class asks for several cards.
    """
    names = family.resources
    count = amount_of(container, names.count)
    if not count:
        return None
    mode = mode_of(pod.annotations, topology_aware=topology_aware)
    if APP_CLASS in pod.annotations and count != 1:
        fix = f"ask for 1, or leave the annotation {APP_CLASS} out"
        raise RequestError(f"container {container.name}", names.count, "app-class pod must request single device", fix)
    cores = amount_of(container, names.cores, maximum=WHOLE)
    memory = vmemory_mib(container, names.memory)
    return Request(
        family=family.word,
        count=count,
        memory_mib=memory,
        memory_percent=None if memory else 100,
        cores=0 if ONLINE in words(mode) else WHOLE if cores is None else cores,
        annotations=pod.annotations,
        mode=mode,
    )


def score(allocation: Allocation, devices: Sequence[DeviceUsage], policy: str) -> float:
    """Rate a node for a pod: by the containers on its cards if the pod is online, by links if it wants linked cards."""
    pieces = [piece for found in allocation.of(WORD) for piece in found]
    mode = words(pieces[0].mode) if pieces else frozenset()
    cards = [usage for usage in devices if usage.device.family == WORD]
    rate = 0
    if ONLINE in mode:
        rate = online_score(cards, frozenset(piece.device_id for piece in pieces))
    elif LINKED in mode and (whole := frozenset(piece.device_id for piece in pieces if piece.cores == WHOLE)):
        rate = link_score(cards, whole)
    return weighted(rate, policy)


def weighted(rate: int, policy: str) -> float:
    """Return what a rate adds to a node's score. Under ``spread`` the smallest score wins, so the sign is turned."""
    return float(-WEIGHT * rate if policy == "spread" else WEIGHT * rate)


def patch(pod: PodFacts, allocation: Allocation) -> Mapping[str, str]:
    """What MetaX's device plugin reads, zeros left out as it writes them; empty without sGPUs."""
    found = allocation.of(WORD)
    if not any(found):
        return {}
    entries = [
        [
            {"uuid": piece.device_id}
            | {key: amount for key, amount in (("compute", piece.cores), ("vRam", piece.memory_mib)) if amount}
            for piece in pieces
        ]
        for pieces in found
    ]
    return {ALLOCATED: json.dumps(entries, separators=(",", ":")), PREDICATE_TIME: str(pod.decided_at_ns)}
