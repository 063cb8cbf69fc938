"""What can be killed, and how; each strike returns once what it killed is started again."""

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
"""What the short form kills: what matters most alone, the rest in pairs."""


def strike(system: System, victim: str, rng: random.Random) -> str:
    """SIGKILL a process somewhere and let it come back. Returns what it was, in words."""
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
    time.sleep(away)  # a service manager starts it again after a moment
    system.bed.start(component)
    return f"{component}, away {away:.1f} s"
