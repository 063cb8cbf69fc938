"""Replace the agents, as an upgrade does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.e2e.system import NAMESPACE

if TYPE_CHECKING:
    from tests.e2e.system import System

COMPONENT = "hami-device-plugin"


def uids(system: System) -> set[str]:
    """UIDs of the agents' pods."""
    return {now["metadata"]["uid"] for now in system.ours(COMPONENT)}


def replace(system: System) -> None:
    """Delete the agents' pods. Wait until new ones are ready, that is, registered with their kubelets."""
    old = uids(system)
    system.bed.kubectl("delete", "pods", "-n", NAMESPACE, "-l", f"app.kubernetes.io/component={COMPONENT}")

    def anew() -> bool:
        now = system.ours(COMPONENT)
        ready = [
            pod
            for pod in now
            if pod["metadata"]["uid"] not in old
            and any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))
        ]
        return len(ready) == len(now) == len(old)

    system.bed.wait("other agents", anew, 90)
    system.ready()
