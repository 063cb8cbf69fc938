"""Chart and values → Kubernetes objects, as helm would make them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hami_core.documents import load_all_yaml
from hami_core.errors import ConfigError
from hami_core.manifests import values as values_of
from hami_core.manifests.helm import rendered

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hami_core.manifests.chart import Chart
    from hami_core.manifests.release import Release

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
_DOCUMENT: Final = re.compile(r"(?:^|\s*\n)---(?:[ \t]*\n|$)")
_WARNING: Final = "\nWARNING\n"
"""Begins the warnings in NOTES.txt; they are its end."""


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
    files = ", ".join(dict.fromkeys(where for where, _ in origins))
    where = f"values {files}".rstrip()
    texts = rendered(chart.path, given, release, where)
    templates = [source for source in texts if source.endswith(".yaml")]
    found = [each for source in templates for each in _manifests(source, texts[source], where)]
    rank = {kind: place for place, kind in enumerate(ORDER)}
    kinds = [(manifest.content["kind"], manifest) for manifest in found]
    return [manifest for kind, manifest in sorted(kinds, key=lambda each: (rank.get(each[0], len(rank)), each[0]))]


def warnings(chart: Chart, given: Mapping[str, Any], release: Release) -> list[str]:
    """What the values ask for and the chart does not do, one sentence each; helm shows the same in its notes."""
    notes = rendered(chart.path, given, release)[f"{chart.meta['name']}/templates/NOTES.txt"]
    return [line for line in notes.partition(_WARNING)[2].splitlines() if line.strip()]


def _check_version(chart: Chart, merged: Mapping[str, Any], release: Release) -> None:
    oldest = re.match(r">=(\d+)\.(\d+)", chart.meta.get("kubeVersion", ""))
    given = re.match(r"v?(\d+)\.(\d+)", release.kube_version)
    if oldest and given and (int(given[1]), int(given[2])) < (int(oldest[1]), int(oldest[2])):
        raise ConfigError("kube-version", f"{release.kube_version} is too old", f"the chart is for {oldest[0]}")
    scheduler = merged["scheduler"]["kubeScheduler"]
    if scheduler["enabled"] and not scheduler["image"]["tag"] and not release.kube_version:
        fix = "give --kube-version, or scheduler.kubeScheduler.image.tag"
        raise ConfigError("kube-version", "kube-scheduler must be of the cluster's version, which is not known", fix)


def _manifests(source: str, text: str, where: str) -> Iterator[Manifest]:
    for document in _DOCUMENT.split(text):
        for content in load_all_yaml(document, f"{where}: {source}"):
            if content is not None:
                yield Manifest(source, document.strip("\n"), content)
