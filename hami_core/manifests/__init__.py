"""Makes the objects of an installation from the Helm chart, without the helm program.

The chart in contrib/helm/hami is the only source (docs/adr/0015). This package checks an administrator's values
against the chart's schema. Then helm's own engine, a Python package, executes the templates.
"""

from __future__ import annotations

from hami_core.manifests.chart import Chart, folder
from hami_core.manifests.release import Release
from hami_core.manifests.render import Manifest, render, warnings

__all__ = ["Chart", "Manifest", "Release", "folder", "render", "warnings"]
