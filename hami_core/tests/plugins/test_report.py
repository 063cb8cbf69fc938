"""What ``hami plugins`` shows."""

from __future__ import annotations

import json

from hami_core import Capability, Family, Grade, Resources, Support, hookimpl, plugins
from hami_core.plugins.report import as_json, as_text, capability_matrix
from hami_core.tests.plugins.objects import Minimal, loaded, wrapper_with


def test_report_names_supplier_families_hooks_and_problems(site):
    site.add("one", "api_version = (1, 4)", version="2.5")
    site.add("two", "raise SystemExit\nclass Vendor: ...", dist="bad")
    result = plugins.load(only=["one", "two"])
    data = json.loads(json.dumps(as_json(result)))
    [vendor] = data["vendors"]
    assert (vendor["name"], vendor["distribution"], vendor["version"]) == ("one", "dist-one", "2.5")
    assert vendor["hooks"] == ["families"]
    assert vendor["families"][0]["resources"] == ["one.com/gpu", "one.com/mem"]
    assert [item["name"] for item in data["refused"]] == ["two"]
    assert {problem["plugin"]: problem["severity"] for problem in data["problems"]} == {
        "one": "warning",
        "two": "error",
    }
    text = as_text(result, width=250)
    for part in ("dist-one 2.5", "ONE (one.com/gpu)", "bad 1.0", "SystemExit", "is built for hook API 1.4"):
        assert part in text


def test_report_counts_failures_and_shows_wrappers():
    def deny(self):
        yield
        raise OSError("x")

    result = loaded(Minimal, wrapper_with(register=deny))
    assert "w0  dist-w0 1.0: ok, wraps hooks" in as_text(result)
    assert as_json(result)["plugins"][0]["distribution"] == "dist-w0"


def test_empty_report_says_how_to_install():
    assert "pip install 'hami[all]'" in as_text(plugins.load(only=["no-such-vendor"]))


def test_capabilities_are_shown_as_declared():
    class Vendor:
        @hookimpl
        def families(self):
            grades = {
                Capability.SHARING: Grade(Support.FULL),
                Capability.NODE_AGENT: Grade(Support.PLANNED, "next"),
            }
            return [Family("W", Resources("c"), "k", capabilities=grades)]

    result = loaded(Vendor)
    [row] = capability_matrix(result.vendors)
    assert (row["family"], row["sharing"], row["node-agent"]) == ("W", "full", "planned: next")
    assert row["quota"] == "unsupported"
    assert as_json(result)["vendors"][0]["families"][0]["verifiesSignatures"] is False
