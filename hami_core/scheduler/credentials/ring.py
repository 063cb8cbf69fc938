"""The life of a signing key: next, in use, retired, gone. No I/O; the time is passed in.

A Secret holds the ring, with one entry for each key. Its name has the time when the key was made and the key's id:
``<time>-<id>.key`` is a private key, ``<time>-<id>.pub`` the public half of a retired key. A new key is published
first, and signs once every agent has had time to read it. A retired key's public half stays while a live pod needs it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from hami_core.errors import ConfigError
from hami_core.wire.signature import (
    generate_private_key,
    key_id,
    load_private_key,
    load_public_keys,
    private_key_pem,
    public_key_pem,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from hami_core.wire.signature import PrivateKey, PublicKey

SKEW: Final = timedelta(hours=1)
"""The largest difference between the clocks of two replicas, but at most a quarter of a key's life."""
_ENTRY: Final = re.compile(r"(\d{8}T\d{6}Z)-([0-9a-f]{16})\.(key|pub)", re.ASCII)
_TIME: Final = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True, slots=True)
class Times:
    """How long keys live.

    Attributes:
        lifetime: Time from the making of a key until the next one is made.
        delay: Time from a key's publication until it signs. It is longer than a kubelet takes to update a ConfigMap.
    """

    lifetime: timedelta
    delay: timedelta

    @property
    def skew(self) -> timedelta:
        """The largest difference between two clocks."""
        return min(SKEW, self.lifetime / 4)


@dataclass(frozen=True, slots=True)
class RingKey:
    """One key of the ring. It is retired if ``private`` is None."""

    made: datetime
    public: PublicKey
    private: PrivateKey | None = None

    @property
    def id(self) -> str:
        """Its id, as in signatures."""
        return key_id(self.public)

    @property
    def stem(self) -> str:
        """The beginning of its entries' names."""
        return f"{self.made.strftime(_TIME)}-{self.id}"


@dataclass(frozen=True, slots=True)
class Ring:
    """The contents of a Secret with keys.

    Attributes:
        keys: The keys, oldest first.
        damaged: Name → problem of each entry that can't be used. Such entries are never changed.
    """

    keys: tuple[RingKey, ...] = ()
    damaged: Mapping[str, str] = field(default_factory=dict)

    @property
    def private(self) -> tuple[RingKey, ...]:
        """Keys that can sign, oldest first."""
        return tuple(key for key in self.keys if key.private is not None)

    def entries(self) -> dict[str, bytes]:
        """The entries that the Secret should hold."""
        return {
            f"{k.stem}.key" if k.private else f"{k.stem}.pub": private_key_pem(k.private)
            if k.private
            else public_key_pem(k.public)
            for k in self.keys
        }

    def published(self) -> dict[str, str]:
        """The entries that the ConfigMap should hold: every public key."""
        return {f"{key.stem}.pem": public_key_pem(key.public).decode() for key in self.keys}


def read(entries: Mapping[str, bytes]) -> Ring:
    """Read a Secret's entries. Entries that can't be used are listed in `Ring.damaged`."""
    keys: dict[str, RingKey] = {}
    damaged: dict[str, str] = {}
    for name in sorted(entries):
        try:
            key = _read_entry(name, entries[name])
        except ConfigError as error:
            damaged[name] = error.problem
            continue
        if key.id not in keys or key.private:
            keys[key.id] = key
    return Ring(tuple(sorted(keys.values(), key=lambda key: (key.made, key.id))), damaged)


def read_published(entries: Mapping[str, str]) -> tuple[RingKey, ...]:
    """The public keys of a ConfigMap, as retired keys. Entries that are not ours are ignored."""
    found = {f"{name.removesuffix('.pem')}.pub": text.encode() for name, text in entries.items()}
    return read(found).keys


def advance(ring: Ring, times: Times, now: datetime, *, in_use: Collection[str] | None, signs: str) -> Ring:
    """The ring as it should be now.

    Args:
        ring: The present ring.
        times: How long keys live.
        now: The present time.
        in_use: Ids of the keys that signed live pods' allocations; None: not known yet.
        signs: Id of the key that this replica signs with; empty: none yet.
    """
    private = ring.private
    if not private:
        return add_key(ring, now)
    newest = private[-1]
    if newest.id != signs:
        return ring  # not even this replica signs with the newest key yet
    keys = list(ring.keys)
    settled = newest.made + times.delay + times.skew
    if settled <= now:  # by now every replica signs with the newest
        keys = [replace(key, private=None) if key.id != newest.id else key for key in keys]
    if settled + times.skew <= now and in_use is not None:
        keys = [key for key in keys if key.id == newest.id or key.id in in_use]
    advanced = replace(ring, keys=tuple(keys))
    return add_key(advanced, now) if newest.made + times.lifetime <= now else advanced


def add_key(ring: Ring, now: datetime) -> Ring:
    """The ring with a new key."""
    private = generate_private_key()
    made = now.astimezone(UTC).replace(microsecond=0)
    return replace(ring, keys=(*ring.keys, RingKey(made, private.public_key(), private)))


def choose(ring: Ring, times: Times, now: datetime, published_s: Mapping[str, float]) -> RingKey | None:
    """The key to sign with: the newest that agents have had time to read.

    Args:
        ring: The keys.
        times: How long keys live.
        now: The present time.
        published_s: Key id → seconds since this replica first saw it published, by a monotonic clock.

    Returns:
        The newest published key whose delay is over. If there is none, the oldest published key: an agent that has not
        read it yet refuses the pod for now and is asked again. None: no private key is published.
    """
    candidates = [key for key in ring.private if key.id in published_s]
    for key in reversed(candidates):
        # `made` is by another replica's clock. If it is old enough for any clock, we need not have watched the delay.
        if published_s[key.id] >= times.delay.total_seconds() or key.made + times.delay + times.skew <= now:
            return key
    return candidates[0] if candidates else None


def _read_entry(name: str, content: bytes) -> RingKey:
    match = _ENTRY.fullmatch(name)
    if match is None:
        raise ConfigError(name, "is not named <time>-<key id>.key or .pub")
    try:
        made = datetime.strptime(match[1], _TIME).replace(tzinfo=UTC)
    except ValueError as error:
        raise ConfigError(name, "does not begin with a valid time") from error
    if match[3] == "key":
        private = load_private_key(content, where=name)
        key = RingKey(made, private.public_key(), private)
    else:
        public = load_public_keys(content, where=name)
        key = RingKey(made, public[0])
    if key.id != match[2]:
        raise ConfigError(name, f"holds key {key.id}, not the key in its name")
    return key
