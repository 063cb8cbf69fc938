"""The chart's renderer with a registry for our images, which have none by default."""

from __future__ import annotations

from hami_core import manifests
from hami_core.manifests.values import joined


def with_registry(given):
    """Values that name a registry for our images."""
    if (given.get("global") or {}).get("imageRegistry"):
        return given
    ours = {"registry": "registry.example"}
    return joined({"scheduler": {"extender": {"image": ours}}, "devicePlugin": {"image": ours}}, given)


def render(chart, given, release, origins=()):
    return manifests.render(chart, with_registry(given), release, origins)


def warnings(chart, given, release):
    return manifests.warnings(chart, with_registry(given), release)
