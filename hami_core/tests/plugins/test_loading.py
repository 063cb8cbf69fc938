"""Discovery and loading: which plugins are found or refused. No plugin can end the process."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hami_core import ConfigError, VendorError, plugins
from hami_core.plugins.discovery import SWITCH, Selection

ALL = ["one", "two", "three", "audit"]


def errors(loaded):
    return [str(problem) for problem in loaded.problems if problem.severity == "error"]


def test_vendor_is_found_with_distribution_and_version(site):
    site.add("one", version="1.2.3", dist="acme-one")
    loaded = plugins.load(only=ALL)
    assert [(v.name, v.distribution, v.version) for v in loaded.vendors] == [("one", "acme-one", "1.2.3")]
    assert loaded.problems == ()
    assert loaded.vendors[0].hooks == ("families",)
    assert list(loaded.families) == ["ONE"]


@pytest.mark.parametrize(
    ("statement", "shown"),
    [
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("assert 1 == 2, 'broken build'", "AssertionError: broken build"),
        ("import no_such_module_anywhere", "ModuleNotFoundError: No module named 'no_such_module_anywhere'"),
        ("raise BaseException('odd')", "BaseException: odd"),
        ("def f(:", "SyntaxError: "),
        ("raise GeneratorExit", "GeneratorExit"),
    ],
)
def test_broken_import_is_reported_and_the_others_load(site, statement, shown):
    site.add("one", f"{statement}\nclass Vendor: ...", dist="bad-dist", version="9.9")
    site.add("two")
    loaded = plugins.load(only=ALL)
    assert [vendor.name for vendor in loaded.vendors] == ["two"]
    [text] = errors(loaded)
    assert shown in text
    assert "one (bad-dist 9.9)" in text


@pytest.mark.usefixtures("interruptible")
def test_interrupt_at_import_reaches_the_user(site):
    site.add("one", "raise KeyboardInterrupt\nclass Vendor: ...")
    with pytest.raises(KeyboardInterrupt):
        plugins.load(only=ALL)


@pytest.mark.parametrize("target", ["Vendor.nothing", "missing", "instance", "function"])
def test_entry_point_must_name_a_class(site, target):
    body = "class Vendor: ...\ninstance = Vendor()\ndef function(): ..."
    site.add("one", body, target=target)
    loaded = plugins.load(only=ALL)
    assert loaded.vendors == ()
    assert len(errors(loaded)) == 1


def test_two_distributions_claiming_one_name_are_both_refused(site):
    site.add("one", dist="first", points={"hami.vendors": {"one": "site_first:Vendor"}})
    site.add("one", dist="second", version="2.0", points={"hami.vendors": {"one": "site_second:Vendor"}})
    site.add("two")
    loaded = plugins.load(only=ALL)
    assert [vendor.name for vendor in loaded.vendors] == ["two"]
    assert len(errors(loaded)) == 2
    for text in errors(loaded):
        assert "first 1.0" in text
        assert "second 2.0" in text
    assert "site_first" not in sys.modules


@pytest.mark.parametrize(
    ("claim", "what"),
    [
        ('word="ONE", resources=Resources(count="x/y"), allocated_key="k"', "common word ONE"),
        ('word="W", resources=Resources(count="one.com/gpu"), allocated_key="k"', "resource one.com/gpu"),
        ('word="W", resources=Resources(count="c/d", cores="one.com/mem"), allocated_key="k"', "resource one.com/mem"),
        ('word="W", resources=Resources(count="x/y"), allocated_key="hami.io/one-allocated"', "annotation hami.io/one"),
    ],
)
def test_two_vendors_with_one_claim_are_both_refused_by_name(site, claim, what):
    site.add("one")
    site.add("three")
    site.add(
        "two",
        f"""
        from hami_core import Family, Resources, hookimpl
        class Vendor:
            @hookimpl
            def families(self, config):
                return [Family({claim})]
        """,
    )
    loaded = plugins.load(only=ALL)
    assert [vendor.name for vendor in loaded.vendors] == ["three"]
    assert len(errors(loaded)) == 2
    for text in errors(loaded):
        assert what in text
        assert "one (dist-one 1.0) and two (dist-two 1.0)" in text
    assert "to keep one: pip uninstall dist-two, or name it alone in --vendors or HAMI_PLUGINS" in errors(loaded)[0]
    assert "to keep two: pip uninstall dist-one" in errors(loaded)[1]


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ("api_version = (2, 0)", "built for hook API 2.0, this is hook API 1.0; upgrade hami"),
        ("api_version = (0, 9)", "built for hook API 0.9, this is hook API 1.0; upgrade dist-one"),
        ("api_version = '1'", "api_version is '1', expected two whole numbers; write api_version = (1, 0)"),
        ("api_version = 1.0", "api_version is 1.0, expected two whole numbers"),
        ("api_version = (1, True)", "expected two whole numbers"),
        ("def __init__(self): raise OSError('no driver')", "cannot be created: OSError: no driver"),
        ("def __init__(self, needed): ...", "cannot be created: TypeError"),
        ("def __init__(self): raise SystemExit", "cannot be created: SystemExit"),
        ("@hookimpl\ndef chek_type(self, request): ...", "there is no such hook; did you mean check_type?"),
        ("def custom_filter(self, device): ...", "in custom_filter: the method has a hook's name and is not marked"),
        ("def choose(self): ...", "write @hookimpl above it, or rename it"),
        (
            "@hookimpl\ndef check_type(self, kindd): ...",
            "in check_type: the hook has no argument 'kindd'; did you mean kind",
        ),
        ("@hookimpl\ndef check_type(self, zzz): ...", "no argument 'zzz'; it has request, kind"),
        ("@hookimpl\ndef check_type(self, *, kind): ...", "in check_type: the argument 'kind' is keyword-only"),
        ("@hookimpl\ndef register(self, node): yield", "in register: the hook is a generator function"),
        ("@hookimpl\nasync def register(self, node): ...", "hooks are plain functions, this one is async"),
        ("@hookimpl(wrapper=True)\ndef register(self): yield", "a vendor cannot wrap"),
    ],
)
def test_vendor_class_that_breaks_the_contract_is_refused(site, body, shown):
    site.add("one", body)
    site.add("two")
    loaded = plugins.load(only=ALL)
    assert [vendor.name for vendor in loaded.vendors] == ["two"]
    [text] = errors(loaded)
    assert shown in text
    assert "one (dist-one 1.0)" in text
    with pytest.raises(ConfigError, match="one"):
        loaded.vendor("one")


def test_newer_minor_contract_version_loads_with_a_warning(site):
    site.add("one", "api_version = (1, 7)")
    loaded = plugins.load(only=ALL)
    assert [vendor.api_version for vendor in loaded.vendors] == [(1, 7)]
    assert "built for hook API 1.7" in str(loaded.problems[0])


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        ("None", "answered None"),
        ("'NVIDIA'", "answered str"),
        ("[1]", "answered int at position 0"),
        ("(f for f in [])", "answered generator"),
        ("1 / 0", "ZeroDivisionError"),
        ("[Family(word='', resources=R, allocated_key='k')]", "common word ''"),
        ("[Family(word='a,b', resources=R, allocated_key='k')]", "common word 'a,b'"),
        ("[Family(word='a', resources=Resources(count=''), allocated_key='k')]", "names no count resource"),
        ("[Family(word='a', resources=R, allocated_key='')]", "names no allocated_key"),
        ("[Family(word='a', resources=R, allocated_key='k')] * 2", "given twice"),
        ("[]", "in families: answered no families, expected at least one"),
        ("[Family(word='a', resources=Resources('c', 'c'), allocated_key='k')]", "family a names the resource c twice"),
        (
            "[Family(word='a', resources=R, allocated_key='k'), Family(word='b', resources=R, allocated_key='l')]",
            "families a and b both claim the resource c",
        ),
    ],
)
def test_families_answer_is_checked(site, answer, shown):
    body = f"""
    from hami_core import Family, Resources, hookimpl
    R = Resources(count="c")
    class Vendor:
        @hookimpl
        def families(self, config):
            return {answer}
    """
    site.add("one", body)
    loaded = plugins.load(only=ALL)
    assert loaded.vendors == ()
    [text] = errors(loaded)
    assert shown in text


def test_vendor_without_families_is_refused(site):
    site.add("one", "from hami_core import hookimpl\nclass Vendor: ...")
    assert "in families: is required and missing" in errors(plugins.load(only=ALL))[0]


def test_only_blocked_and_switch_choose_what_is_imported(site, monkeypatch):
    for name in ("one", "two", "three"):
        site.add(name)
    names = lambda **kwargs: [vendor.name for vendor in plugins.load(**{"only": ALL, **kwargs}).vendors]  # noqa: E731
    assert names() == ["one", "three", "two"]
    assert names(only=["two"]) == ["two"]
    assert names(blocked=["two"]) == ["one", "three"]
    monkeypatch.setenv("HAMI_PLUGINS", "two, three")
    assert names() == ["three", "two"]
    assert names(only=["one", "two"]) == ["two"]
    monkeypatch.setenv("HAMI_PLUGINS", "-two")
    assert names() == ["one", "three"]
    monkeypatch.setenv("HAMI_PLUGINS", "")
    assert names() == []


def test_plugin_left_out_is_not_imported(site):
    site.add("one", "raise RuntimeError('imported')\nclass Vendor: ...")
    assert plugins.load(only=["two"]).problems == ()


@pytest.mark.parametrize(
    ("switch", "taken", "left"),
    [
        (None, "ab", ""),
        ("", "", "ab"),
        ("a", "a", "b"),
        ("-a", "b", "a"),
        ("a,-a", "", "ab"),
        (" a , ", "a", "b"),
    ],
)
def test_selection_by_switch(switch, taken, left):
    selection = Selection.of(switch=switch)
    assert all(selection.takes(name) for name in taken)
    assert not any(selection.takes(name) for name in left)


def test_require_names_what_is_missing(site):
    with pytest.raises(ConfigError, match="no vendor is loaded: none is installed"):
        plugins.load(only=["two"]).require()


BROKEN = "raise RuntimeError('broken')\nclass Vendor: ..."


@pytest.mark.parametrize(
    ("names", "side", "message"),
    [
        (
            ["two", "unknown"],
            "scheduler",
            "--vendors: 'unknown' names no installed package of a vendor; installed: .*two",
        ),
        (["tow"], "scheduler", r"--vendors: 'tow' .*\(did you mean two\?\)"),
        (["unknown"], "scheduler", r"pip install 'hami\[all\]'.*devices\.\*\.enabled, scheduler.vendorPackages"),
        (["two"], "node", "--vendors: 'two' names no installed node side of a vendor"),
    ],
)
def test_a_vendor_that_is_named_must_be_installed(site, names, side, message):
    site.add("two")
    with pytest.raises(ConfigError, match=message):
        plugins.load(only=names, side=side, named_by="--vendors")


def test_unknown_name_in_the_switch_is_a_warning(site, monkeypatch):
    site.add("two")
    monkeypatch.setenv(SWITCH, "tow,-two")
    loaded = plugins.load()
    assert "HAMI_PLUGINS: 'tow' names no installed plugin; did you mean two?" in str(loaded.problems[-1])
    monkeypatch.setenv(SWITCH, "")
    with pytest.raises(ConfigError, match="HAMI_PLUGINS= leaves none"):
        plugins.load().require()


def test_a_named_vendor_that_is_broken_is_reported_and_skipped(site):
    site.add("one", BROKEN)
    site.add("two")
    loaded = plugins.load(only=["one", "two"], named_by="--vendors")
    assert [vendor.name for vendor in loaded.vendors] == ["two"]
    assert "broken" in errors(loaded)[0]
    loaded.require()


def test_scheduler_never_imports_the_node_side(site):
    site.add(
        "one",
        """
        from hami_core import Family, Resources, hookimpl
        class Vendor:
            @hookimpl
            def families(self, config):
                return [Family(word="ONE", resources=Resources(count="c"), allocated_key="k")]
        """,
        points={"hami.vendors": {"one": "site_one:Vendor"}, "hami.node": {"one": "site_node:Node"}},
    )
    (site.root / "site_node.py").write_text("raise RuntimeError('driver loaded')")
    assert plugins.load(only=ALL).problems == ()
    assert "site_node" not in sys.modules
    [text] = errors(plugins.load(only=ALL, side="node"))
    assert "driver loaded" in text


def test_node_side_joins_the_scheduler_side_of_its_name(site):
    site.add("two")
    site.add("one", points={"hami.vendors": {"one": "site_one:Vendor"}, "hami.node": {"one": "site_node:Node"}})
    (site.root / "site_node.py").write_text(
        "from hami_core import Advertisement, ContainerEdits, Device, hookimpl\n"
        "class Node:\n"
        "    @hookimpl\n"
        "    def discover(self): return [Device('d', 0, 1, 1, 1, 't', 'ONE')]\n"
        "    @hookimpl\n"
        "    def advertise(self, devices): return Advertisement(labels={d.id: '1' for d in devices})\n"
        "    @hookimpl\n"
        "    def allocate(self, slices, container): return ContainerEdits(env={'N': str(len(slices))})\n"
    )
    loaded = plugins.load(only=ALL, side="node")
    assert loaded.problems == ()
    vendor = loaded.vendor("one")
    assert [v.name for v in loaded.vendors] == ["one"]
    assert vendor.words == {"ONE"}
    assert vendor.advertise(vendor.discover()).labels == {"d": "1"}
    assert vendor.hooks == ("families", "discover", "advertise", "allocate")


def test_incomplete_node_side_is_refused(site):
    site.add("one", points={"hami.vendors": {"one": "site_one:Vendor"}, "hami.node": {"one": "site_one:Vendor"}})
    assert "does not implement discover, advertise, allocate" in errors(plugins.load(only=ALL, side="node"))[0]


def test_failing_observer_gets_problems_and_ends_nothing(site):
    site.add("one", "api_version = (9, 0)")
    heard = []
    plugins.load(only=ALL, observer=heard.append)
    assert [problem.plugin for problem in heard] == ["one"]
    assert isinstance(heard[0].error, VendorError)

    def broken(problem):
        raise RuntimeError("observer")

    assert len(plugins.load(only=ALL, observer=broken).problems) == 1


def test_loading_writes_no_cache_into_the_home_folder(site, tmp_path):
    site.add("one")
    home = tmp_path / "home"
    home.mkdir()
    code = "from hami_core import plugins; print([v.name for v in plugins.load(only=['one']).vendors])"
    environment = {"HOME": str(home), "PYTHONPATH": str(site.root), "XDG_CACHE_HOME": str(home / "cache")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['one']"
    assert list(home.rglob("*")) == []


AUDIT = """
from hami_core import Reason, hookimpl
class Wrapper:
    @hookimpl(wrapper=True)
    def check_type(self):
        yield
        return [Reason("Audited")]
"""


def test_choosing_vendors_does_not_drop_a_policy(site, monkeypatch):
    site.add("one")
    site.add("audit", AUDIT, group="hami.plugins", target="Wrapper")
    from hami_core import DeviceKind, Request

    def verdict(**options):
        rules = plugins.load(only=["one"], **options).rules()[0]
        return rules.check_type(Request("ONE", 1), DeviceKind("ONE", "T"))

    assert verdict().code == "Audited"
    assert verdict(blocked=["audit"]) is None
    monkeypatch.setenv("HAMI_PLUGINS", "one")
    assert verdict() is None
    monkeypatch.setenv("HAMI_PLUGINS", "one,audit")
    assert verdict().code == "Audited"


MEASURES = """
from hami_core import MetricSpec
metric_specs = (MetricSpec.gauge("hami_load", "Load of the device.", {labels}),)
"""


@pytest.mark.parametrize(("labels", "kept"), [("'device'", ["one", "two"]), ("'device', 'node'", [])])
def test_vendors_share_a_metric_with_the_same_labels_only(site, labels, kept):
    site.add("one", MEASURES.format(labels="'device'"))
    site.add("two", MEASURES.format(labels=labels))
    loaded = plugins.load(only=ALL)
    assert [vendor.name for vendor in loaded.vendors] == kept
    assert len(errors(loaded)) == 2 - len(kept)
    assert all("the metric hami_load is claimed by one" in text for text in errors(loaded))


def test_wrapper_with_a_metric_of_the_core_is_left_out_alone(site):
    site.add("one")
    table = MEASURES.replace("hami_load", "hami_devices").format(labels="'device'")
    site.add("audit", "class Vendor:\n    api_version = (1, 0)\n" + table.replace("\n", "\n    "), group="hami.plugins")
    loaded = plugins.load(only=ALL)
    assert [vendor.name for vendor in loaded.vendors] == ["one"]
    assert loaded.wrappers == ()
    assert "metric_specs has hami_devices, which the core serves" in errors(loaded)[0]
