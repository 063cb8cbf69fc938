"""Reads a cluster through `hami_core.kube` into `Facts`, as far as the caller's rights reach."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, TypeVar

from hami_core.doctor import objects as k8s
from hami_core.doctor.clock import moment
from hami_core.doctor.facts import Facts, Lookup, Seen
from hami_core.doctor.install import config_source, find
from hami_core.errors import ConfigError
from hami_core.kube.port import CONFIG_MAPS, SECRETS, ApiError
from hami_core.wire.signature import load_private_key, load_public_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hami_core.doctor.install import Install
    from hami_core.kube.objects import ConfigMap, Event, Lease, Secret
    from hami_core.kube.port import KubeApi, Resource
    from hami_core.plugins.loaded import Loaded
    from hami_core.wire.signature import PublicKey

T = TypeVar("T")

PAGE: Final = 500
"""Most objects in one list call; further objects come page by page."""
EVENT_REASONS: Final = ("DevicesUnlimited", "DevicesEvicted", "CgroupV1")
"""Reasons of the events to read: the first two are our agent's, the last is the kubelet's."""
CLOCK_SKEW_LIMIT: Final = timedelta(seconds=60)


class _Reader:
    """Reads objects and turns errors into a problem text."""

    def __init__(self, api: KubeApi, namespace: str) -> None:
        self._api = api
        self._namespace = namespace

    async def all(self, resource: Resource[T], *, field_selector: str = "") -> Seen[T]:
        """Every object of a kind; if that is not allowed, the objects of the user's namespace."""
        everywhere = await self._list(resource, "", field_selector)
        if not everywhere.problem or not resource.namespaced or not self._namespace:
            return everywhere
        here = await self._list(resource, self._namespace, field_selector)
        return Seen(here.items, here.problem or f"{everywhere.problem} outside namespace {self._namespace}")

    async def _list(self, resource: Resource[T], namespace: str, field_selector: str) -> Seen[T]:
        found: list[T] = []
        undecodable: list[str] = []
        token = ""
        while True:
            try:
                page = await self._api.list(
                    resource, namespace=namespace, field_selector=field_selector, limit=PAGE, continue_token=token
                )
            except ApiError as error:
                return Seen(tuple(found), refusal("list", resource.plural, error))
            found += page.items
            undecodable += [f"{resource.plural} {bad.key} can't be decoded: {bad.error}" for bad in page.undecodable]
            token = page.continue_token
            if not token:
                return Seen(tuple(found), "; ".join(undecodable))

    async def named(self, resource: Resource[T], wanted: Iterable[tuple[str, str]]) -> Lookup[T]:
        """Single objects by (namespace, name)."""
        found: dict[str, T] = {}
        problems: dict[str, str] = {}

        async def read(namespace: str, name: str) -> None:
            try:
                found[f"{namespace}/{name}"] = await self._api.get(resource, name, namespace)
            except ApiError as error:
                if error.status != 404:
                    problems[f"{namespace}/{name}"] = refusal("get", f"{resource.plural} {namespace}/{name}", error)

        await asyncio.gather(*(read(namespace, name) for namespace, name in sorted(set(wanted)) if name))
        return Lookup(found, problems)


def refusal(verb: str, what: str, error: ApiError) -> str:
    """Say in a few words why something could not be read."""
    if error.status in {401, 403}:
        return f"not allowed to {verb} {what}"
    if error.status == 404:
        return f"the API server does not serve {what}"
    return f"could not {verb} {what}: {error.problem}"


async def gather(api: KubeApi, vendors: Callable[[str], Loaded], *, namespace: str = "", node: str = "") -> Facts:
    """Read everything that the checks need.

    Args:
        api: The cluster.
        vendors: Configures the installed vendors from a device-config (its text; empty: the default settings).
        namespace: The namespace of our scheduler and agents; empty: any.
        node: Read this node only; empty: every node.

    Raises:
        ApiError: The API server does not answer at all.
    """
    version = str((await api.server_version()).get("gitVersion", ""))
    reader = _Reader(api, namespace)
    async with asyncio.TaskGroup() as group:
        start = group.create_task
        nodes = start(reader.all(k8s.NODES, field_selector=f"metadata.name={node}" if node else ""))
        pods = start(reader.all(k8s.PODS))
        daemon_sets = start(reader.all(k8s.DAEMON_SETS))
        services = start(reader.all(k8s.SERVICES))
        slices = start(reader.all(k8s.ENDPOINT_SLICES))
        hooks = start(reader.all(k8s.WEBHOOKS))
        policies = start(reader.all(k8s.POLICIES))
        bindings = start(reader.all(k8s.POLICY_BINDINGS))
        classes = start(reader.all(k8s.RUNTIME_CLASSES))
        quotas = start(reader.all(k8s.QUOTAS))
        leases = start(reader.all(k8s.LEASES))
        events = [start(reader.all(k8s.EVENTS, field_selector=f"reason={reason}")) for reason in EVENT_REASONS]
    install = find(pods.result(), namespace)
    config_maps = await reader.named(CONFIG_MAPS, _config_maps(install))
    loaded, config_problem = set_up(vendors, _device_config(install, config_maps))
    return Facts(
        now=_clock(leases.result()),
        version=version,
        namespace=namespace,
        node=node,
        nodes=nodes.result(),
        pods=pods.result(),
        daemon_sets=daemon_sets.result(),
        services=services.result(),
        endpoint_slices=slices.result(),
        webhooks=hooks.result(),
        policies=policies.result(),
        policy_bindings=bindings.result(),
        runtime_classes=classes.result(),
        quotas=quotas.result(),
        leases=leases.result(),
        events=_together(task.result() for task in events),
        config_maps=config_maps,
        tls_secrets=await reader.named(k8s.TLS_SECRETS, _tls_secrets(install)),
        signing_keys=public_halves(await reader.named(SECRETS, _signing_secrets(install))),
        vendors=loaded,
        config_problem=config_problem,
    )


def _together(parts: Iterable[Seen[Event]]) -> Seen[Event]:
    seen = list(parts)
    return Seen(tuple(event for part in seen for event in part), next((p.problem for p in seen if p.problem), ""))


def _clock(leases: Iterable[Lease]) -> datetime:
    """The current time; if this machine's clock is ahead of the cluster's, the newest Lease renewal.

    Some Lease of a cluster is renewed every few seconds. If even the newest renewal is old, this clock is wrong.
    """
    now = datetime.now(UTC)
    renewals = [time for lease in leases if (time := moment(lease.spec.renew_time)) is not None]
    newest = max(renewals, default=now)
    return newest if now - newest > CLOCK_SKEW_LIMIT else now


def _config_maps(install: Install) -> Iterable[tuple[str, str]]:
    for part in install.kube_schedulers:
        source = config_source(part)
        if source is not None and source[0] == "ConfigMap":
            yield part.namespace, source[1]
    for part in install.schedulers:
        yield part.namespace, part.setting("signing_keys_configmap")
        yield from _mounted(part.namespace, part.volume_of(part.setting("device_config_file")))
    for part in install.agents:
        yield from _mounted(part.namespace, part.volume_of(part.setting("signing_keys")))


def _mounted(namespace: str, source: tuple[str, str] | None) -> Iterable[tuple[str, str]]:
    if source is not None and source[0] == "ConfigMap":
        yield namespace, source[1]


def _device_config(install: Install, config_maps: Lookup[ConfigMap]) -> str:
    """Text of the device-config that our scheduler reads; empty if it has none or it could not be read."""
    for part in install.schedulers:
        path = part.setting("device_config_file")
        for namespace, name in _mounted(part.namespace, part.volume_of(path)):
            found = config_maps.get(namespace, name)
            if found is not None:
                return found.data.get(PurePosixPath(path).name, "")
    return ""


def set_up(vendors: Callable[[str], Loaded], device_config: str) -> tuple[Loaded, str]:
    """Configure the vendors from a device-config; if it is refused, from none, with the reason as second value."""
    try:
        loaded = vendors(device_config)
        refused = next((p.error for p in loaded.problems if isinstance(p.error, ConfigError)), None)
    except ConfigError as error:
        refused = error
    else:
        if refused is None:
            return loaded, ""
    return vendors(""), str(refused)


def _tls_secrets(install: Install) -> Iterable[tuple[str, str]]:
    for part in install.schedulers:
        source = part.volume_of(part.setting("cert_file"))
        mounted = source[1] if source is not None and source[0] == "Secret" else ""
        yield part.namespace, part.setting("tls_secret") or mounted


def _signing_secrets(install: Install) -> Iterable[tuple[str, str]]:
    for part in install.schedulers:
        source = part.volume_of(part.setting("signing_key"))
        mounted = source[1] if source is not None and source[0] == "Secret" else ""
        yield part.namespace, part.setting("signing_secret") or mounted


def public_halves(secrets: Lookup[Secret]) -> Lookup[tuple[PublicKey, ...]]:
    """The public keys of each signing Secret, derived from its private keys; no private key is returned."""
    keys = {name: tuple(_keys_of(secret)) for name, secret in secrets.found.items()}
    return Lookup(keys, secrets.problems)


def _keys_of(secret: Secret) -> Iterable[PublicKey]:
    for name, pem in secret.data.items():
        try:
            if b"PRIVATE KEY" in pem:
                yield load_private_key(pem, where=name).public_key()
            elif b"PUBLIC KEY" in pem:
                yield from load_public_keys(pem, where=name)
        except ConfigError:
            continue
