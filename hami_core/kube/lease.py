"""Leader election by Leases: `LeaseFollower` follows kube-scheduler's Lease, `LeaseElector` holds one of its own.

Both measure time by this machine's monotonic clock, and never compare the clocks of two machines. A replica that can't
reach the API server stops being leader when its lease expires.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import structlog

from hami_core import clock as wall
from hami_core.kube.informer import Informer
from hami_core.kube.patch import merge_patch
from hami_core.kube.port import LEASES, ApiError, KubeApi

if TYPE_CHECKING:
    from hami_core.kube.objects import Lease

log = structlog.get_logger(__name__)

Clock = Callable[[], float]

DEFAULT_DURATION_S: Final = 15
STALE_S: Final = 4.0
"""A followed Lease that was last seen longer ago than this must be read again before anybody acts on it.

Its holder renews every 2 s. If no renewal was seen for 4 s, this process was paused or its watch is stuck, and the
Lease may have been released since.
"""


@dataclass(slots=True)
class Observed:
    """The state of a Lease as last seen.

    Attributes:
        holder: ``holderIdentity``; empty: free.
        duration_s: How long a renewal lasts.
        transitions: ``leaseTransitions``: number of changes of the holder.
        seen_at: Monotonic time when a new holder or renewal was last seen.
    """

    holder: str = ""
    duration_s: int = DEFAULT_DURATION_S
    transitions: int = 0
    seen_at: float = float("-inf")
    _renewal: str | None = field(default=None, repr=False)

    def see(self, lease: Lease | None, now: float) -> bool:
        """Store what a Lease says (None: it was deleted). Returns whether the holder changed."""
        if lease is None:
            changed, self.holder, self._renewal = bool(self.holder), "", None
            return changed
        spec = lease.spec
        holder = spec.holder_identity or ""
        changed = holder != self.holder
        if changed or spec.renew_time != self._renewal:
            self.seen_at = now
        self.holder, self._renewal = holder, spec.renew_time
        self.duration_s = spec.lease_duration_seconds or DEFAULT_DURATION_S
        self.transitions = spec.lease_transitions or 0
        return changed

    @property
    def expires_at(self) -> float:
        """Monotonic time when the Lease expires unless it is renewed."""
        return self.seen_at + self.duration_s


class LeaseFollower:
    """Leader as long as kube-scheduler in the same pod holds its Lease.

    kube-scheduler's identity is ``<hostname>_<uuid>``, and the containers of a pod share the hostname.

    Args:
        api: The API server.
        namespace: The Lease's namespace; ``kube-system`` for kube-scheduler's default Lease.
        name: The Lease's name.
        hostname: This pod's hostname.
        clock: Monotonic seconds.
        on_change: Called with True when this pod's kube-scheduler becomes the holder, with False when it ceases to be.
    """

    def __init__(
        self,
        api: KubeApi,
        namespace: str,
        name: str,
        hostname: str,
        *,
        clock: Clock = time.monotonic,
        on_change: Callable[[bool], None] | None = None,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._name = name
        self._prefix = hostname + "_"
        self._clock = clock
        self._on_change = on_change
        self._observed = Observed()
        self._confirmed_at = float("-inf")
        self._others_until = float("-inf")
        self._informer = Informer(api, LEASES, namespace=namespace, field_selector=f"metadata.name={name}")
        self._informer.on_change(lambda _, new: self._see(new))

    @property
    def is_leader(self) -> bool:
        """Whether this pod's kube-scheduler holds the Lease, and it has not expired by our clock."""
        return self._holds() and self._clock() < self._observed.expires_at

    @property
    def is_fresh(self) -> bool:
        """Whether the Lease was seen recently enough to act on it. If not, call `confirm` first."""
        return self._clock() < max(self._observed.seen_at, self._confirmed_at) + STALE_S

    @property
    def others_until(self) -> float:
        """Monotonic time until which the previous holder's replica may still have acted as leader.

        A released Lease changes its holder long before it would have expired.
        """
        return self._others_until

    @property
    def epoch(self) -> int:
        """``leaseTransitions``: grows with every change of leader."""
        return self._observed.transitions

    @property
    def expires_at(self) -> float:
        """Monotonic time when the Lease expires unless a renewal is seen."""
        return self._observed.expires_at

    async def confirm(self) -> bool:
        """Read the Lease now, because the watch may be late. Returns False if the API server can't be reached."""
        asked_at = self._clock()
        try:
            lease = await self._api.get(LEASES, self._name, self._namespace)
        except ApiError as error:
            log.warning("the lease can't be read", lease=self._name, error=str(error))
            return False
        self._see(lease)
        self._confirmed_at = asked_at
        return self.is_leader

    async def run(self) -> None:
        """Follow the Lease until cancelled."""
        await self._informer.run()

    def _holds(self) -> bool:
        return self._observed.holder.startswith(self._prefix)

    def _see(self, lease: Lease | None) -> None:
        before, seen = self._holds(), self._observed
        if seen.holder and not before:
            self._others_until = max(self._others_until, seen.seen_at + min(STALE_S, seen.duration_s))
        self._observed.see(lease, self._clock())
        after = self._holds()
        if after != before:
            log.info("leadership changed", lease=self._name, holder=self._observed.holder, leader=after)
            if self._on_change:
                self._on_change(after)


class LeaseElector:
    """Leader election by a Lease of our own, for an extender behind a Service. The replica that holds it leads.

    Args:
        api: The API server.
        namespace: The Lease's namespace.
        name: The Lease's name; it is created if it does not exist.
        identity: Unique name of this replica.
        duration_s: How long other replicas respect a renewal.
        retry_s: Seconds between tries; at most a third of the duration.
        clock: Monotonic seconds.
        on_change: Called with True when leadership begins, with False when it ends.
    """

    def __init__(
        self,
        api: KubeApi,
        namespace: str,
        name: str,
        identity: str,
        *,
        duration_s: int = DEFAULT_DURATION_S,
        retry_s: float = 2.0,
        clock: Clock = time.monotonic,
        on_change: Callable[[bool], None] | None = None,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._duration_s = duration_s
        self._retry_s = min(retry_s, duration_s / 3)
        self._clock = clock
        self._on_change = on_change
        self._observed = Observed()
        self._renewed_at = float("-inf")
        self._was_leader = False

    @property
    def is_leader(self) -> bool:
        """Whether the last renewal that the server accepted is younger than the duration."""
        return self._clock() < self.expires_at

    @property
    def is_fresh(self) -> bool:
        """Always true: other replicas respect our renewals until they expire."""
        return True

    @property
    def others_until(self) -> float:
        """Always in the past: an earlier holder's lease had expired or was released before we took it."""
        return float("-inf")

    @property
    def epoch(self) -> int:
        """``leaseTransitions`` of the Lease as last seen."""
        return self._observed.transitions

    @property
    def expires_at(self) -> float:
        """Monotonic time until which no other replica may take it, counted from before the last renewal was sent."""
        return self._renewed_at + self._duration_s

    async def confirm(self) -> bool:
        """Try to take or renew the Lease now."""
        await self._try()
        return self.is_leader

    async def run(self) -> None:
        """Take and renew the Lease until cancelled, then release it."""
        try:
            while True:
                await self._try()
                self._report_change()
                await asyncio.sleep(self._retry_s * random.uniform(0.8, 1.2))  # noqa: S311 - jitter
        finally:
            await self._release()

    async def _try(self) -> None:
        started = self._clock()
        try:
            async with asyncio.timeout(self._duration_s * 2 / 3):
                await self._acquire_or_renew(started)
        except (ApiError, TimeoutError) as error:
            # The Lease was not renewed; leadership ends by itself when the duration is over.
            log.warning("the lease was not renewed", lease=self._name, error=str(error) or "timed out")

    async def _acquire_or_renew(self, started: float) -> None:
        try:
            lease = await self._api.get(LEASES, self._name, self._namespace)
        except ApiError as error:
            if error.status != 404:
                raise
            made = await self._api.create(LEASES, self._new_lease(), self._namespace)
            self._record_renewal(made, started)
            return
        self._observed.see(lease, self._clock())
        ours = self._observed.holder == self._identity
        if not ours and self._observed.holder and self._clock() < self._observed.expires_at:
            self._renewed_at = float("-inf")
            return
        patch = merge_patch(
            {
                "metadata": {"resourceVersion": lease.metadata.resource_version},
                "spec": self._spec(self._observed.transitions + (not ours), acquired=not ours),
            }
        )
        self._record_renewal(await self._api.patch(LEASES, self._name, patch, self._namespace), started)

    def _record_renewal(self, lease: Lease, started: float) -> None:
        self._observed.see(lease, self._clock())
        if self._observed.holder == self._identity:
            self._renewed_at = started

    def _new_lease(self) -> dict[str, object]:
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": self._spec(0, acquired=True),
        }

    def _spec(self, transitions: int, *, acquired: bool) -> dict[str, object]:
        now = wall.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec: dict[str, object] = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._duration_s,
            "renewTime": now,
            "leaseTransitions": transitions,
        }
        return spec | ({"acquireTime": now} if acquired else {})

    def _report_change(self) -> None:
        leads = self.is_leader
        if leads != self._was_leader:
            self._was_leader = leads
            log.info("leadership changed", lease=self._name, holder=self._observed.holder, leader=leads)
            if self._on_change:
                self._on_change(leads)

    async def _release(self) -> None:
        """Release the Lease, so that another replica need not wait until it expires."""
        held = self.is_leader
        self._renewed_at = float("-inf")
        self._report_change()
        if not held:
            return
        try:
            async with asyncio.timeout(2):
                lease = await self._api.get(LEASES, self._name, self._namespace)
                if lease.spec.holder_identity == self._identity:
                    free = {"holderIdentity": "", "leaseDurationSeconds": 1}
                    version = {"resourceVersion": lease.metadata.resource_version}
                    patch = merge_patch({"metadata": version, "spec": free})
                    await self._api.patch(LEASES, self._name, patch, self._namespace)
        except (ApiError, TimeoutError) as error:
            log.warning("the lease was not released; other replicas wait until it expires", error=str(error))
