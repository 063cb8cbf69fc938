"""The signing keys: private keys in a Secret, public halves in a ConfigMap. A key is published before it signs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from hami_core.scheduler.credentials import ring
from hami_core.scheduler.credentials.objects import Collision
from hami_core.scheduler.credentials.ring import Ring, RingKey, Times

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from datetime import datetime

    from hami_core.kube.objects import ConfigMap, Secret
    from hami_core.scheduler.credentials.objects import Store
    from hami_core.scheduler.keyring import Keyring

log = structlog.get_logger(__name__)

PURPOSE: Final = "signing"


@dataclass(frozen=True, slots=True)
class SigningNames:
    """The objects that hold the keys.

    Attributes:
        secret: Name of the Secret with the private keys.
        config_map: Name of the ConfigMap from which agents read the public keys.
        times: How long keys live.
    """

    secret: str
    config_map: str
    times: Times


class SigningKeys:
    """Carries out the decisions of `ring`, one step for each call.

    Args:
        store: Reads and writes Secret and ConfigMap.
        names: Names of these objects.
        keyring: Gets the keys to use.
        in_use: Ids of the keys that signed live pods' allocations; None while unknown.
        now: The present time.
        monotonic: Monotonic seconds.
    """

    def __init__(
        self,
        store: Store,
        names: SigningNames,
        keyring: Keyring,
        in_use: Callable[[], Collection[str] | None],
        *,
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
    ) -> None:
        self._store = store
        self._names = names
        self._keyring = keyring
        self._in_use = in_use
        self._now = now
        self._monotonic = monotonic
        self._published_at: dict[str, float] = {}
        self._reported: dict[str, str] = {}
        self.ring = Ring()
        self.signs: RingKey | None = None

    @property
    def where(self) -> str:
        """The Secret, for messages."""
        return f"Secret {self._store.namespace}/{self._names.secret}"

    @property
    def pace_s(self) -> float:
        """Seconds between two steps."""
        times = self._names.times
        return max(0.2, min(30.0, times.lifetime.total_seconds() / 30, (times.delay.total_seconds() or 1.0) / 4))

    def problem(self) -> str:
        """Why nothing can be signed; empty: it can."""
        return "" if self.signs else f"no signing key yet ({self.where})"

    async def step(self) -> None:
        """Read the objects and carry out the next step.

        Raises:
            Collision: We or another replica wrote an object, so all have to be read again.
            ConfigError: An administrator has to correct something.
            ApiError: The API server refused or is unreachable.
        """
        secret = await self._store.secret(self._names.secret, PURPOSE)
        published = await self._store.config_map(self._names.config_map, PURPOSE)
        present = ring.read(secret.data if secret else {})
        self._report_damage(present)
        wanted = self._wanted(present, published)
        await self._write_secret(secret, present, wanted)
        await self._publish(published, present)
        self._use(present)

    def _wanted(self, present: Ring, published: ConfigMap | None) -> Ring:
        now = self._now()
        if not present.keys and published is not None:
            # The Secret was lost. The published keys stay while live pods are signed with them.
            known = ring.read_published(published.data)
            present = Ring(known, present.damaged)
        signs = self.signs.id if self.signs else ""
        in_use = self._in_use() if len(present.keys) > 1 else None  # this call reads every pod
        return ring.advance(present, self._names.times, now, in_use=in_use, signs=signs)

    async def _write_secret(self, secret: Secret | None, present: Ring, wanted: Ring) -> None:
        if wanted.keys == present.keys:
            return
        before, after = present.entries(), wanted.entries()
        gone = frozenset(before.keys() - after.keys())
        await self._store.write_secret(self._names.secret, PURPOSE, secret, after, drop=gone)
        log.info(
            "signing keys changed",
            secret=self.where,
            made=sorted(after.keys() - before.keys()),
            gone=sorted(gone),
        )
        raise Collision("written")

    async def _publish(self, found: ConfigMap | None, present: Ring) -> None:
        wanted = present.published()
        entries = found.data if found else {}
        if found is not None and entries.items() >= wanted.items():
            stale = self._stale(entries, wanted, present)
            if not stale:
                return
        else:
            stale = self._stale(entries, wanted, present)
        await self._store.write_config_map(self._names.config_map, PURPOSE, found, wanted, drop=stale)
        log.info("public keys published", config_map=f"{self._store.namespace}/{self._names.config_map}")
        raise Collision("written")

    @staticmethod
    def _stale(entries: Collection[str], wanted: Collection[str], present: Ring) -> frozenset[str]:
        """Entries to remove: those whose key is not in the Secret any more, unless its entry there is damaged."""
        damaged = {name.rpartition(".")[0] for name in present.damaged}
        return frozenset(n for n in entries if n not in wanted and n.rpartition(".")[0] not in damaged)

    def _use(self, present: Ring) -> None:
        """Sign with a key of this ring and verify with all of them. The caller has published every key."""
        now = self._monotonic()
        self._published_at = {key.id: self._published_at.get(key.id, now) for key in present.keys}
        ages = {identity: now - at for identity, at in self._published_at.items()}
        chosen = ring.choose(present, self._names.times, self._now(), ages)
        self.ring = present
        if chosen is None or chosen.private is None:
            return
        if self.signs is None or self.signs.id != chosen.id:
            log.info(
                "allocations are signed with another key" if self.signs else "allocations are signed", key=chosen.id
            )
        self.signs = chosen
        self._keyring.set(chosen.private, [key.public for key in present.keys])

    def _report_damage(self, present: Ring) -> None:
        for name, problem in present.damaged.items():
            if self._reported.get(name) != problem:
                log.error("an entry can't be used, it is not changed", secret=self.where, entry=name, problem=problem)
        self._reported = dict(present.damaged)
