"""Repeats the steps until cancelled: level-triggered, backing off on failures, telling what is wrong."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

import structlog

from hami_core import clock as wall
from hami_core.errors import HamiError
from hami_core.http.tls import empty_context
from hami_core.kube.informer import Backoff
from hami_core.scheduler.credentials.objects import Collision, Store
from hami_core.scheduler.credentials.signing import SigningKeys, SigningNames
from hami_core.scheduler.credentials.webhook import WebhookCertificate, WebhookNames

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Collection
    from datetime import datetime

    from hami_core.kube.port import KubeApi
    from hami_core.scheduler.keyring import Keyring

log = structlog.get_logger(__name__)


class Credential(Protocol):
    """`WebhookCertificate` or `SigningKeys`."""

    @property
    def pace_s(self) -> float:
        """How often to look."""
        ...

    def problem(self) -> str:
        """Why it can't be used; empty: it can."""
        ...

    async def step(self) -> None:
        """Look, and do what is next."""
        ...


class CredentialReconciler:
    """Keeps one credential.

    Args:
        name: What it is, for messages.
        kept: The credential.
        usable: Called once, as soon as it can be used.
    """

    def __init__(self, name: str, kept: Credential, usable: Callable[[], Awaitable[None]] | None = None) -> None:
        self.name = name
        self._credential = kept
        self._usable = usable
        self.error = ""

    def check(self) -> str:
        """For readiness: why it can't be used, with the last error; empty: it can."""
        problem = self._credential.problem()
        return f"{problem}: {self.error}" if problem and self.error else problem

    async def run(self) -> None:
        """Keep it until cancelled."""
        failures, collisions = Backoff(0.2, 60.0), Backoff(0.05, 5.0)
        while True:
            try:
                await self._credential.step()
            except Collision:
                await asyncio.sleep(collisions.next())
                continue
            except HamiError as error:
                self._failed(str(error))
                await self._begin()
                await asyncio.sleep(failures.next())
                continue
            failures.reset()
            collisions.reset()
            self.error = ""
            await self._begin()
            await asyncio.sleep(self._credential.pace_s)

    async def _begin(self) -> None:
        if self._usable is not None and not self._credential.problem():
            usable, self._usable = self._usable, None
            await usable()

    def _failed(self, error: str) -> None:
        if error != self.error:
            log.error("credentials can't be kept, trying on", credential=self.name, error=error)
        self.error = error


class Credentials:
    """What this process issues itself; nothing where settings say that others do.

    Args:
        api: The Kubernetes API.
        namespace: Where Secrets and ConfigMap are.
        webhook: The webhook's certificate, or None.
        signing: The signing keys, or None.
        keyring: Is told which keys to use.
        in_use: Ids of the keys live pods are signed with; None while that is not known.
        serve: Called with a context once the webhook's certificate is there.
        clock: Monotonic seconds.
        now: The time.
    """

    def __init__(
        self,
        api: KubeApi,
        namespace: str,
        webhook: WebhookNames | None,
        signing: SigningNames | None,
        *,
        keyring: Keyring,
        in_use: Callable[[], Collection[str] | None],
        serve: Callable[[ssl.SSLContext], Awaitable[None]],
        clock: Callable[[], float],
        now: Callable[[], datetime] = wall.now,
    ) -> None:
        store = Store(api, namespace)
        self.certificate: WebhookCertificate | None = None
        self.signing: SigningKeys | None = None
        self.reconcilers: list[CredentialReconciler] = []
        if webhook is not None:
            context = empty_context()
            self.certificate = WebhookCertificate(api, store, webhook, context, now=now, monotonic=clock)
            self.reconcilers.append(
                CredentialReconciler("webhook-certificate", self.certificate, lambda: serve(context))
            )
        if signing is not None:
            self.signing = SigningKeys(store, signing, keyring, in_use, now=now, monotonic=clock)
            self.reconcilers.append(CredentialReconciler("signing-keys", self.signing))

    @property
    def expires_at(self) -> float:
        """Unix time at which the webhook's certificate runs out; 0: none is served, or others issue it."""
        pair = self.certificate.served if self.certificate else None
        return pair.expires.timestamp() if pair else 0.0
