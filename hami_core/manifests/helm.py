"""Helm's own template engine, by the Python package ``helm-python-sdk`` (docs/adr/0015).

No cluster is asked. The package is the extra ``hami[manifests]``: it is imported at the first use.
"""

from __future__ import annotations

import json
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
        given: Values over the chart's defaults.
        release: What the objects are made for.
        where: The values' name, for errors.

    Returns:
        Template, such as ``hami/templates/webhook.yaml`` → what it came to.

    Raises:
        ConfigError: The package is not installed, or a template refuses the values.
    """
    try:
        import helm_python  # noqa: PLC0415 - an optional extra
        from helm_python import _native  # noqa: PLC0415
    except Exception as error:
        fix = "python -m pip install 'hami[manifests]'"
        raise ConfigError("hami manifests", f"helm's engine can't be loaded: {error}", fix) from error
    options = {
        "name": release.name,
        "namespace": release.namespace,
        "kube_version": release.kube_version,
        "api_versions": list(release.api_versions),
    }
    try:
        with helm_python.Chart.load(chart) as loaded:
            # Chart.render() takes neither the cluster's version nor what it serves. The library's function takes both.
            found = _native.call_string("helm_render", loaded._raw(), json.dumps(given), json.dumps(options))  # noqa: SLF001
    except helm_python.HelmError as error:
        raise ConfigError(where, f"make no objects: {' '.join(str(error).split())}") from error
    texts: dict[str, str] = json.loads(found)
    return texts
