"""Reads and writes the Secrets and ConfigMap with credentials. Each write names the version that was read."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hami_core.errors import ConfigError
from hami_core.kube.patch import merge_patch
from hami_core.kube.port import CONFIG_MAPS, SECRETS, ApiError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hami_core.kube.objects import ConfigMap, Secret
    from hami_core.kube.port import KubeApi, Resource

T = TypeVar("T")

OWNED: Final = "hami.io/credentials"
"""Label of the Secrets and ConfigMaps that we may write. Its value is ``webhook`` or ``signing``."""


class Collision(Exception):  # noqa: N818 - not an error: another replica was first
    """The object has been written since it was read, so it has to be read again."""


class Store:
    """Secrets and ConfigMaps of one namespace.

    Args:
        api: The Kubernetes API.
        namespace: Their namespace.
    """

    def __init__(self, api: KubeApi, namespace: str) -> None:
        self._api = api
        self.namespace = namespace

    async def secret(self, name: str, purpose: str) -> Secret | None:
        """Read a Secret of ours; None: there is none.

        Raises:
            ConfigError: The Secret is not ours.
        """
        found = await self._get(SECRETS, name)
        if found is not None and any(found.data.values()):
            self._check_owned(f"Secret {found.key}", found.metadata.labels, found.data, purpose)
        return found

    async def config_map(self, name: str, purpose: str) -> ConfigMap | None:
        """Read a ConfigMap of ours; None: there is none.

        Raises:
            ConfigError: The ConfigMap is not ours.
        """
        found = await self._get(CONFIG_MAPS, name)
        if found is not None and (found.data or found.binary_data):
            entries = {**found.data, **found.binary_data}
            self._check_owned(f"ConfigMap {found.key}", found.metadata.labels, entries, purpose)
        return found

    async def write_secret(
        self,
        name: str,
        purpose: str,
        found: Secret | None,
        data: Mapping[str, bytes],
        *,
        drop: frozenset[str] = frozenset(),
        kind: str = "Opaque",
    ) -> None:
        """Create a Secret, or change the one that was found: set ``data`` and remove the entries in ``drop``.

        Raises:
            Collision: The Secret has changed since it was found.
        """
        encoded: dict[str, Any] = {key: base64.b64encode(value).decode() for key, value in data.items()}
        encoded |= dict.fromkeys(drop)
        await self._write(SECRETS, "Secret", name, purpose, found=found, body={"data": encoded, "type": kind})

    async def write_config_map(
        self, name: str, purpose: str, found: ConfigMap | None, data: Mapping[str, str], *, drop: frozenset[str]
    ) -> None:
        """Create a ConfigMap, or change the one that was found: set ``data`` and remove the entries in ``drop``.

        Raises:
            Collision: The ConfigMap has changed since it was found.
        """
        entries: dict[str, Any] = {**data, **dict.fromkeys(drop)}
        await self._write(CONFIG_MAPS, "ConfigMap", name, purpose, found=found, body={"data": entries})

    async def _get(self, resource: Resource[T], name: str) -> T | None:
        try:
            return await self._api.get(resource, name, self.namespace)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def _write(
        self,
        resource: Resource[Any],
        kind: str,
        name: str,
        purpose: str,
        *,
        found: Secret | ConfigMap | None,
        body: dict[str, Any],
    ) -> None:
        labels = {OWNED: purpose, "app.kubernetes.io/managed-by": "hami-scheduler"}
        try:
            if found is None:
                meta = {"name": name, "namespace": self.namespace, "labels": labels}
                content = body | {"data": {key: value for key, value in body["data"].items() if value is not None}}
                made = {"apiVersion": "v1", "kind": kind, "metadata": meta, **content}
                await self._api.create(resource, made, self.namespace)
                return
            # A Secret's type can't be changed, so an empty Secret that existed before keeps its type.
            changes = {"data": body["data"]}
            version = {"resourceVersion": found.metadata.resource_version}
            mine = labels if OWNED not in found.metadata.labels else {}
            patch = merge_patch({"metadata": {**version, **({"labels": mine} if mine else {})}, **changes})
            await self._api.patch(resource, name, patch, self.namespace)
        except ApiError as error:
            if error.status == 409 or (error.status == 404 and found is not None):
                raise Collision(str(error)) from error
            raise

    @staticmethod
    def _check_owned(what: str, labels: Mapping[str, str], entries: Mapping[str, object], purpose: str) -> None:
        if labels.get(OWNED) == purpose:
            return
        problem = f"is not ours: it holds {', '.join(sorted(entries))} and has no label {OWNED}={purpose}"
        raise ConfigError(what, problem, "name another, or delete it; an empty one is taken over")
