"""What an installation is made for: names, namespace, and the cluster."""

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
    """What the objects are made for.

    Attributes:
        name: Of the release, part of names.
        namespace: Where its objects live.
        kube_version: The cluster's, such as ``1.36.3``; empty: not known.
        api_versions: What the cluster serves beside Kubernetes' own, such as
            ``monitoring.coreos.com/v1/ServiceMonitor``.

    Raises:
        ConfigError: A name or version has not its form.
    """

    name: str = "hami"
    namespace: str = "kube-system"
    kube_version: str = ""
    api_versions: Collection[str] = ()

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or len(self.name) > 53:
            raise ConfigError("name", f"{self.name!r} is no name", "small letters, digits and -, at most 53")
        if not _NAMESPACE.fullmatch(self.namespace) or len(self.namespace) > 63:
            raise ConfigError("namespace", f"{self.namespace!r} is no name of a namespace")
        if self.kube_version and not re.fullmatch(r"v?\d+\.\d+\.\d+([-+].*)?", self.kube_version):
            raise ConfigError("kube-version", f"{self.kube_version!r} is no version", "write it as 1.36.3")
