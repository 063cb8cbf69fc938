"""``hami plugins``: its output for vendors with one mistake each, and for node sides on machines without a driver."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from hami_core.cli.plugins import command

NODE = """
from hami_core import Advertisement, ContainerEdits, Device, hookimpl
class Node:
    api_version = (1, 0)
    @hookimpl
    def discover(self): return []
    @hookimpl
    def advertise(self, devices): return Advertisement()
    @hookimpl
    def allocate(self, slices): return ContainerEdits()
"""
BOTH = {"hami.vendors": {"one": "site_one:Vendor"}, "hami.node": {"one": "site_node:Node"}}
FAMILY = """
    from hami_core import Family, Resources, SelectorKeys, hookimpl
    class Vendor:
        api_version = (1, 0)
        @hookimpl
        def families(self):
            return [Family("ONE", {claims})]
"""


@pytest.fixture
def listed(monkeypatch):
    """Run the command on the plugins of this test only, and return its exit status and text."""

    def run(names="one", *options, columns="80"):
        if names is None:
            monkeypatch.delenv("HAMI_PLUGINS", raising=False)
        else:
            monkeypatch.setenv("HAMI_PLUGINS", names)
        monkeypatch.setenv("COLUMNS", columns)
        done = CliRunner().invoke(command, options)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.output

    return run


def flat(text):
    return " ".join(text.split())


def claims(count="one.com/gpu", allocated="hami.io/one-allocated", more=""):
    return FAMILY.format(claims=f"Resources({count!r}), {allocated!r}, {more}")


@pytest.mark.parametrize(
    ("body", "code", "shown"),
    [
        (claims(), 0, "one dist-one 1.0, hook API 1.0: ok"),
        (claims(count="one npu"), 1, "error family ONE: the resource name 'one npu' is not legal"),
        (claims(count="gpu"), 1, "the resource name 'gpu' is not legal, expected domain/name"),
        (claims(more="register_key='hami.io/no de'"), 1, "the annotation key 'hami.io/no de' is not legal"),
        (claims(more="pod_keys=('a/b/c',)"), 1, "the annotation key 'a/b/c' is not legal"),
        (claims(more="type_selectors=(SelectorKeys('one.com/u e', ''),)"), 1, "annotation key 'one.com/u e' is not"),
        (
            claims(allocated="one.com/allocated"),
            0,
            "allocated_key is 'one.com/allocated', expected hami.io/…-allocated",
        ),
        (claims().replace("api_version = (1, 0)", ""), 0, "warning states no contract; write api_version = (1, 0)"),
        (claims().replace("(1, 0)", "'1.0'"), 1, "error api_version is '1.0', expected two whole numbers"),
        (claims() + "\n        def account(self): ...", 1, "error in account: the method has a hook's name"),
        (claims() + "\n        @hookimpl\n        def discover(self): ...", 0, "name the wrong class?"),
    ],
)
def test_mistake_of_a_scheduler_side_is_reported(site, listed, body, code, shown):
    site.add("one", body)
    status, text = listed()
    assert (status, shown in flat(text)) == (code, True), text


def test_illegal_entry_point_name_is_an_error(site, listed):
    site.add("Acme NPU", claims(), dist="acme")
    status, text = listed("Acme NPU")
    assert status == 1
    assert "the entry point name 'Acme NPU' must be lower case, digits and '-'" in flat(text)


@pytest.mark.parametrize(
    ("node", "code", "shown"),
    [
        (NODE, 0, "node side ok (site_node:Node)"),
        ("import libacme_smi\n" + NODE, 0, "not importable here: ModuleNotFoundError: No module named 'libacme_smi'"),
        ("import ctypes; ctypes.CDLL('libacme.so.1')\n" + NODE, 0, "not importable here: OSError: libacme.so.1"),
        ("open('/dev/no-such-acme')\n" + NODE, 0, "not importable here: FileNotFoundError"),
        (NODE + "    def __init__(self): raise OSError('no driver')", 0, "not importable here: OSError: no driver"),
        ("import site_node.parts\n" + NODE, 1, "error node side: cannot be imported"),
        ("from hami_core import Advertisment\n" + NODE, 1, "node side: cannot be imported"),
        ("1 / 0\n" + NODE, 1, "ZeroDivisionError"),
        ("def f(:\n" + NODE, 1, "SyntaxError"),
        (NODE + "    def __init__(self): raise KeyError('x')", 1, "node side: cannot be created: KeyError"),
        (NODE.replace("Node:", "Other:"), 1, "error node side: cannot be imported"),
        (NODE.replace("def allocate", "def allocat"), 1, "in allocat: node side: there is no such hook; did you mean"),
        (
            NODE.replace("    @hookimpl\n    def allocate", "    def allocate"),
            1,
            "in allocate: node side: the method has",
        ),
        (NODE.replace("allocate(self, slices)", "release(self)"), 1, "error the node side does not implement allocate"),
        (NODE.replace("slices", "slice"), 1, "in allocate: node side: the hook has no argument 'slice'; did you mean"),
        (NODE.replace("(1, 0)", "(2, 0)"), 1, "node side: is built for hook API 2.0"),
    ],
)
def test_mistake_of_a_node_side_is_reported(site, listed, node, code, shown):
    site.add("one", claims(), points=BOTH)
    (site.root / "site_node.py").write_text(node)
    status, text = listed()
    assert (status, shown in flat(text)) == (code, True), text
    assert "one dist-one 1.0, hook API 1.0" in flat(text)  # the scheduler side is loaded all the same
    _, data = listed("one", "--json")
    assert [side["name"] for side in json.loads(data)["nodeSides"]] == ["one"]


@pytest.mark.parametrize(
    ("points", "shown"),
    [
        ({"hami.node": {"one": "site_node:Node"}}, "no entry point of this name in hami.vendors"),
        (
            {"hami.vendors": {"one": "site_one:Vendor"}, "hami.node": {"one-node": "site_node:Node"}},
            "dist-one calls its scheduler side one: give both the same name",
        ),
        ({"hami.vendor": {"one": "site_one:Vendor"}}, "in the group 'hami.vendor', which nobody reads; did you mean"),
        ({"hami.nodes": {"one": "site_one:Vendor"}}, "which nobody reads; did you mean hami.node?"),
        ({"hami_plugins": {"one": "site_one:Vendor"}}, "which nobody reads; did you mean hami.plugins?"),
        ({"hami.devices": {"one": "site_one:Vendor"}}, "expected one of hami.vendors, hami.node, hami.plugins"),
    ],
)
def test_misplaced_entry_point_is_an_error(site, listed, points, shown):
    site.add("one", claims(), points=points)
    (site.root / "site_node.py").write_text(NODE)
    status, text = listed(None)
    assert (status, shown in flat(text)) == (1, True), text


def test_unknown_name_in_the_switch_is_reported(site, listed):
    site.add("acme", claims())
    _, text = listed("acmee")
    assert "HAMI_PLUGINS: 'acmee' names no installed plugin; did you mean acme?" in flat(text)
    assert "pip install 'hami[all]'" in text


def test_list_fits_80_columns_without_breaking_a_name(site, listed):
    site.add("one", claims(count="accelerators.one.example/npu-of-the-third-generation"), dist="a-long-name-" * 3)
    _, text = listed(None)
    assert max(map(len, text.splitlines())) <= 80
    for name in ("accelerators.one.example/npu-of-the-third-generation", "mutate_admission", "nvidia.com/gpu"):
        assert name in text
