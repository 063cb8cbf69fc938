"""Renders chart and values into Kubernetes objects, as helm would."""

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
"""Kinds in the order in which helm installs them; other kinds come last, by name."""
_DOCUMENT: Final = re.compile(r"(?:^|\s*\n)---(?:[ \t]*\n|$)")
_WARNING: Final = "\nWARNING\n"
"""Heading of the warnings, which end NOTES.txt."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object.

    Attributes:
        source: The template that made it.
        text: YAML with comments.
        content: The parsed YAML.
    """

    source: str
    text: str
    content: Mapping[str, Any]


def render(chart: Chart, given: Mapping[str, Any], release: Release, origins: values_of.Given = ()) -> list[Manifest]:
    """Make all objects, in the order in which to apply them.

    Args:
        chart: The chart.
        given: Values that override the chart's defaults.
        release: The release and its cluster.
        origins: The files and flags that the values come from, for errors.

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
    """Warnings about values that the chart does not follow, one sentence each. helm shows them in its notes, too."""
    notes = rendered(chart.path, given, release)[f"{chart.meta['name']}/templates/NOTES.txt"]
    return [line for line in notes.partition(_WARNING)[2].splitlines() if line.strip()]


def _check_version(chart: Chart, merged: Mapping[str, Any], release: Release) -> None:
    oldest = re.match(r">=(\d+)\.(\d+)", chart.meta.get("kubeVersion", ""))
    given = re.match(r"v?(\d+)\.(\d+)", release.kube_version)
    if oldest and given and (int(given[1]), int(given[2])) < (int(oldest[1]), int(oldest[2])):
        raise ConfigError("kube-version", f"{release.kube_version} is too old", f"the chart is for {oldest[0]}")
    scheduler = merged["scheduler"]["kubeScheduler"]
    image = scheduler["image"]
    tag = scheduler.get("imageTag") or (isinstance(image, dict) and image["tag"])
    if scheduler["enabled"] and not tag and not release.kube_version:
        fix = "give --kube-version, or set scheduler.kubeScheduler.image.tag"
        problem = "kube-scheduler must have the cluster's version, which is not known"
        raise ConfigError("kube-version", problem, fix)


def _manifests(source: str, text: str, where: str) -> Iterator[Manifest]:
    for document in _DOCUMENT.split(text):
        for content in load_all_yaml(document, f"{where}: {source}"):
            if content is not None:
                yield Manifest(source, document.strip("\n"), content)
