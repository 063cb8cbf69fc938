"""Writes this agent's annotations and labels on the node object, and only where they differ."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from hami_core.kube.informer import Backoff, Informer
from hami_core.kube.patch import metadata_patch
from hami_core.kube.port import NODES, ApiError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hami_core.kube.objects import Node
    from hami_core.kube.port import KubeApi

log = structlog.get_logger(__name__)


class NodeWriter:
    """Keeps some annotations and labels of one node at their wanted values, and restores them when others change them.

    Args:
        api: The Kubernetes API.
        node: The node's name.
    """

    def __init__(self, api: KubeApi, node: str) -> None:
        self.informer: Informer[Node] = Informer(api, NODES, field_selector=f"metadata.name={node}")
        self.written = 0
        self.is_current = False
        """Whether the node object has all wanted values."""
        self._api = api
        self.name = node
        self._annotations: dict[str, str] = {}
        self._labels: dict[str, str] = {}
        self._vendor_labels: dict[str, dict[str, str | None]] = {}
        self._revision = self._written_revision = 0
        self._returned: tuple[str, Node] | None = None
        self._wake = asyncio.Event()
        self.informer.on_change(lambda _old, _new: self._wake.set())

    def want(self, annotations: Mapping[str, str], labels: Mapping[str, str]) -> None:
        """Add wanted values. Earlier ones stay wanted unless these replace them."""
        if annotations.items() <= self._annotations.items() and labels.items() <= self._labels.items():
            return
        self._annotations.update(annotations)
        self._labels.update(labels)
        self._revision += 1
        self.is_current = False
        self._wake.set()

    def want_labels(self, vendor: str, labels: Mapping[str, str | None]) -> None:
        """Replace the labels that a vendor wants. None removes a label; one that is no longer wanted stays as it is."""
        if labels == self._vendor_labels.get(vendor, {}):
            return
        self._vendor_labels[vendor] = dict(labels)
        self._revision += 1
        self.is_current = False
        self._wake.set()

    @property
    def node(self) -> Node | None:
        """The node object as last seen."""
        return self.informer.store.get(self.name)

    async def run(self) -> None:
        """Write until cancelled.

        If another process changes the values again and again, the writer restores them after growing pauses. Such a
        process may be a second agent of the same vendor.
        """
        backoff, pauses = Backoff(0.5, 30), Backoff(0.5, 5)
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                restored = await self._write()
                backoff.reset()
                if restored:
                    await asyncio.sleep(pauses.next())
                else:
                    pauses.reset()
            except ApiError as error:
                wait = max(backoff.next(), error.retry_after_s)
                log.warning("can't write the node object", error=str(error), retry_s=round(wait, 2))
                await asyncio.sleep(wait)
                self._wake.set()

    async def _write(self) -> bool:
        """Write what is missing. Returns whether this restored values that another process had changed."""
        node, revision = self.node, self._revision
        if node is None:
            return False
        seen = node.metadata.resource_version
        if self._returned and self._returned[0] == seen:
            # The watch has not yet delivered our last write; the object that the write returned is newer.
            node = self._returned[1]
        annotations = _difference(self._annotations, node.metadata.annotations)
        wanted: dict[str, str | None] = {}
        for of_vendor in self._vendor_labels.values():
            wanted.update(of_vendor)
        labels = _difference({**wanted, **self._labels}, node.metadata.labels)
        restored = bool(annotations or labels) and revision == self._written_revision
        if annotations or labels:
            patch = metadata_patch(annotations=annotations, labels=labels)
            self._returned = seen, await self._api.patch(NODES, self.name, patch)
            self.written += 1
            log.info("node object written", keys=sorted({*annotations, *labels}), restored=restored)
        self._written_revision = revision
        self.is_current = revision == self._revision  # otherwise `want` was called during the write
        return restored


def _difference(wanted: Mapping[str, str | None], there: Mapping[str, str]) -> dict[str, str | None]:
    return {key: value for key, value in wanted.items() if there.get(key) != value}
