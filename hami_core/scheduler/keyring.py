"""The present keys: the one that signs allocations, and those whose signatures count."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hami_core.scheduler.errors import BindRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hami_core.wire.signature import PrivateKey, PublicKey


class Keyring:
    """Keys for Bind, which signs, and for the readers of allocations, which verify. `set` may change them at any time.

    Args:
        signing: Signs allocations. None: they are unsigned, or not written at all if ``awaited``.
        public: Further keys whose signatures count.
        awaited: Whether `set` will give a signing key later.
    """

    def __init__(
        self, signing: PrivateKey | None = None, public: Sequence[PublicKey] = (), *, awaited: bool = False
    ) -> None:
        self._signing = signing
        self._awaited = awaited
        own = (signing.public_key(),) if signing else ()
        self.public: tuple[PublicKey, ...] = (*own, *public)
        self.ready = asyncio.Event()
        """Set once allocations can be signed and verified: no key is awaited, or it has come."""
        if not awaited:
            self.ready.set()
        self._changed: list[Callable[[], None]] = []

    def signing(self) -> PrivateKey | None:
        """The key to sign with now; None: this scheduler does not sign.

        Raises:
            BindRefusedError: The key is awaited.
        """
        if self._signing is None and self._awaited:
            raise BindRefusedError("there is no signing key yet; /readyz says why")
        return self._signing

    @property
    def verifies(self) -> bool:
        """Whether signatures are verified: there are keys, or one is awaited."""
        return bool(self.public) or self._awaited

    def on_change(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` whenever the set of public keys changes."""
        self._changed.append(changed)

    def set(self, signing: PrivateKey, public: Sequence[PublicKey]) -> None:
        """Sign with this key from now on, and accept signatures by these keys only."""
        before = {key.public_bytes_raw() for key in self.public}
        self._signing, self.public = signing, tuple(public)
        self.ready.set()
        if before != {key.public_bytes_raw() for key in self.public}:
            for changed in self._changed:
                changed()
