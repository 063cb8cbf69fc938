"""Repeats the steps of each credential until cancelled. Level-triggered; backs off on failures and reports them."""

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
        """Seconds between two steps."""
        ...

    def problem(self) -> str:
        """Why the credential can't be used; empty: it can."""
        ...

    async def step(self) -> None:
        """Read the objects and carry out the next step."""
        ...


class CredentialReconciler:
    """Issues and renews one credential.

    Args:
        name: Its name, for messages and metrics.
        credential: The credential.
        usable: Begins its use. Called once, as soon as it can be used.
    """

    def __init__(self, name: str, credential: Credential, usable: Callable[[], Awaitable[None]] | None = None) -> None:
        self.name = name
        self._credential = credential
        self._usable = usable
        self.error = ""

    def check(self) -> str:
        """For readiness: why the credential is not in use, with the last error; empty: it is."""
        problem = self._credential.problem()
        if problem:
            return f"{problem}: {self.error}" if self.error else problem
        return "its use has not begun" if self._usable is not None else ""

    async def run(self) -> None:
        """Issue and renew the credential until cancelled."""
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
            await self._usable()
            self._usable = None

    def _failed(self, error: str) -> None:
        if error != self.error:
            log.error("credentials can't be issued or renewed, retrying", credential=self.name, error=error)
        self.error = error


class Credentials:
    """The credentials that this process issues itself. By its settings, others may issue them instead.

    Args:
        api: The Kubernetes API.
        namespace: Namespace of the Secrets and the ConfigMap.
        webhook: Where the webhook's certificate is kept; None: others issue it.
        signing: Where the signing keys are kept; None: others issue them.
        keyring: Gets the keys to use.
        in_use: Ids of the keys that signed live pods' allocations; None while unknown.
        serve: Called with an SSL context once there is a certificate for the webhook.
        clock: Monotonic seconds.
        now: The present time.
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
        """Unix time at which the webhook's certificate expires; 0: none is served, or others issue it."""
        pair = self.certificate.served if self.certificate else None
        return pair.expires.timestamp() if pair else 0.0
