"""Helm's own template engine, from the Python package ``helm-python-sdk`` (docs/adr/0015).

The engine contacts no cluster. The package comes with the extra ``hami[manifests]`` and is imported at the first use.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from hami_core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hami_core.manifests.release import Release


def rendered(chart: Path, given: Mapping[str, Any], release: Release, where: str = "values") -> dict[str, str]:
    """Execute a chart's templates.

    Args:
        chart: The chart's folder.
        given: Values that override the chart's defaults.
        release: The release and its cluster.
        where: Name of the values, for errors.

    Returns:
        Template, such as ``hami/templates/webhook.yaml`` → rendered text.

    Raises:
        ConfigError: The package is not installed, or a template refuses the values.
    """
    try:
        import helm_python  # noqa: PLC0415 - an optional extra
        from helm_python import _native  # noqa: PLC0415
    except Exception as error:
        fix = "python -m pip install 'hami[manifests]'"
        raise ConfigError("manifests", f"helm's engine can't be loaded: {error}", fix) from error
    options = {
        "name": release.name,
        "namespace": release.namespace,
        "kube_version": release.kube_version,
        "api_versions": list(release.api_versions),
    }
    try:
        with helm_python.Chart.load(chart) as loaded:
            # Chart.render() takes neither kube_version nor api_versions. The library's own function takes both.
            found = _native.call_string("helm_render", loaded._raw(), json.dumps(given), json.dumps(options))  # noqa: SLF001
    except helm_python.HelmError as error:
        problem = re.sub(r".*execution error at \(.*?\): ", "", " ".join(str(error).split()))
        raise ConfigError(where, f"the chart refuses them: {problem}") from error
    texts: dict[str, str] = json.loads(found)
    return texts
