"""The template's vendor with one mistake at a time: the kit names the mistake and its cause."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

TEMPLATE = Path(__file__).parents[3] / "contrib" / "template" / "src" / "hami_acme"
SCHEDULER, NODE = "__init__.py", "node.py"
START = "    @hookimpl\n    def families"


def hook(text):
    """One more hook for the scheduler side."""
    return {SCHEDULER: (START, textwrap.indent(textwrap.dedent(text), "    ") + START)}


def filtering(body, arguments="request, device"):
    return hook(f"@hookimpl\ndef custom_filter(self, {arguments}):\n    {body}\n")


def asking(**amounts):
    values = ", ".join(f"{name}={value}" for name, value in amounts.items())
    return hook(
        "@hookimpl\ndef parse_request(self, container, pod, family):\n"
        "    from dataclasses import replace\n"
        "    from hami_core.vendorkit import default_parse_request\n"
        "    request = default_parse_request(container, pod, family)\n"
        f"    return request and replace(request, {values})\n"
    )


def handing_out(text):
    return {NODE: ('env={"ACME_MEMORY_LIMITS_MIB": ",".join(str(piece.memory_mib) for piece in slices)}', text)}


class Site:
    """A folder on the path with copies of the template, written as pip would install them."""

    def __init__(self, root):
        self.root = root
        for index in range(2):
            folder = root / "sysfs" / f"acme{index}"
            folder.mkdir(parents=True)
            facts = {"uuid": f"ACME-{index}", "memory_mib": "32768", "model": "Acme-X1", "numa_node": "0"}
            for name, value in facts.items():
                (folder / name).write_text(value)

    def add(self, changes, number=0, points=None):
        """A copy with some texts replaced, as package ``hami_acme<number>`` and vendor ``acme<number>``."""
        package = self.root / "site" / f"hami_acme{number}"
        package.mkdir(parents=True)
        for name in (SCHEDULER, NODE):
            text = (TEMPLATE / name).read_text()
            for before, after in [changes[name]] if name in changes else []:
                assert before in text, f"{name} of the template does not contain: {before}"
                text = text.replace(before, after, 1)
            (package / name).write_text(text.replace("from hami_acme", f"from hami_acme{number}"))
        info = self.root / "site" / f"hami_acme{number}-0.1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: hami-acme{number}\nVersion: 0.1.0\n")
        points = {"hami.vendors": "acme# = hami_acme#:Acme", "hami.node": "acme# = hami_acme#.node:AcmeNode"} | (
            points or {}
        )
        text = "\n".join(f"[{group}]\n{line}\n" for group, line in points.items())
        (info / "entry_points.txt").write_text(text.replace("#", str(number)))

    def run(self, *words):
        """Run Python with these packages installed, and two devices as the template's driver shows them."""
        here = str(Path(__file__).parents[3])
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(self.root / "site"), here]),
            "HAMI_ACME_SYSFS": str(self.root / "sysfs"),
        }
        command = [sys.executable, *words]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=180, check=False, cwd=self.root
        )


DRIVER = """
import json, sys
from pathlib import Path
import pytest
from hami_core.testing.child import Collector
with open("stacks", "w") as stacks:
    collector = Collector(Path("results.json"), stacks, (100, 170))
    pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:randomly", *sys.argv[1:]], plugins=[collector])
Path("all.json").write_text(json.dumps(collector.results))
"""

CASE = """
from importlib import import_module
import pytest
from hami_core.testing import VendorSuite

class Test{number}(VendorSuite):
    @pytest.fixture
    def vendor(self):
        return import_module("hami_acme{number}{module}").{vendor}()

    @pytest.fixture
    def node_side(self):
        return import_module("hami_acme{number}.node").AcmeNode()
"""

REQUEST = "container=ContainerSpec("
MISTAKES = {
    "none": ({}, "test_smallest_pod_is_scheduled", None),
    "unmarked-hook": (
        hook("def custom_filter(self, device): return None\n"),
        "test_names_are_legal_in_kubernetes",
        r"in custom_filter: the method has a hook's name and is not marked; write @hookimpl above it",
    ),
    "unmarked-hook-of-the-node": (
        {NODE: ("    @hookimpl\n    def advertise", "    def advertise")},
        "test_devices_are_discovered",
        r"in advertise: the method has a hook's name and is not marked",
    ),
    "hook-raises": (
        filtering("raise ValueError('boom')"),
        "test_smallest_pod_is_scheduled",
        r"custom_filter: ValueError: boom; called with request=Request\(family='ACME'",
    ),
    "hook-raises-drawn": (
        filtering("raise ValueError('boom')"),
        "test_checks_are_total_and_repeatable",
        r"^custom_filter: ValueError: boom; called with request=",
    ),
    "hook-raises-selectors": (
        hook("@hookimpl\ndef check_uuid(self): raise KeyError('x')\n"),
        "test_uuid_selectors_select",
        r"cause: check_uuid: KeyError: 'x'",
    ),
    "bool-for-reason": (
        filtering("return False"),
        "test_smallest_pod_is_scheduled",
        r"custom_filter: answered bool, expected Reason or None",
    ),
    "float-for-memory": (
        asking(memory_mib="request.memory_mib / 2"),
        "test_requests_are_total_and_bounded",
        r"in parse_request: memory_mib is .*, expected a whole number",
    ),
    "two-failures": (
        asking(memory_mib="request.memory_mib / 2 if request.count > 1 else b'1'"),
        "test_requests_are_total_and_bounded",
        r"in parse_request: memory_mib is (b'1'|[\d.]+), expected a whole number",
    ),
    "other-family": (
        asking(family="'OTHER'"),
        "test_requests_are_total_and_bounded",
        r"in parse_request: answered a request for family 'OTHER', asked about 'ACME'",
    ),
    "moody": (
        hook(
            "asked = 0\n"
            "@hookimpl\ndef custom_filter(self):\n"
            "    from hami_core import Reason\n"
            "    self.asked += 1\n"
            "    return Reason('Odd') if self.asked % 3 else None\n"
        ),
        "test_checks_are_total_and_repeatable",
        r"Reason\(code='Odd'",
    ),
    "memory-in-gib": (
        asking(memory_mib="request.memory_mib // 1024"),
        "test_request_is_never_less_than_the_limit",
        r"less memory than asked for: limits \{.*\} became Request",
    ),
    "count-of-one": (
        asking(count="1"),
        "test_request_is_never_less_than_the_limit",
        r"limits \{'acme.example/npu': '\d'.*\} became Request",
    ),
    "changed-annotations": (
        filtering("request.annotations['x'] = 'y'"),
        "test_hooks_leave_their_arguments_alone",
        r"custom_filter changes its arguments: .*\{\}.* became .*\{'x': 'y'\}",
    ),
    "changed-pod": (
        hook("@hookimpl\ndef patch_annotations(self, pod): pod.annotations['x'] = 'y'; return {}\n"),
        "test_hooks_leave_their_arguments_alone",
        r"patch_annotations changes its arguments: .*'x': 'y'",
    ),
    "changed-limits": (
        hook("@hookimpl\ndef mutate_admission(self, container): container.limits.clear()\n"),
        "test_hooks_leave_their_arguments_alone",
        r"mutate_admission changes its arguments",
    ),
    "changed-device": (
        filtering("object.__setattr__(request, 'count', 2)"),
        "test_hooks_leave_their_arguments_alone",
        r"custom_filter changes its arguments: .*count=1.* became .*count=2",
    ),
    "list-that-grows": (
        filtering("self.__dict__.setdefault('seen', []).append(device)"),
        "test_hooks_keep_no_memory",
        r"custom_filter keeps \d+ bytes of each call for ever, allocated at .*hami_acme\d+/__init__.py:\d+",
    ),
    "set-of-pods": (
        hook("@hookimpl\ndef patch_annotations(self, pod, _seen=set()): _seen.add(pod.uid); return {}\n"),
        "test_hooks_keep_no_memory",
        r"patch_annotations keeps \d+ bytes of each call for ever",
    ),
    "bounded-cache": (
        hook(
            "import functools\n"
            "kind = functools.lru_cache(1000)(lambda text: text.upper())\n"
            "@hookimpl\ndef patch_annotations(self, pod): return {'acme.example/x': type(self).kind(pod.uid)}\n"
        ),
        "test_hooks_keep_no_memory",
        None,
    ),
    "print": (filtering("print('looking at', device.device.id)"), "test_hooks_print_nothing", r"prints 'looking at"),
    "write-to-stderr": (
        hook("@hookimpl\ndef check_type(self): __import__('os').write(2, b'hm')\n"),
        "test_hooks_print_nothing",
        r"check_type prints 'hm'",
    ),
    "print-in-the-mask": (
        hook("@hookimpl\ndef fit_mask(self, columns): print('masked')\n"),
        "test_hooks_print_nothing",
        r"fit_mask prints 'masked'",
    ),
    "mask-that-keeps": (
        hook("@hookimpl\ndef fit_mask(self, columns, _seen=[]): _seen.append(columns)\n"),
        "test_hooks_keep_no_memory",
        r"fit_mask keeps \d+ bytes of each call for ever",
    ),
    "illegal-key-at-bind": (
        hook("@hookimpl\ndef patch_annotations(self): return {'acme.example/a key': 'x'}\n"),
        "test_smallest_pod_is_scheduled",
        r"patch_annotations: illegal keys \['acme.example/a key'\]",
    ),
    "illegal-key-on-the-node": (
        {NODE: ("annotations={REGISTER_KEY:", "annotations={'a key!': '', REGISTER_KEY:")},
        "test_slots_are_named_after_their_device",
        r"advertise: illegal keys of annotations or labels",
    ),
    "print-in-metrics": (
        {
            NODE: (
                "    @hookimpl\n    def health",
                "    @hookimpl\n    def metrics(self): print('m'); return []\n\n    @hookimpl\n    def health",
            )
        },
        "test_hooks_of_the_node_print_and_change_nothing",
        r"metrics prints 'm'",
    ),
    "print-on-the-node": (
        {NODE: ("        index = {device.id", "        print('!')\n        index = {device.id")},
        "test_hooks_of_the_node_print_and_change_nothing",
        r"allocate prints '!'",
    ),
    "change-on-the-node": (
        {NODE: ("        index = {device.id", "        container.annotations['x'] = 'y'\n        index = {device.id")},
        "test_hooks_of_the_node_print_and_change_nothing",
        r"allocate changes its arguments",
    ),
    "int-in-env": (
        handing_out('env={"ACME_COUNT": len(slices)}'),
        "test_edits_are_well_formed_and_keep_off_the_host",
        r"in allocate: env: answered 'ACME_COUNT': 1, expected str to str",
    ),
    "path-for-device-node": (
        {NODE: ('return DeviceNode(f"/dev/acme{index}"', 'return DeviceNode(Path("/dev/acme0")')},
        "test_edits_are_well_formed_and_keep_off_the_host",
        r"device_nodes: path is PosixPath\('/dev/acme0'\), expected str",
    ),
    "int-in-advertised-annotation": (
        {NODE: ("{REGISTER_KEY: json.dumps(register)}", "{REGISTER_KEY: 7}")},
        "test_slots_are_named_after_their_device",
        r"in advertise: annotations: answered 'hami.io/node-acme-register': 7, expected str to str",
    ),
    "slot-without-numa": (
        {NODE: ("(d.healthy, d.numa)", "d.healthy")},
        "test_slots_are_named_after_their_device",
        r"in advertise: slots\['acme.example/npu'\] holds 'ACME-0-0': True, expected str to",
    ),
    "unprotected-key": (
        {SCHEDULER: ('"hami.io/acme-devices-allocated"', '"acme.example/allocated"')},
        "test_allocation_keys_are_protected",
        r"allocated_key is 'acme.example/allocated', expected hami.io/…-allocated: the chart's admission policy",
    ),
    "no-api-version": (
        {SCHEDULER: ("    api_version = (1, 0)\n", "")},
        "test_states_a_version_of_the_contract_we_have",
        r"states no contract; write api_version = \(1, 0\)",
    ),
    "illegal-resource": (
        {SCHEDULER: ('"acme.example/npu"', '"acme npu"')},
        "test_names_are_legal_in_kubernetes",
        r"the resource name 'acme npu' is not legal, expected domain/name",
    ),
    "no-families": (
        {SCHEDULER: ("return [acme]", "return []")},
        "test_names_are_legal_in_kubernetes",
        r"in families: answered no families",
    ),
    "one-name-twice": (
        {SCHEDULER: ("memory=config.memory)", "memory=config.count)")},
        "test_names_are_legal_in_kubernetes",
        r"family ACME names the resource acme.example/npu twice",
    ),
    "wrong-argument": (
        filtering("return None", "requst"),
        "test_names_are_legal_in_kubernetes",
        r"in custom_filter: the hook has no argument 'requst'; did you mean request\?",
    ),
    "generator": (
        filtering("yield None"),
        "test_names_are_legal_in_kubernetes",
        r"in custom_filter: the hook is a generator function",
    ),
}
POINTS = {
    "node-class-as-scheduler-side": (
        {"hami.vendors": "acme# = hami_acme#.node:AcmeNode"},
        ".node:AcmeNode",
        "test_scheduler_side_has_no_hooks_of_the_node",
        r"class AcmeNode has hooks of the node side \(discover, advertise, allocate, health\)",
    ),
    "node-side-under-another-name": (
        {"hami.node": "acme#-npu = hami_acme#.node:AcmeNode"},
        ":Acme",
        "test_node_side_has_the_same_name",
        r"the node side is called 'acme\d+-npu'",
    ),
    "illegal-entry-point-name": (
        {"hami.vendors": "Acme NPU# = hami_acme#:Acme"},
        ":Acme",
        "test_entry_point_name_is_legal",
        r"the entry point name 'Acme NPU\d+' must be lower case",
    ),
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """(Outcome, detail) of each mistake's test, all run in one process."""
    root = tmp_path_factory.mktemp("mistakes")
    site = Site(root)
    cases = [(name, changes, None, ":Acme", test) for name, (changes, test, _) in MISTAKES.items()]
    cases += [(name, {}, points, vendor, test) for name, (points, vendor, test, _) in POINTS.items()]
    chosen = {}
    for number, (name, changes, points, vendor, test) in enumerate(cases):
        site.add(changes, number, points)
        module, _, cls = vendor.partition(":")
        (root / f"test_{number}.py").write_text(CASE.format(number=number, module=module, vendor=cls))
        chosen[name] = f"test_{number}.py::Test{number}::{test}"
    (root / "driver.py").write_text(DRIVER)
    done = site.run("driver.py", *chosen.values())
    assert (root / "all.json").exists(), done.stdout + done.stderr
    results = json.loads((root / "all.json").read_text())
    return {name: results[test] for name, test in chosen.items()}


EXPECTED = {name: row[-1] for name, row in {**MISTAKES, **POINTS}.items()}


@pytest.mark.parametrize("mistake", EXPECTED)
def test_mistake_is_named_with_its_cause(outcomes, mistake):
    outcome, expected = outcomes[mistake], EXPECTED[mistake]
    if expected is None:
        assert outcome["outcome"] == "passed", outcome["detail"]
        return
    assert outcome["outcome"] == "failed", outcome
    assert re.search(expected, outcome["detail"], re.MULTILINE | re.DOTALL), outcome["detail"]
    assert "ExceptionGroup" not in outcome["detail"]


def test_hook_that_never_returns_is_named(tmp_path):
    site = Site(tmp_path)
    site.add(filtering("while True:\n        pass"))
    done = site.run("-m", "hami_core", "conformance", "acme0", "--timeout=45")
    assert done.returncode == 1, done.stderr
    assert re.search(
        r"failed   hooks stay within their budget\n +the hook custom_filter did not return in time;", done.stdout
    )
    assert re.search(r"it was at .*hami_acme0/__init__.py:\d+ in custom_filter", done.stdout)


def test_import_that_never_ends_is_named(tmp_path):
    site = Site(tmp_path)
    site.add({SCHEDULER: ("REGISTER_KEY =", "while True: ...\nREGISTER_KEY =")})
    done = site.run("-m", "hami_core", "conformance", "acme0", "--timeout=20")
    assert done.returncode == 1, done.stderr
    assert re.search(
        r"failed   loading the vendor\n +did not return in time; it was at .*hami_acme0/__init__.py", done.stdout
    )


def test_crash_names_the_test_and_the_hook(tmp_path):
    site = Site(tmp_path)
    site.add(filtering("import os, signal; os.kill(os.getpid(), signal.SIGKILL)"))
    done = site.run("-m", "hami_core", "conformance", "acme0", "--timeout=150")
    assert done.returncode == 1, done.stderr
    assert re.search(r"failed   hooks stay within their budget\n +the process ended with SIGKILL", done.stdout)


@pytest.mark.parametrize(
    "changes",
    [
        {SCHEDULER: ("REGISTER_KEY =", "1 / 0\nREGISTER_KEY =")},
        {SCHEDULER: ("api_version = (1, 0)", "api_version = (2, 0)")},
        {SCHEDULER: ("return [acme]", "return []")},
        {NODE: ("def allocate", "def allocat")},
    ],
    ids=["import", "version", "families", "node"],
)
def test_load_error_is_reported_once(tmp_path, changes):
    site = Site(tmp_path)
    site.add(changes)
    done = site.run("-m", "hami_core", "conformance", "acme0", "--node", "--timeout=150")
    assert done.returncode == 1, done.stderr
    assert done.stdout.count("    failed   ") == 1, done.stdout
    assert "1 failed" in done.stdout
    assert "error: acme0 (hami-acme0 0.1.0)" in done.stdout


def test_node_side_that_is_not_found_fails_a_run_with_node(tmp_path):
    site = Site(tmp_path)
    site.add({}, points={"hami.node": "acme-npu = hami_acme0.node:AcmeNode"})
    done = site.run("-m", "hami_core", "conformance", "acme0", "--node", "--report", "--timeout=150")
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    failed = {result["test"]: result["detail"] for result in report["results"] if result["outcome"] == "failed"}
    assert "hami-acme0 calls its node side acme-npu: give both sides the same name" in failed["node side is installed"]
    assert set(failed) == {"node side is installed", "node_side_has_the_same_name"}
    assert report["node_untested"]


def test_missing_test_extra_is_reported_in_one_line(tmp_path):
    code = (
        "import sys; sys.modules['pytest'] = None\nfrom hami_core.cli.main import main\nmain(['conformance', 'nvidia'])"
    )
    done = Site(tmp_path).run("-c", code)
    assert done.returncode == 1
    assert done.stderr == "hami: conformance: pytest is not installed (pip install 'hami[testing]')\n"
