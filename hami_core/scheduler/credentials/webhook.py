"""The webhook's certificate: stored in a Secret, trusted through the webhook configuration, then served."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import structlog

from hami_core.errors import ConfigError
from hami_core.http.tls import load_pair
from hami_core.kube.patch import json_patch, pointer
from hami_core.kube.port import MUTATING_WEBHOOKS, ApiError
from hami_core.scheduler.credentials import certificates
from hami_core.scheduler.credentials.objects import Collision

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from datetime import datetime

    from hami_core.kube.objects import Secret, WebhookConfiguration
    from hami_core.kube.port import KubeApi
    from hami_core.scheduler.credentials.certificates import Pair
    from hami_core.scheduler.credentials.objects import Store

log = structlog.get_logger(__name__)

PURPOSE: Final = "webhook"
TRUST_S: Final = 10.0
"""Time after which every API server has read a new authority from the webhook configuration."""
CERTIFICATE, KEY, AUTHORITIES = "tls.crt", "tls.key", "ca.crt"


@dataclass(frozen=True, slots=True)
class WebhookNames:
    """Where the certificate is stored, and for which hosts it is.

    Attributes:
        secret: Name of the Secret.
        configurations: MutatingWebhookConfigurations that get the authorities to trust.
        hosts: DNS names and addresses that the API server calls.
        lifetime: How long a certificate is valid.
    """

    secret: str
    configurations: tuple[str, ...]
    hosts: tuple[str, ...]
    lifetime: timedelta = timedelta(days=365)


class WebhookCertificate:
    """Carries out the decisions of `certificates`, one step for each call.

    Args:
        api: The Kubernetes API.
        store: Reads and writes Secrets.
        names: Names of the objects and hosts.
        context: The SSL context of the webhook's listener.
        now: The present time.
        monotonic: Monotonic seconds.
    """

    def __init__(
        self,
        api: KubeApi,
        store: Store,
        names: WebhookNames,
        context: ssl.SSLContext,
        *,
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
    ) -> None:
        self._api = api
        self._store = store
        self._names = names
        self._context = context
        self._now = now
        self._monotonic = monotonic
        self._life = names.lifetime
        self._trusted_since: dict[bytes, float] = {}
        self.served: Pair | None = None

    @property
    def where(self) -> str:
        """The Secret, for messages."""
        return f"Secret {self._store.namespace}/{self._names.secret}"

    @property
    def pace_s(self) -> float:
        """Seconds between two steps: a thirtieth of a certificate's life, from 0.2 to 30."""
        return max(0.2, min(30.0, self._life.total_seconds() / 30))

    def problem(self) -> str:
        """Why the webhook can't be served with the loaded certificate; empty: it can."""
        if self.served is None:
            return f"no certificate yet ({self.where})"
        if self._now() > self.served.expires + certificates.BACKDATE:
            return f"the certificate expired at {self.served.expires.isoformat()} ({self.where})"
        return ""

    async def step(self) -> None:
        """Read the objects and carry out the next step.

        Raises:
            Collision: We or another replica wrote an object, so all have to be read again.
            ConfigError: An administrator has to correct something.
            ApiError: The API server refused or is unreachable.
        """
        found = await self._store.secret(self._names.secret, PURPOSE)
        pair = self._read(found)
        due = pair.due(self._names.hosts, self._now()) if pair else "there is none"
        if pair is None or due:
            await self._renew(found, pair, due)
        if pair is None:
            return
        # During a change of settings, another replica may still make certificates with a shorter life.
        self._life = min(self._names.lifetime, pair.expires - pair.issued)
        for name in self._names.configurations:
            await self._trust(name, pair)
        self._trusted_since = {pair.authorities[0]: self._trusted_since.get(pair.authorities[0], self._monotonic())}
        if self._may_serve(pair):
            self._serve(pair)

    def _read(self, found: Secret | None) -> Pair | None:
        if found is None or not any(found.data.values()):
            return None
        data = found.data
        try:
            return certificates.read(data.get(CERTIFICATE, b""), data.get(KEY, b""), data.get(AUTHORITIES, b""))
        except certificates.DamagedError as error:
            # The Secret is ours, and a new certificate can always be made.
            log.error("the webhook's certificate is damaged and replaced", secret=self.where, problem=str(error))  # noqa: TRY400
            return None

    async def _renew(self, found: Secret | None, old: Pair | None, why: str) -> None:
        now = self._now()
        beside = old.authorities if old else ()
        pair = certificates.issue(self._names.hosts, now, self._names.lifetime, beside=beside)
        data = {CERTIFICATE: pair.certificate, KEY: pair.key, AUTHORITIES: b"".join(pair.authorities)}
        await self._store.write_secret(self._names.secret, PURPOSE, found, data, kind="kubernetes.io/tls")
        log.info("webhook certificate made", secret=self.where, why=why, expires=pair.expires.isoformat())
        raise Collision("written")

    async def _trust(self, name: str, pair: Pair) -> None:
        """Write the pair's authorities into a webhook configuration."""
        try:
            found = await self._api.get(MUTATING_WEBHOOKS, name)
        except ApiError as error:
            if error.status == 404:
                fix = "install it, or name another with --webhook-configuration"
                raise ConfigError(f"MutatingWebhookConfiguration {name}", "there is none", fix) from error
            raise
        operations = self._changes(found, pair)
        if not operations:
            return
        version = {"op": "test", "path": "/metadata/resourceVersion", "value": found.metadata.resource_version}
        try:
            await self._api.patch(MUTATING_WEBHOOKS, name, json_patch([version, *operations]))
        except ApiError as error:
            if error.status in {404, 409, 422}:
                raise Collision(str(error)) from error
            raise
        log.info("webhook configuration trusts our certificate", configuration=name, webhooks=len(operations))

    def _changes(self, found: WebhookConfiguration, pair: Pair) -> list[dict[str, object]]:
        changes: list[dict[str, object]] = []
        for index, webhook in enumerate(found.webhooks):
            present = webhook.client_config.ca_bundle or b""
            wanted = certificates.bundle(pair, present, self._now())
            if wanted != present:
                path = pointer("webhooks", index, "clientConfig", "caBundle")
                changes.append({"op": "add", "path": path, "value": wanted})
        return changes

    def _may_serve(self, pair: Pair) -> bool:
        """Whether to serve the pair now: it is not served yet, and every API server has had time to trust it."""
        if self.served is not None and self.served.certificate == pair.certificate:
            return False
        settle = min(TRUST_S, self._life.total_seconds() / 10)
        alone = len(pair.authorities) == 1 and self.served is None
        old = self._now() - pair.issued >= timedelta(seconds=settle) + certificates.OVERLAP
        seen = self._monotonic() - self._trusted_since[pair.authorities[0]] >= settle
        return alone or old or seen

    def _serve(self, pair: Pair) -> None:
        load_pair(self._context, pair.certificate, pair.key, where=self.where)
        self.served = pair
        log.info("webhook certificate served", secret=self.where, expires=pair.expires.isoformat())
