"""Chart and values → Kubernetes objects, as helm would make them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hami_core.documents import load_all_yaml
from hami_core.errors import ConfigError
from hami_core.manifests import values as values_of
from hami_core.manifests.template import Templates

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from hami_core.manifests.chart import Chart

ORDER: Final = (
    "Namespace",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "ConfigMap",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Service",
    "DaemonSet",
    "Deployment",
    "MutatingWebhookConfiguration",
)
"""Kinds in the order helm installs them; others come last, by name."""
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DOCUMENT: Final = re.compile(r"(?:^|\s*\n)---(?:[ \t]*\n|$)")


@dataclass(frozen=True, slots=True)
class Release:
    """What the objects are made for.

    Attributes:
        name: Of the release, part of names.
        namespace: Where its objects live.
        kube_version: The cluster's, such as ``1.36.3``; empty: not known.
        api_versions: What the cluster serves beside Kubernetes' own, such as
            ``monitoring.coreos.com/v1/ServiceMonitor``.
        service: Who manages the objects, for their label.
    """

    name: str = "hami"
    namespace: str = "kube-system"
    kube_version: str = ""
    api_versions: Collection[str] = ()
    service: str = "hami"

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or len(self.name) > 53:
            raise ConfigError("name", f"{self.name!r} is no name", "small letters, digits and -, at most 53")
        if not _NAMESPACE.fullmatch(self.namespace) or len(self.namespace) > 63:
            raise ConfigError("namespace", f"{self.namespace!r} is no name of a namespace")
        if self.kube_version and not re.fullmatch(r"v?\d+\.\d+\.\d+([-+].*)?", self.kube_version):
            raise ConfigError("kube-version", f"{self.kube_version!r} is no version", "write it as 1.36.3")


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object.

    Attributes:
        source: The template it comes from.
        text: YAML with its comments.
        content: The same, read.
    """

    source: str
    text: str
    content: Mapping[str, Any]


def render(chart: Chart, given: Mapping[str, Any], release: Release, origins: values_of.Given = ()) -> list[Manifest]:
    """Make all objects, in the order they are to be applied.

    Args:
        chart: The chart.
        given: Values over the chart's defaults.
        release: What they are made for.
        origins: The files that the values come from, for errors.

    Raises:
        ConfigError: A value is wrong, or a template can't be executed.
    """
    merged = values_of.laid_over(chart.values, given)
    values_of.check(merged, chart.schema, origins)
    _check_version(chart, merged, release)
    templates = Templates(chart.templates)
    data = _data(chart, merged, release)
    found: list[Manifest] = []
    try:
        for name in chart.templates:
            if name.endswith((".yaml", ".yml")):
                found += _manifests(f"{chart.meta['name']}/{name}", templates.render(name, data))
    except ConfigError as error:
        files = ", ".join(dict.fromkeys(where for where, _ in origins))
        raise type(error)(f"values {files}".rstrip(), f"make no objects: {error}") from error
    rank = {kind: place for place, kind in enumerate(ORDER)}
    kinds = [(manifest.content["kind"], manifest) for manifest in found]
    return [manifest for kind, manifest in sorted(kinds, key=lambda each: (rank.get(each[0], len(rank)), each[0]))]


def warnings(chart: Chart, given: Mapping[str, Any], release: Release) -> list[str]:
    """What the values ask for and the chart does not do, one sentence each; helm shows the same in its notes."""
    data = _data(chart, values_of.laid_over(chart.values, given), release)
    asking = '{{ include "hami.warnings" . }}'
    text = Templates({**chart.templates, "warnings": asking}).render("warnings", data)
    return [line for line in text.splitlines() if line.strip()]


def _check_version(chart: Chart, merged: Mapping[str, Any], release: Release) -> None:
    oldest = re.match(r">=(\d+)\.(\d+)", chart.meta.get("kubeVersion", ""))
    given = re.match(r"v?(\d+)\.(\d+)", release.kube_version)
    if oldest and given and (int(given[1]), int(given[2])) < (int(oldest[1]), int(oldest[2])):
        raise ConfigError("kube-version", f"{release.kube_version} is too old", f"the chart is for {oldest[0]}")
    scheduler = merged["scheduler"]["kubeScheduler"]
    if scheduler["enabled"] and not scheduler["image"]["tag"] and not release.kube_version:
        fix = "give --kube-version, or scheduler.kubeScheduler.image.tag"
        raise ConfigError("kube-version", "kube-scheduler must be of the cluster's version, which is not known", fix)


def _data(chart: Chart, merged: Mapping[str, Any], release: Release) -> dict[str, Any]:
    """What templates see as their current value."""
    meta = chart.meta
    return {
        "Values": merged,
        "Release": {"Name": release.name, "Namespace": release.namespace, "Service": release.service},
        "Chart": {"Name": meta["name"], "Version": meta["version"], "AppVersion": str(meta["appVersion"])},
        "Capabilities": {
            "KubeVersion": {"Version": "v" + release.kube_version.removeprefix("v")},
            "APIVersions": {"Has": lambda version: version in release.api_versions},
        },
        "Files": {"Get": chart.file, "Glob": chart.glob},
    }


def _manifests(source: str, text: str) -> Iterator[Manifest]:
    for document in _DOCUMENT.split(text):
        for content in load_all_yaml(document, source):
            if content is not None:
                yield Manifest(source, document.strip("\n"), content)
