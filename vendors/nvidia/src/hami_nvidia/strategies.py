"""What HAMi's strategy words mean here. Pure.

HAMi and NVIDIA's plugin tell the container runtime in Allocate which cards a container gets. This agent binds a
container to its slices after Allocate, by a CDI spec. Allocate decides only in serial mode (`NodeContext.serial`).
There the administrator may leave the driver's files to NVIDIA's runtime, by ``envvar`` or ``volume-mounts``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, get_args

from hami_core import ConfigError, Mount
from hami_nvidia.request import VISIBLE_DEVICES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from hami_core import ContainerEdits

ListStrategy = Literal["envvar", "volume-mounts", "cdi-annotations", "cdi-cri"]
LIST_STRATEGIES: Final[tuple[str, ...]] = get_args(ListStrategy)
_BY_RUNTIME: Final = frozenset({"envvar", "volume-mounts"})
_VARIABLE: Final = "DEVICE_LIST_STRATEGY"
_VOLUMES: Final = "/var/run/nvidia-container-devices"
"""Where NVIDIA's runtime looks for mounts that name devices (``accept-nvidia-visible-devices-as-volume-mounts``)."""

WITHOUT_EFFECT: Final = {
    "PASS_DEVICE_SPECS": "device nodes are always passed",
    "FAIL_ON_INIT_ERROR": "while NVML does not answer, the agent runs on and tries again",
    "CDI_ANNOTATION_PREFIX": "CDI names are given in the kubelet's own field and never as annotations",
    "NVIDIA_CDI_HOOK_PATH": "hooks are those of NVIDIA's own CDI spec, at the paths that it names",
    "NVIDIA_CTK_PATH": "hooks are those of NVIDIA's own CDI spec, at the paths that it names",
}
"""HAMi's variables that change nothing here, and why."""


def leaves_driver_to_runtime(strategies: Collection[str]) -> bool:
    """Whether NVIDIA's runtime is to add the driver's files, so that the agent gives none."""
    return not _BY_RUNTIME.isdisjoint(strategies)


def check(strategies: Iterable[str], serial: str, mig_strategy: str) -> None:
    """Refuse words that do not fit how this agent gives devices.

    Args:
        strategies: Words of DEVICE_LIST_STRATEGY.
        serial: ``--serial``.
        mig_strategy: The node's ``migStrategy``.

    Raises:
        ConfigError: A word does not fit.
    """
    for word in strategies:
        if word in _BY_RUNTIME and serial != "always":
            problem = f"{word} fixes a container's devices before the agent knows the container"
            raise ConfigError(_VARIABLE, problem, "remove it, or run the agent with --serial=always")
        if word in _BY_RUNTIME and mig_strategy == "mixed":
            problem = f"{word} can't name the MIG instances of migStrategy mixed, which the kubelet gives one by one"
            raise ConfigError(_VARIABLE, problem, "remove either")
        if word not in _BY_RUNTIME and serial == "always":
            raise ConfigError(_VARIABLE, f"{word} needs CDI, which --serial=always does not use", "remove either")


def for_runtime(edits: ContainerEdits, ids: Collection[str], strategies: Collection[str]) -> ContainerEdits:
    """The edits that also tell NVIDIA's runtime the container's cards, in the form that the strategies ask for.

    Args:
        edits: The container's edits, without the driver's files.
        ids: UUIDs of its cards or MIG instances, or its cards' indices.
        strategies: Words of DEVICE_LIST_STRATEGY. As in HAMi, ``volume-mounts`` wins over ``envvar``.
    """
    if "volume-mounts" in strategies:
        named = tuple(Mount("/dev/null", f"{_VOLUMES}/{each}") for each in ids)
        return replace(edits, env={**edits.env, VISIBLE_DEVICES: _VOLUMES}, mounts=(*edits.mounts, *named))
    if "envvar" in strategies:
        return replace(edits, env={**edits.env, VISIBLE_DEVICES: ",".join(ids)})
    return edits


def without_effect(environment: Mapping[str, str]) -> list[str]:
    """One sentence for each variable of HAMi that is set and changes nothing."""
    return [f"{name} has no effect: {why}" for name, why in WITHOUT_EFFECT.items() if name in environment]
