"""The chart's renderer with a registry for our images, which have none by default; and charts for other images."""

from __future__ import annotations

import json
import shutil

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


def chart_of_image(folder, *vendors):
    """The chart of an image that holds the packages of these vendors only."""
    shutil.copytree(manifests.folder(), folder)
    (folder / "files/vendors.json").write_text(json.dumps(vendors))
    return manifests.Chart.read(folder)
