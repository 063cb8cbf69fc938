"""HAMi's variables: programs may read them, but beside a limits folder they decide nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from hami_interpose._regions import ROOT_VARIABLE, STANDARD_ROOT, library_root
from hami_interpose._show import printable
from hami_interpose.checks.finding import not_applicable, ok

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hami_interpose.checks.finding import Finding

_READ: Final = re.compile(  # by libvgpu.so where there is no folder
    r"CUDA_DEVICE_(MEMORY|SM)_LIMIT(_\d+)?|CUDA_DEVICE_MEMORY_SHARED_CACHE|CUDA_TASK_PRIORITY"
    r"|GPU_CORE_UTILIZATION_POLICY"
)
_NEVER: Final = re.compile(r"CUDA_OVERSUBSCRIBE|CUDA_DISABLE_CONTROL|LIBCUDA_LOG_LEVEL|ACTIVE_OOM_KILLER")


def check(environ: Mapping[str, str]) -> Finding:
    """Names those that are set and ignored."""
    source = library_root(environ)
    named = source == STANDARD_ROOT and ROOT_VARIABLE in environ
    ignored = [
        f"{name}={printable(value)}"
        for name, value in sorted(environ.items())
        if _NEVER.fullmatch(name) or (source and _READ.fullmatch(name)) or (named and name == ROOT_VARIABLE)
    ]
    if ignored:
        why = f"{source / 'limits'} decides" if source else "libvgpu.so has no such variables"
        return ok("environment", f"set and ignored, {why}: {', '.join(ignored)}")
    if not source:
        return not_applicable("environment", "without a limits folder HAMi's variables decide")
    return ok("environment", "no variable is set that would be ignored")
