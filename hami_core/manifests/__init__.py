"""The objects of an installation without helm's program, made from helm's own chart.

The chart in contrib/helm/hami is the one source (docs/adr/0015). This package checks an administrator's values against
the chart's schema, then lets helm's own engine, a Python package, execute the templates.
"""

from __future__ import annotations

from hami_core.manifests.chart import Chart, folder
from hami_core.manifests.release import Release
from hami_core.manifests.render import Manifest, render, warnings

__all__ = ["Chart", "Manifest", "Release", "folder", "render", "warnings"]
