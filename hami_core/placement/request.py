"""Turns containers as the user wrote them into the effective request of a pod."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from hami_core.errors import RequestError
from hami_core.model import INT32_MAX, ContainerRequest, PodFacts, PodRequest
from hami_core.wire import keys
from hami_core.wire.pod import parse_weights

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hami_core.model import ContainerSpec, Request

    Parse = Callable[[ContainerSpec, PodFacts], tuple[Request, ...]]


def pod_request(  # noqa: PLR0917 - a pod's parts, in the order of its manifest
    pod_uid: str,
    namespace: str,
    name: str,
    containers: Sequence[ContainerSpec],
    annotations: Mapping[str, str],
    parse: Parse,
) -> PodRequest:
    """Make a pod's effective request.

    Args:
        pod_uid: The pod's UID; may be empty at admission.
        namespace: Its namespace.
        name: Its name.
        containers: Init containers and sidecars in order, then app containers.
        annotations: All its annotations. ``parse`` gives each vendor only those that it declared.
        parse: Turns one container into its requests, at most one a family (`hami_core.plugins`).

    Raises:
        RequestError: Names the container or annotation at fault and the fix.
    """
    facts = PodFacts(namespace, name, pod_uid, annotations)
    resolved = _counted([ContainerRequest(c.name, c.kind, _bounded(c.name, parse(c, facts))) for c in containers])
    return PodRequest(
        pod_uid,
        namespace,
        name,
        resolved,
        annotations.get(keys.NODE_POLICY, ""),
        annotations.get(keys.DEVICE_POLICY, ""),
        parse_weights(annotations.get(keys.SCORING_WEIGHTS)),
    )


def _counted(containers: Sequence[ContainerRequest]) -> tuple[ContainerRequest, ...]:
    """Tell each request how many of the pod's containers ask for its family."""
    if sum(bool(container.requests) for container in containers) < 2:
        return tuple(containers)
    askers = Counter(request.family for container in containers for request in container.requests)
    return tuple(
        replace(c, requests=tuple(replace(r, askers=askers[r.family]) for r in c.requests)) for c in containers
    )


def _bounded(container: str, requests: tuple[Request, ...]) -> tuple[Request, ...]:
    """Check the vendors' answers for one container, so that placement can rely on them."""
    seen: set[str] = set()
    for request in requests:
        amounts = {
            "count": (request.count, 1),
            "memory": (request.memory_mib, 0),
            "memory percentage": (request.memory_percent or 0, 0),
            "cores": (request.cores, 0),
        }
        for what, (amount, least) in amounts.items():
            if not least <= amount <= INT32_MAX:
                raise RequestError(
                    f"container {container}",
                    f"{request.family} {what}",
                    f"{amount} is out of range",
                    f"write at least {least}",
                )
        if request.family in seen:
            raise RequestError(f"container {container}", request.family, "the vendor answered two requests")
        seen.add(request.family)
    limited = [request.family for request in requests if request.preload]
    if len(limited) > 1:
        raise RequestError(
            f"container {container}",
            " and ".join(limited),
            "each is limited by a library that the file /etc/ld.so.preload names, and a container has one such file",
            "ask for them in different containers of the pod",
        )
    return requests
