"""Says which nodes with an NVIDIA device this agent can't share, and why: Tegra (Jetson) and WSL.

Such a node has no card that NVML describes as a card of its own. `hami_nvidia.node` registers one device in its place
that is not offered. So the reason reaches the node's events, the metrics and the pods that find no place, and the
agent neither ends nor waits. The marks are those of NVIDIA's plugin (go-nvlib, ``pkg/nvlib/info``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hami_nvidia.driver_places import Places
    from hami_nvidia.settings import NodeSettings

TEGRA: Final = "tegra"
WSL: Final = "wsl"
_INTEGRATED: Final = "(nvgpu)"
"""Part of the NVML name of a Tegra's integrated GPU, such as ``Orin (nvgpu)``."""
REASONS: Final = {
    TEGRA: "an integrated GPU of a Tegra (Jetson) works without NVML's accounts of memory and processes, so this agent "
    "can't limit containers on it (administrator: use NVIDIA's own device plugin on this node)",
    WSL: "WSL has one device node, /dev/dxg, for all cards, so this agent can't give or limit single cards "
    "(administrator: use NVIDIA's own device plugin on this node)",
}


def platform(settings: NodeSettings, places: Places) -> str:
    """The platform of a node without a card that can be shared: TEGRA or WSL; empty: neither."""
    strategy = settings.device_discovery_strategy
    if strategy == TEGRA:
        return TEGRA
    if strategy == "nvml":
        return ""
    if places.host_dev.character_devices("dxg"):
        return WSL
    return TEGRA if _is_tegra(settings, places) else ""


def card_not_offered(name: str) -> str:
    """Why a card of this NVML name is not offered; empty if it may be."""
    return REASONS[TEGRA] if _INTEGRATED in name else ""


def _is_tegra(settings: NodeSettings, places: Places) -> bool:
    roots = {places.root.here} | ({places.host.here} if places.host else set())
    if any((root / "etc/nv_tegra_release").exists() for root in roots):
        return True
    try:
        family = (settings.sys_root / "devices/soc0/family").read_text(errors="replace")
    except OSError:
        return False
    return family.strip().lower().startswith("tegra")
