"""Kill a process of the system. Each strike returns once the process is started again, or its kubelet will do it."""

from __future__ import annotations

import random  # noqa: TC003 - part of the public signature
import time
from typing import TYPE_CHECKING

from tests.e2e.faults import ours

if TYPE_CHECKING:
    from tests.e2e.system import System

OURS = ("scheduler", "kube-scheduler of ours", "agent")
CLUSTER = ("kube-apiserver", "etcd", "kube-scheduler", "kube-controller-manager")
NODE = ("kubelet", "containerd")
TOGETHER = (*((one,) for one in (*OURS, "kube-apiserver", "etcd")), ("kube-scheduler", "kube-controller-manager"), NODE)
"""Processes that the short form kills: the most important ones alone, the others in pairs."""


def strike(system: System, victim: str, rng: random.Random) -> str:
    """Kill a process with SIGKILL and let it start again. Returns a description of it."""
    node = rng.choice(system.gpu_nodes)
    if victim == "scheduler":
        return ours.kill(system, ours.SCHEDULER, ours.EXTENDER)
    if victim == "kube-scheduler of ours":
        return ours.kill(system, ours.SCHEDULER, ours.KUBE_SCHEDULER)
    if victim == "agent":
        return ours.kill(system, ours.AGENT, ours.PLUGIN, node)
    component = f"{victim}:{node}" if victim in NODE else victim
    away = rng.uniform(0, 3)
    system.bed.kill(component)
    time.sleep(away)  # a service manager needs a moment to start it again
    system.bed.start(component)
    return f"{component}, away {away:.1f} s"
