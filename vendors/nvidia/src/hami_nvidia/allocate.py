"""Builds the edits of one container from its slices, the cards, the driver's files and the options. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hami_interpose.limits import CorePolicy, DeviceLimit, Limits, LimitsError, Mode, encode
from hami_interpose.region import initial

from hami_core import ContainerEdits, DeviceError, Mount, RequestError
from hami_core.vendorkit.node import LIMITS_DIR, PRELOAD_PATH, REGION_DIR, VGPU_ROOT
from hami_nvidia.driver import device_node
from hami_nvidia.regions import REGION_FILE
from hami_nvidia.request import CORE_POLICY, VISIBLE_DEVICES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from hami_core import ContainerRef, DeviceNode, Slice
    from hami_nvidia.driver import DriverFiles
    from hami_nvidia.nvml import Card
    from hami_nvidia.settings import NodeOptions

MIB: Final = 1 << 20
LIMITS_FILE: Final = "limits"
LIBRARY_PATH: Final = f"{VGPU_ROOT}/libvgpu.so"
TURNS_DIR: Final = f"{VGPU_ROOT}/turns"
PRELOAD: Final = f"{LIBRARY_PATH}\n".encode()
"""Content of the container's /etc/ld.so.preload."""
HIDDEN: Final = {VISIBLE_DEVICES: "void"}
"""Prevents NVIDIA's runtime, if it is the default one, from adding every card."""


@dataclass(frozen=True, slots=True)
class Interposer:
    """Host paths of the interposer's files.

    Attributes:
        library: libvgpu.so, under a name made of its content.
        preload: The container's /etc/ld.so.preload.
    """

    library: Path
    preload: Path


def edits(
    held: Sequence[Slice],
    limits: Limits | None,
    *,
    cards: Mapping[str, Card],
    driver: DriverFiles,
    control: Sequence[DeviceNode],
    interposer: Interposer,
    options: NodeOptions,
    dev_root: Path,
    turn_pages: Mapping[str, Path],
) -> ContainerEdits:
    """Build the edits of one container.

    Args:
        held: Its slice of each card (`slices_by_device`).
        limits: Its limits on each card (`limits_of`); None: it has whole cards and gets no interposer.
        cards: The node's cards by UUID.
        driver: The driver's files.
        control: Control device nodes.
        interposer: The library and the preload file.
        options: This node's options.
        dev_root: Folder of the device nodes.
        turn_pages: Host paths of turn pages by card. Cards without turns are left out.

    Raises:
        DeviceError: The limits can't be encoded.
    """
    nodes = _card_nodes([cards[s.device_id] for s in held], driver, dev_root)
    common = {n.path: n for n in (*driver.device_nodes, *control)}
    seen = dict(driver.env) | dict(HIDDEN)
    every = (*nodes, *(n for path, n in common.items() if path not in {m.path for m in nodes}))
    if limits is None:
        return ContainerEdits(env=seen, mounts=driver.mounts, device_nodes=every, hooks=driver.hooks)
    try:
        limits_file, region = encode(limits), initial(limits)
    except LimitsError as error:
        raise DeviceError(f"the container can't be limited: {error}") from error
    return ContainerEdits(
        env=seen | _hami_env(held, options),
        mounts=(*driver.mounts, *_interposer_mounts(interposer), *_turn_mounts(limits, turn_pages)),
        device_nodes=every,
        hooks=driver.hooks,
        limits={LIMITS_FILE: limits_file},
        limits_path=LIMITS_DIR,
        region={REGION_FILE: region},
        region_path=REGION_DIR,
    )


def instance_edits(nodes: Sequence[DeviceNode], driver: DriverFiles, control: Sequence[DeviceNode]) -> ContainerEdits:
    """Build the edits of a container with MIG instances.

    Args:
        nodes: Device nodes of its cards and instances.
        driver: The driver's files.
        control: Control device nodes.
    """
    every = {node.path: node for node in (*nodes, *driver.device_nodes, *control)}
    env = dict(driver.env) | dict(HIDDEN)
    return ContainerEdits(env=env, mounts=driver.mounts, device_nodes=tuple(every.values()), hooks=driver.hooks)


def _card_nodes(cards: Sequence[Card], driver: DriverFiles, dev_root: Path) -> tuple[DeviceNode, ...]:
    found: dict[str, DeviceNode] = {}
    for card in cards:
        named = driver.by_card.get(card.uuid) or driver.by_card.get(str(card.index))
        for node in named or (device_node(dev_root, f"nvidia{card.minor}"),):
            found[node.path] = node
    return tuple(found.values())


def _interposer_mounts(interposer: Interposer) -> tuple[Mount, ...]:
    return (
        Mount(str(interposer.library), LIBRARY_PATH),
        Mount(str(interposer.preload), PRELOAD_PATH),
    )


def _turn_mounts(limits: Limits, pages: Mapping[str, Path]) -> tuple[Mount, ...]:
    return tuple(
        Mount(str(pages[device.uuid]), f"{TURNS_DIR}/{device.uuid}", read_only=False)
        for device in limits.devices
        if device.uuid in pages
    )


def limited_cards(limits: Limits) -> tuple[str, ...]:
    """Cards on which a core limit is enforced."""
    if limits.mode is not Mode.ENFORCE or limits.core_policy is CorePolicy.DISABLE:
        return ()
    return tuple(device.uuid for device in limits.devices if 0 < device.cores < 100)


def limits_of(
    held: Sequence[Slice], container: ContainerRef, options: NodeOptions, mode: str, priority_resource: str
) -> Limits | None:
    """A container's limits on each of its cards; None for whole cards, which are not limited.

    Args:
        held: Its slice of each card.
        container: The container.
        options: This node's options.
        mode: ``enforce``, ``observe`` or ``off``.
        priority_resource: Name of the priority resource.

    Raises:
        RequestError: The priority is not a number from 0 to 9.
    """
    if container.whole_devices and options.memory_scaling == 1 and options.core_scaling == 1:
        return None
    devices = tuple(
        DeviceLimit(
            uuid=s.device_id,
            memory_bytes=s.memory_mib * MIB,
            physical_bytes=int(s.memory_mib * MIB / options.memory_scaling),
            cores=0 if s.cores >= 100 else s.cores,
        )
        for s in held
    )
    return Limits(devices, 1, Mode(mode), CorePolicy(options.core_policy), _priority(container, priority_resource))


def in_order(held: Sequence[Slice], cards: Mapping[str, Card]) -> list[Slice]:
    """Slices in the order of their cards, which is NVML's order and CUDA's PCI order.

    The ordinals of cards in the container follow this order.

    Raises:
        DeviceError: A card of a slice is not on this node.
    """
    missing = [s.device_id for s in held if s.device_id not in cards]
    if missing:
        raise DeviceError(f"card {missing[0]} is not on this node or does not answer")
    return sorted(held, key=lambda s: cards[s.device_id].index)


def _priority(container: ContainerRef, resource: str) -> int:
    text = container.limits.get(resource, "") if resource else ""
    if not text:
        return 1
    if not (text.isascii() and text.isdigit() and len(text) == 1):
        raise RequestError(
            f"container {container.container}", resource, f"{text!r} is not a priority", "0 to 9, 0 = high"
        )
    return int(text)


def _hami_env(held: Sequence[Slice], options: NodeOptions) -> dict[str, str]:
    """HAMi's variables, for programs that read them. They have no effect while the limits folder exists."""
    found = {f"CUDA_DEVICE_MEMORY_LIMIT_{i}": f"{s.memory_mib}m" for i, s in enumerate(held) if s.memory_mib}
    found["CUDA_DEVICE_SM_LIMIT"] = str(held[0].cores)
    found["CUDA_DEVICE_MEMORY_SHARED_CACHE"] = f"{REGION_DIR}/{REGION_FILE}"
    if options.memory_scaling > 1:
        found["CUDA_OVERSUBSCRIBE"] = "true"
    if options.log_level != "":
        found["LIBCUDA_LOG_LEVEL"] = str(options.log_level)
    if options.core_policy != "default":
        found[CORE_POLICY] = options.core_policy
    return found
