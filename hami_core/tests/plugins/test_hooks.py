"""The table of hooks is complete and typed as strictly as the specifications, for direct and for awaited calls."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mypy import api as mypy

from hami_core import hookspecs
from hami_core.hookspecs import hookspec
from hami_core.plugins.call import Hook
from hami_core.plugins.hooks import HOOKS, NODE, START, NodeHooks, SchedulerHooks, StartHooks, table
from hami_core.tests.plugins.objects import POD, one, vendor_with

ROOT = Path(__file__).parents[3]

USES = """
import asyncio
from hami_core.agent.vendor import Vendor
from hami_core.model import Device, NodeFacts, Sample
from hami_core.plugins import LoadedVendor

def right(vendor: LoadedVendor, node: NodeFacts) -> tuple[Device, ...] | None:
    return vendor.register(node) or vendor.discover()

async def right_awaited(vendor: Vendor) -> tuple[Sample, ...]:
    await vendor.advertise(devices=await vendor.discover())
    return await asyncio.wait_for(vendor.metrics({}, {}), 1)

def wrong(vendor: LoadedVendor, node: NodeFacts) -> None:
    vendor.register("n1")  # arg-type
    vendor.register()  # call-arg
    vendor.register(node=node, of=1)  # call-arg
    len(vendor.register(node))  # arg-type
    vendor.rules()[0].check_type(node, "T")  # arg-type
    vendor.check_uuid.rule()(node, "d0")  # arg-type
    vendor.discover()[0].gone  # attr-defined
    vendor.patch  # attr-defined

async def wrong_awaited(vendor: Vendor) -> None:
    await vendor.advertise("d0", 1)  # arg-type call-arg
    await vendor.health()  # call-arg
    vendor.health([]).append  # attr-defined
    (await vendor.metrics({}, {}))[0].gone  # attr-defined
    x: str = await vendor.allocate((), "c")  # arg-type assignment
    await vendor.release({}, {})  # arg-type call-arg
    vendor.register  # attr-defined
"""


def spec(*names):
    """A module of specifications, as a class."""
    return type("specs", (), {name: hookspec(named(name)) for name in names})


def named(name):
    def function(node):
        pass

    function.__name__ = name
    return function


def test_every_specification_has_its_line():
    assert {name for name, it in vars(hookspecs).items() if hasattr(it, "hami_spec")} == HOOKS.keys()
    of_classes = [HOOKS.keys() & vars(cls).keys() for cls in (StartHooks, SchedulerHooks, NodeHooks)]
    assert sum(map(len, of_classes)) == len(HOOKS)
    assert (of_classes[0], of_classes[2]) == (START, NODE)


def test_specification_without_a_line_is_named():
    specs = spec("register", "reset")
    with pytest.raises(TypeError, match=r"hook reset has no line: add one to hami_core/plugins/hooks\.py"):
        table(specs, type("Hooks", (), {"register": Hook(specs.register)}))


@pytest.mark.parametrize(
    "line",
    [Hook(named("reset")), Hook(hookspec(named("reset"))), Hook(spec("register").register)],
    ids=["function", "specification elsewhere", "another's"],
)
def test_line_without_a_specification_is_named(line):
    specs = spec("register")
    with pytest.raises(TypeError, match=r"hook reset of .*hooks\.py has no specification"):
        table(specs, type("Hooks", (), {"register": Hook(specs.register), "reset": line}))


def test_line_under_another_hooks_name_is_named():
    specs = spec("register", "reset")
    with pytest.raises(TypeError, match=r"hook register of .*hooks\.py has no specification"):
        table(specs, type("Hooks", (), {"register": Hook(specs.reset), "reset": Hook(specs.register)}))


def test_arguments_may_be_given_by_name_as_the_types_say():
    seen = []
    vendor = one(vendor_with(lock_annotations=lambda self, node, pod: seen.append((node, dict(pod.annotations)))))
    vendor.lock_annotations("n1", pod=POD)
    vendor.lock_annotations(pod=POD, node="n2")
    assert seen == [(node, {"one.com/level": "3", "one.com/use": "d0"}) for node in ("n1", "n2")]


def test_uses_that_do_not_fit_the_specification_are_refused(tmp_path):
    """Exactly the lines that end in a comment are wrong, for the reasons that the comment names."""
    file = tmp_path / "uses.py"
    file.write_text(USES)
    told, failure, _ = mypy.run(
        ["--strict", f"--config-file={ROOT}/pyproject.toml", f"--cache-dir={tmp_path}/cache", str(file)]
    )
    assert failure == ""
    found = {(int(n), code) for n, code in re.findall(r"uses\.py:(\d+): error: .*\[([a-z-]+)\]", told)}
    wanted = {
        (number, code) for number, line in enumerate(USES.splitlines(), 1) for code in line.partition("#")[2].split()
    }
    assert found == wanted, told
