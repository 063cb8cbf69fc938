"""Reads a container's request for NVIDIA GPUs, and completes it at admission, by HAMi v2.10's rules."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hami_core import Mutation, RequestError, vendorkit
from hami_core.vendorkit import parse_amount, parse_bool_go, parse_whole

if TYPE_CHECKING:
    from hami_core import ContainerSpec, Family, PodFacts, Request
    from hami_nvidia.config import NvidiaConfig

NUMA_BIND: Final = "nvidia.com/numa-bind"
"""Pod annotation, a boolean in Go's spellings: all devices of a container on one NUMA node. Other values mean off."""

VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
"""Environment variable: ``none`` hides every card, ``void`` makes NVIDIA's runtime do nothing."""
TASK_PRIORITY: Final = "CUDA_TASK_PRIORITY"
"""Environment variable: 0 is the highest priority."""
CORE_POLICY: Final = "GPU_CORE_UTILIZATION_POLICY"
"""Environment variable: ``default``, ``force`` or ``disable``."""

LOWEST_PRIORITY: Final = 9
"""The largest priority number. 0 is the highest priority."""

WHOLE_CARD: Final = 100
"""Percent of one card's compute."""


def parse_request(container: ContainerSpec, pod: PodFacts, family: Family, config: NvidiaConfig) -> Request | None:
    """Read one container's request; None if it requests no GPU.

    Raises:
        RequestError: An amount is negative, fractional, too large, or has a unit.
    """
    defaults = vendorkit.RequestDefaults(memory_mib=config.default_memory, cores=config.default_cores)
    request = vendorkit.default_parse_request(container, pod, family, defaults)
    if request is None:
        return None
    # Only the agent knows if a container has whole cards, which it gives without the interposer.
    return replace(request, numa_bind=parse_bool_go(pod.annotations.get(NUMA_BIND, "")) is True, preload=True)


def mutate(container: ContainerSpec, pod: PodFacts, family: Family, config: NvidiaConfig) -> Mutation | None:
    """Complete one container at admission: count, exclusive cores, environment, runtime class.

    This differs from HAMi in two points:

    - A count of 0 requests nothing. The pod still goes to our scheduler if the container names other amounts.
    - A container that gets GPUs loses its own ``NVIDIA_VISIBLE_DEVICES``. The kubelet would prefer that variable to the
      one that Allocate answers, and NVIDIA's runtime would add the cards that it names.

    Raises:
        RequestError: An amount cannot be granted as written.
    """
    _check_percentage(container, config)
    env = _environment(container, config)
    limits: dict[str, str] = {}
    uses = _count_limit(container, config, limits)
    if _exclusive(container, config, limits):
        limits[config.resource_core_name] = str(WHOLE_CARD)
        uses = True
    runtime_class = config.runtime_class_name if uses and not pod.runtime_class else ""
    if not uses and config.overwrite_env:
        env.append((VISIBLE_DEVICES, "none"))
    routed = uses or vendorkit.is_zero_beside_amounts(container, family)
    if not (routed or env):
        return None
    removed = frozenset({VISIBLE_DEVICES}) if uses else frozenset[str]()
    return Mutation(routed, limits=limits, env=tuple(env), env_removed=removed, runtime_class=runtime_class)


def _check_percentage(container: ContainerSpec, config: NvidiaConfig) -> None:
    name = config.resource_memory_percentage_name
    text = vendorkit.quantity_of(container, name)
    if text is None:
        return
    where = f"container {container.name}"
    value = parse_whole(text, where=where, field=name)
    if not 0 <= value <= 100:
        problem = f"invalid {name} value {text} in {where}: must be an integer between 0 and 100"
        raise RequestError(where, name, problem, "write the share of each card's memory in percent")


def _environment(container: ContainerSpec, config: NvidiaConfig) -> list[tuple[str, str]]:
    env: list[tuple[str, str]] = []
    priority = container.limits.get(config.resource_priority_name) if config.resource_priority_name else None
    if priority is not None:
        where = f"container {container.name}"
        value = parse_amount(priority, where=where, field=config.resource_priority_name, maximum=LOWEST_PRIORITY)
        env.append((TASK_PRIORITY, str(value)))
    if config.gpu_core_policy not in {"", "default"}:
        env.append((CORE_POLICY, config.gpu_core_policy))
    return env


def _count_limit(container: ContainerSpec, config: NvidiaConfig, limits: dict[str, str]) -> bool:
    """Whether the container requests GPUs by its limits. Adds the default count if it only names an amount."""
    name = config.resource_count_name
    if name and name in container.limits:
        return vendorkit.amount_of(container, name) != 0
    amounts = (config.resource_core_name, config.resource_memory_name, config.resource_memory_percentage_name)
    if config.default_gpu_num > 0 and any(name and name in container.limits for name in amounts):
        limits[config.resource_count_name] = str(config.default_gpu_num)
        return True
    return False


def _exclusive(container: ContainerSpec, config: NvidiaConfig, limits: dict[str, str]) -> bool:
    """Whether the container gets whole cards: a count, no cores, and either a percentage of 100 or no memory at all."""
    count = config.resource_count_name in limits or vendorkit.amount_of(container, config.resource_count_name)
    cores = vendorkit.quantity_of(container, config.resource_core_name)
    if not count or cores is not None or not config.resource_core_name:
        return False
    percentage = vendorkit.quantity_of(container, config.resource_memory_percentage_name)
    if percentage is not None:
        return parse_whole(percentage, where=f"container {container.name}", field="percentage") == 100
    return vendorkit.quantity_of(container, config.resource_memory_name) is None
