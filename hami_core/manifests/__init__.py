"""The objects of an installation without helm, made from helm's own chart.

The chart in contrib/helm/hami is the one source (docs/adr/0005); this package reads its values, checks them against its
schema and executes its templates. It knows nothing of what they say.
"""

from __future__ import annotations

from hami_core.manifests.chart import Chart, folder
from hami_core.manifests.render import Manifest, Release, render, warnings
from hami_core.manifests.template import TemplateError, Templates

__all__ = ["Chart", "Manifest", "Release", "TemplateError", "Templates", "folder", "render", "warnings"]
