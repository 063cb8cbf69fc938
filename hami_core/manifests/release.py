"""The release to make objects for: its name, its namespace and its cluster."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hami_core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Release:
    """A release of the chart, and what is known of its cluster.

    Attributes:
        name: The release's name, part of object names.
        namespace: Namespace of the objects.
        kube_version: The cluster's version, such as ``1.36.3``; empty: not known.
        api_versions: Custom APIs that the cluster serves, such as ``monitoring.coreos.com/v1/ServiceMonitor``; without
            a kind, all kinds of the API.

    Raises:
        ConfigError: A name or version is malformed.
    """

    name: str = "hami"
    namespace: str = "kube-system"
    kube_version: str = ""
    api_versions: Collection[str] = ()

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or len(self.name) > 53:
            fix = "use lower-case letters, digits, - and ., at most 53 characters"
            raise ConfigError("name", f"{self.name!r} is not a valid release name", fix)
        if not _NAMESPACE.fullmatch(self.namespace) or len(self.namespace) > 63:
            raise ConfigError("namespace", f"{self.namespace!r} is not a valid name of a namespace")
        if self.kube_version and not re.fullmatch(r"v?\d+\.\d+\.\d+([-+].*)?", self.kube_version):
            raise ConfigError("kube-version", f"{self.kube_version!r} is not a version", "write it as 1.36.3")
