"""Vendors as objects, without installation: for tests of calls of hooks."""

from __future__ import annotations

from hami_core import ContainerKind, ContainerSpec, Device, Family, PodFacts, Request, Resources, SelectorKeys, hookimpl
from hami_core.model import DeviceUsage
from hami_core.plugins.discovery import NODE, PLUGINS, VENDORS, Found, Source
from hami_core.plugins.load import assemble

ONE = Family(
    word="ONE",
    resources=Resources(count="one.com/gpu", memory="one.com/mem", cores="one.com/cores"),
    allocated_key="hami.io/one-allocated",
    to_allocate_key="hami.io/one-to-allocate",
    register_key="hami.io/node-one",
    pod_keys=("one.com/level",),
    uuid_selectors=(SelectorKeys("one.com/use", "one.com/nouse"),),
)
DEVICE = Device("d0", 0, 10, 1000, 100, "T", "ONE")
USAGE = DeviceUsage(DEVICE)
POD = PodFacts("ns", "p", "uid", {"one.com/level": "3", "one.com/use": "d0", "secret": "x"})
REQUEST = Request("ONE", 1, memory_mib=100, annotations={"one.com/level": "3"})


def container(**limits):
    return ContainerSpec("c", ContainerKind.APP, {key.replace("_", "/"): str(value) for key, value in limits.items()})


class Minimal:
    """A vendor that implements only `families`."""

    @hookimpl
    def families(self):
        return [ONE]


def vendor_with(**methods):
    """A vendor class with further hooks, each a plain function that takes self."""
    return type("Custom", (Minimal,), {name: hookimpl(method) for name, method in methods.items()})


def wrapper_with(**methods):
    """A wrapper class with hooks, each a generator function that takes self."""
    return type("Wrapper", (), {name: hookimpl(wrapper=True)(method) for name, method in methods.items()})


def found(plugin, name="one", group=VENDORS, distribution="dist-one", version="1.0"):
    return Found(Source(name, group, f"m:{plugin.__name__}", distribution, version), plugin)


def loaded(vendor, *wrappers, node=None, **options):
    nodes = [found(node, group=NODE)] if node else []
    plugins = [found(w, f"w{i}", PLUGINS, f"dist-w{i}") for i, w in enumerate(wrappers)]
    return assemble([found(vendor)], nodes, plugins, side="node" if node else "scheduler", **options)


def one(vendor, *wrappers, **options):
    """Return the only vendor, which must have loaded."""
    result = loaded(vendor, *wrappers, **options)
    assert [str(p) for p in result.problems if p.severity == "error"] == []
    return result.vendors[0]
