"""The keys of this moment: the one allocations are signed with, and those whose signatures count."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hami_core.scheduler.errors import BindRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hami_core.wire.signature import PrivateKey, PublicKey


class Keyring:
    """Shared by Bind, which signs, and by what reads allocations, which verifies; `set` changes it while both run.

    Args:
        signing: Signs allocations; None: they are unsigned, or with ``awaited`` not written at all.
        public: Further keys whose signatures count.
        awaited: Whether a signing key is still to come.
    """

    def __init__(
        self, signing: PrivateKey | None = None, public: Sequence[PublicKey] = (), *, awaited: bool = False
    ) -> None:
        self._signing = signing
        self._awaited = awaited
        own = (signing.public_key(),) if signing else ()
        self.public: tuple[PublicKey, ...] = (*own, *public)
        self.ready = asyncio.Event()
        """Set once no key is to come any more before allocations can be signed and verified."""
        if not awaited:
            self.ready.set()
        self._changed: list[Callable[[], None]] = []

    def signing(self) -> PrivateKey | None:
        """The key to sign with now; None: allocations are not signed here.

        Raises:
            BindRefusedError: There will be one, but it isn't there yet.
        """
        if self._signing is None and self._awaited:
            raise BindRefusedError("the signing key is not there yet; /readyz says why")
        return self._signing

    @property
    def verifies(self) -> bool:
        """Whether a missing or wrong signature means anything here."""
        return bool(self.public) or self._awaited

    def on_change(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` whenever the keys that count are others."""
        self._changed.append(changed)

    def set(self, signing: PrivateKey, public: Sequence[PublicKey]) -> None:
        """From now on sign with this key and accept these."""
        before = {key.public_bytes_raw() for key in self.public}
        self._signing, self.public = signing, tuple(public)
        self.ready.set()
        if before != {key.public_bytes_raw() for key in self.public}:
            for changed in self._changed:
                changed()
