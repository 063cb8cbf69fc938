"""Node labels as NVIDIA's GPU feature discovery (GFD) writes them, for clusters without GFD. Pure.

`hami_nvidia.feature_node` reads the facts. Names and values are those of GFD (NVIDIA/k8s-device-plugin, internal/lm),
with these differences: a shared card's product has no suffix ``-SHARED``, because GFD beside HAMi writes none either;
of several models, GFD takes any, and we take the one with most cards; the labels describe cards also where the MIG
strategy is ``single``, since that allows several profiles here; there are no labels of NVIDIA vGPU.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PREFIX: Final = "nvidia.com/"
GFD_MARK: Final = "nvidia.com/gfd.timestamp"
"""A running GFD writes this label, unless it runs with --no-timestamp."""
OWN_MARK: Final = "hami.io/nvidia-feature-labels"
"""Says that the agent wrote the labels, so that it may remove them, also after a restart with other settings."""
_OURS: Final = re.compile(
    r"nvidia\.com/("
    r"gpu\.(product|count|replicas|sharing-strategy|memory|family|compute\.major|compute\.minor|mode|machine|clique)"
    r"|cuda\.(driver-version\.(major|minor|revision|full)|runtime-version\.(major|minor|full))"
    r"|cuda\.(driver\.(major|minor|rev)|runtime\.(major|minor))"
    r"|mig\.(capable|strategy)|mps\.capable"
    r"|mig-[0-9a-z.]+\.(product|count|replicas|sharing-strategy))"
)
_MODES: Final = {"0x030000": "graphics", "0x030200": "compute"}
"""PCI class of a card → value of gpu.mode."""
_SHARING: Final = {"hami-core": "time-slicing", "mps": "mps"}
"""A card's mode → how several containers share it. MIG instances are not shared."""
_FAMILIES: Final = {
    1: "tesla",
    2: "fermi",
    3: "kepler",
    5: "maxwell",
    6: "pascal",
    9: "hopper",
    10: "blackwell",
    12: "blackwell",
    13: "rubin",
}
_MOST_CHARACTERS: Final = 63


@dataclass(frozen=True, slots=True)
class CardFacts:
    """What the labels say of one card.

    Attributes:
        product: Its name, as NVML gives it.
        memory_mib: Its memory; None if NVML does not say.
        slots: How many containers may share it; 0: only its MIG instances are offered, as resources of their own.
        mode: How they share it: ``hami-core``, ``mig``, ``mps`` or ``native``.
        capability: CUDA compute capability, major and minor; None if NVML does not say.
        mig_capable: It has MIG mode, on or off.
        pci_class: PCI class, such as ``0x030200``; empty if unknown.
        clique: NVLink fabric: UUID of the cluster and id of the clique; None: not attached to one.
    """

    product: str
    memory_mib: int | None
    slots: int
    mode: str
    capability: tuple[int, int] | None = None
    mig_capable: bool = False
    pci_class: str = ""
    clique: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What the labels say of a node.

    Attributes:
        cards: The cards that the agent serves, in NVML's order.
        driver_version: Such as ``550.54.15``.
        cuda_version: Newest CUDA version of the driver, major and minor.
        machine: Model of the machine; empty if unknown.
        mig_strategy: ``none``, ``single`` or ``mixed``.
        instances: Resource, such as ``nvidia.com/mig-1g.5gb``, and product of each MIG instance that is offered as a
            resource of its own.
    """

    cards: Sequence[CardFacts]
    driver_version: str
    cuda_version: tuple[int, int]
    machine: str
    mig_strategy: str = "none"
    instances: Sequence[tuple[str, str]] = ()


def labels_of(node: NodeFacts) -> dict[str, str]:
    """All labels of a node; none if it has no card."""
    if not node.cards:
        return {}
    model = models(node.cards)[0]
    cards = [card for card in node.cards if card.product == model]
    first, slots = cards[0], max(card.slots for card in cards)
    found = {
        "gpu.product": model,
        "gpu.count": len(cards),
        "gpu.replicas": slots,
        "gpu.sharing-strategy": _SHARING.get(first.mode, "none") if slots > 1 else "none",
        "gpu.mode": _MODES.get(first.pci_class, "unknown"),
        "gpu.machine": node.machine or "unknown",
        "mig.capable": str(any(card.mig_capable for card in node.cards)).lower(),
        "mps.capable": str(any(card.mode == "mps" for card in node.cards)).lower(),
        **_versions(node),
        **_instances(node.instances),
    }
    if node.mig_strategy != "none":
        found["mig.strategy"] = node.mig_strategy
    if first.memory_mib:
        found["gpu.memory"] = first.memory_mib
    if first.capability:
        major, minor = first.capability
        found |= {"gpu.family": _family(major, minor), "gpu.compute.major": major, "gpu.compute.minor": minor}
    cliques = {card.clique for card in node.cards if card.clique}
    if len(cliques) == 1:
        found["gpu.clique"] = "{}.{}".format(*cliques.pop())
    return {PREFIX + key: label_value(str(value)) for key, value in found.items()}


def _instances(instances: Sequence[tuple[str, str]]) -> dict[str, str | int]:
    found: dict[str, str | int] = {}
    resources = [resource for resource, _ in instances]
    for resource, product in instances:
        name = resource.rpartition("/")[2]
        found |= {
            f"{name}.product": f"{product} MIG {name.removeprefix('mig-')}",
            f"{name}.count": resources.count(resource),
            f"{name}.replicas": 1,
            f"{name}.sharing-strategy": "none",
        }
    return found


def models(cards: Sequence[CardFacts]) -> list[str]:
    """The models of a node's cards, the most frequent first; of equally frequent ones, that of the first card."""
    names = [card.product for card in cards]
    return sorted(dict.fromkeys(names), key=lambda name: -names.count(name))


def _versions(node: NodeFacts) -> dict[str, str | int]:
    major, minor, revision = (*node.driver_version.split("."), "", "")[:3]
    cuda_major, cuda_minor = node.cuda_version
    return {
        "cuda.driver-version.full": node.driver_version,
        "cuda.driver-version.major": major,
        "cuda.driver-version.minor": minor,
        "cuda.driver-version.revision": revision,
        "cuda.runtime-version.full": f"{cuda_major}.{cuda_minor}",
        "cuda.runtime-version.major": cuda_major,
        "cuda.runtime-version.minor": cuda_minor,
        # Their old names, which GFD still writes.
        "cuda.driver.major": major,
        "cuda.driver.minor": minor,
        "cuda.driver.rev": revision,
        "cuda.runtime.major": cuda_major,
        "cuda.runtime.minor": cuda_minor,
    }


def _family(major: int, minor: int) -> str:
    if major == 7:
        return "volta" if minor < 5 else "turing"
    if major == 8:
        return "ampere" if minor < 9 else "ada-lovelace"
    return _FAMILIES.get(major, "undefined")


def label_value(text: str) -> str:
    """Text as the value of a label: blanks become ``-``, other characters that Kubernetes refuses are left out.

    Example:
        >>> label_value("NVIDIA A100-SXM4 80GB (rev. 2)")
        'NVIDIA-A100-SXM4-80GB-rev.-2'
    """
    joined = "-".join(re.sub(r"[^-A-Za-z0-9_. ]", "", text).split())[:_MOST_CHARACTERS]
    return joined.strip("-_.")


def changes(wanted: Mapping[str, str] | None, there: Mapping[str, str]) -> dict[str, str | None]:
    """The labels to keep on the node, and those to remove (None).

    Args:
        wanted: The labels of the node; None: the setting is off.
        there: The labels that the node has.

    Returns:
        Nothing while GFD writes these labels, except that our mark goes. So GFD's labels stay.
    """
    if GFD_MARK in there:
        return {OWN_MARK: None} if OWN_MARK in there else {}
    stale = [key for key in there if key == OWN_MARK or _OURS.fullmatch(key)] if OWN_MARK in there else []
    return {**dict.fromkeys(stale), **({**wanted, OWN_MARK: "true"} if wanted else {})}
