"""HAMi in Python: share one accelerator safely between many pods.

``__all__`` lists what a vendor may import. Each name is loaded on first use, so that ``import hami_core`` is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hami_core._version import __version__

if TYPE_CHECKING:
    from hami_core.capability import Capability, Grade, Support
    from hami_core.errors import (
        ConfigError,
        DeviceError,
        HamiError,
        KubeError,
        RequestError,
        VendorError,
        WireError,
    )
    from hami_core.hookspecs import API_VERSION, hookimpl
    from hami_core.model import (
        Advertisement,
        Allocation,
        Caution,
        ContainerEdits,
        ContainerKind,
        ContainerRef,
        ContainerSlices,
        ContainerSpec,
        Device,
        DeviceKind,
        DeviceNode,
        DeviceUsage,
        DoctorNotes,
        Family,
        HealthChange,
        MetricKind,
        MetricSpec,
        MigInstance,
        MigPlacement,
        MigProfile,
        Mount,
        Mutation,
        NativeSlot,
        Neighbour,
        NodeContext,
        NodeFacts,
        OciHook,
        PodFacts,
        Preference,
        Reason,
        Request,
        Resources,
        Sample,
        SelectorKeys,
        Slice,
    )

_HOME = {
    "hami_core.capability": ("Capability", "Grade", "Support"),
    "hami_core.errors": (
        "ConfigError",
        "DeviceError",
        "HamiError",
        "KubeError",
        "RequestError",
        "VendorError",
        "WireError",
    ),
    "hami_core.hookspecs": ("API_VERSION", "hookimpl"),
    "hami_core.model": (
        "Advertisement",
        "Allocation",
        "Caution",
        "ContainerEdits",
        "ContainerKind",
        "ContainerRef",
        "ContainerSlices",
        "ContainerSpec",
        "Device",
        "DeviceKind",
        "DeviceNode",
        "DeviceUsage",
        "DoctorNotes",
        "Family",
        "HealthChange",
        "MetricKind",
        "MetricSpec",
        "MigInstance",
        "MigPlacement",
        "MigProfile",
        "Mount",
        "Mutation",
        "NativeSlot",
        "Neighbour",
        "NodeContext",
        "NodeFacts",
        "OciHook",
        "PodFacts",
        "Preference",
        "Reason",
        "Request",
        "Resources",
        "Sample",
        "SelectorKeys",
        "Slice",
    ),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "API_VERSION",
    "Advertisement",
    "Allocation",
    "Capability",
    "Caution",
    "ConfigError",
    "ContainerEdits",
    "ContainerKind",
    "ContainerRef",
    "ContainerSlices",
    "ContainerSpec",
    "Device",
    "DeviceError",
    "DeviceKind",
    "DeviceNode",
    "DeviceUsage",
    "DoctorNotes",
    "Family",
    "Grade",
    "HamiError",
    "HealthChange",
    "KubeError",
    "MetricKind",
    "MetricSpec",
    "MigInstance",
    "MigPlacement",
    "MigProfile",
    "Mount",
    "Mutation",
    "NativeSlot",
    "Neighbour",
    "NodeContext",
    "NodeFacts",
    "OciHook",
    "PodFacts",
    "Preference",
    "Reason",
    "Request",
    "RequestError",
    "Resources",
    "Sample",
    "SelectorKeys",
    "Slice",
    "Support",
    "VendorError",
    "WireError",
    "__version__",
    "hookimpl",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    """Load a public name from its module on first use."""
    module = _MODULE_OF.get(name)
    if module is None:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Include public names that are not loaded yet, so that an interactive shell completes them."""
    return sorted({*globals(), *__all__})
