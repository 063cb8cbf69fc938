"""The author's path, by the commands of the how-to: write a package, install it, check it, run a pod on its devices."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest

from hami_core import __version__

pytestmark = pytest.mark.timeout(480)
ROOT = Path(__file__).parents[3]
HOW_TO = ROOT / "docs/how-to/write-a-vendor-plugin.md"
SECTIONS = ("Write the package", "Run a pod on simulated devices")

SCHEDULE = """
import json
from hami_core import Allocation, ContainerKind, ContainerSpec, NodeFacts, plugins
from hami_core.inventory import Inventory, PolicyDefaults
from hami_core.placement.request import pod_request

loaded = plugins.load(only=["zeta"])
loaded.require()
devices = [{"id": f"Z{i}", "index": i, "count": 10, "devmem": 1000, "devcore": 100, "type": "X", "health": True}
           for i in range(2)]
node = NodeFacts("n1", {"hami.io/node-zeta-register": json.dumps(devices)})
inventory = Inventory(loaded.rules(), PolicyDefaults())
inventory.set_node(node, loaded.register(node).devices)

def pod(name, memory, **annotations):
    limits = {"zeta.example/npu": "1", "zeta.example/npu-memory": str(memory)}
    container = ContainerSpec("main", ContainerKind.APP, limits)
    return pod_request(name, "default", name, [container], annotations, loaded.parse)

placed = []
for name, memory in (("a", 700), ("b", 700), ("c", 700), ("d", 200)):
    request = pod(name, memory)
    outcome = inventory.filter(request, ["n1"])
    booked = inventory.book(request, "n1")
    if isinstance(booked, Allocation):
        placed.append([name, booked.containers[0].slices[0].device_id, booked.containers[0].slices[0].memory_mib])
    else:
        placed.append([name, booked.short, outcome.refused["n1"]])
chosen = inventory.book(pod("e", 100, **{"zeta.example/use-npu-uuid": "Z1"}), "n1")
vendor = loaded.vendor("zeta")
print(json.dumps({
    "placed": placed,
    "chosen": chosen.containers[0].slices[0].device_id,
    "source": vendor.source.label,
    "words": sorted(vendor.words),
}))
"""


class Author:
    """An author who ran the commands of the how-to in an environment of their own.

    pip builds this tree and the package. It takes all other packages from this test's environment, and nothing from an
    index.
    """

    def __init__(self, root: Path) -> None:
        self.package, self.environment = root / "zeta/hami-zeta", root / "zeta/.venv"
        options = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        kept = {name: value for name, value in os.environ.items() if not re.match("HAMI_|PYTHON|PYTEST|PIP_", name)}
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        self.variables = {**kept, **options, "PATH": path, "HOME": str(root)}
        self.pages = dict(commands())
        lend = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})"
        lines = []
        for number, command in enumerate(self.pages):
            lines += [f"echo '== {number}'", command]
            if " -m venv " in command:
                lines.append(f"printf '%s\\n' {shlex.quote(lend)} > $(echo .venv/lib/python*/site-packages)/lent.pth")
        done = self.shell("\n".join(lines), ROOT, PYTEST_ADDOPTS="-W error -p no:cacheprovider")
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        outputs = re.split(r"^== \d+\n", done.stdout, flags=re.MULTILINE)[1:]
        self.outputs = dict(zip(self.pages, outputs, strict=True))

    def shell(self, script: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
        words = ["sh", "-ec", script]
        env = {**self.variables, **environment}
        return subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=False)

    def later(self, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run more commands, where the how-to's ended."""
        return self.shell(f". {self.environment}/bin/activate\n{script}", self.package, **environment)

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Python."""
        return self.later(shlex.join(["python", *arguments]))

    def told(self, beginning: str) -> tuple[str, str]:
        """What the page and the command say for the command that begins so."""
        [command] = [line for line in self.pages if line == beginning or line.startswith(f"{beginning} --")]
        return self.pages[command], self.outputs[command]


def commands():
    """Each command of the how-to's first sections, with the output that the page shows."""
    page = HOW_TO.read_text("utf-8")
    for section in SECTIONS:
        text = page.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
        for kind, block in re.findall(r"^```(sh|console)\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
            if kind == "sh":
                yield from ((line, "") for line in block.splitlines())
                continue
            for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, output = re.fullmatch(r"((?:[^\n]*\\\n)*[^\n]*\n)(.*)", part, re.DOTALL).groups()
                yield command.rstrip(), output


def lines(text):
    """The lines of an output, without blank ones, trailing blanks and times."""
    stripped = (re.sub(r"\d+\.\d+ ?s", "SECONDS", line).rstrip() for line in text.splitlines())
    return [line for line in stripped if line and line != "…"]


@pytest.fixture(scope="module")
def author():
    root = Path(tempfile.mkdtemp(prefix="a-"))  # the demo's sockets need a short path
    yield Author(root)
    shutil.rmtree(root)


def test_written_package_has_no_trace_of_the_templates_name(author):
    done = author("-c", "import hami_zeta, hami_zeta.node; print(hami_zeta.Zeta, hami_zeta.node.ZetaNode)")
    assert done.returncode == 0, done.stderr
    inside = [path.relative_to(author.package) for path in author.package.rglob("*") if path.is_file()]
    written = [path for path in inside if not re.search(r"(^|/)\.|\.pyc$|LICENSE", str(path))]
    texts = [f"{path}: {(author.package / path).read_text('utf-8')}" for path in written]
    assert len(texts) > 8
    assert not [text for text in texts if re.search("acme|template ", text, re.IGNORECASE)]


@pytest.mark.parametrize("command", ["hami plugins", "python -m pytest -q", "hami demo"])
def test_commands_of_the_how_to_print_what_it_shows(author, command):
    page, output = author.told(command)
    assert lines(page)
    assert [line for line in lines(page) if line not in lines(output)] == []


def test_package_is_found_and_its_pods_are_scheduled(author):
    done = author("-c", SCHEDULE)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["source"] == f"hami-zeta {__version__}"
    assert said["words"] == ["ZETA"]
    assert [row[0] for row in said["placed"]] == ["a", "b", "c", "d"]
    first, second, third, fourth = said["placed"]
    assert {first[1], second[1]} == {"Z0", "Z1"}
    assert third[1] == "2/2 CardInsufficientMemory"
    assert "CardInsufficientMemory" in third[2]
    assert fourth[2] == 200
    assert said["chosen"] == "Z1"


def test_own_test_file_passes_the_kit(author):
    """The how-to's `python -m pytest -q` ran with warnings as errors."""
    _, output = author.told("python -m pytest -q")
    assert re.search(r"^\d+ passed", output, re.MULTILINE), output
    assert "warning" not in output.lower()


def test_node_side_passes_the_kit_on_fake_devices(author):
    show = (
        "import os, hami_core as core; from hami_zeta.node import ZetaNode; "
        "container = core.ContainerRef('u', 'ns', 'p', 'c', core.ContainerKind.APP); "
        "[node] = ZetaNode().allocate((core.Slice('ZETA-0001', 'ZETA', 1, 0),), container).device_nodes; "
        "print(node.path, os.stat(node.host_path).st_size)"
    )
    devices = 'eval "$(python -m hami_zeta.simulated fake)"'
    assert devices in author.pages
    done = author.later(f'{devices}\nhami conformance zeta --node\npython -c "{show}"')
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed   allocate answers the same again" in done.stdout
    assert done.stdout.splitlines()[-1] == "/dev/zeta1 0"


def test_package_without_a_node_side_gets_its_pod_running(author):
    """Another device plugin serves its nodes: the demo takes the node's manifest from the package's tests."""
    [demo] = re.findall(r"`(hami demo --vendor zeta .*--nodes tests/data/nodes)`", HOW_TO.read_text())
    done = author.later(f"""
        cd ..
        hami plugins new yota --no-node-side --domain yota.com --device gpu
        cd hami-yota
        pip install -q -e '.[test]'
        hami plugins
        python -m pytest -q
        {demo.replace("zeta", "yota")} --json > demo.json
    """)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "  families   YOTA (yota.com/gpu)\n  hooks      config_model, families\n  node side  none" in done.stdout
    assert re.search(r"^\d+ passed", done.stdout, re.MULTILINE)
    package = author.package.parent / "hami-yota"
    [pod] = json.loads((package / "demo.json").read_text())["pods"]
    assert (pod["phase"], pod["node"], pod["ok"]) == ("Running", "gpu-2", True)
    assert not [path for path in package.rglob("*.py") if "Node" in path.read_text()]


def test_code_in_the_how_to_equals_the_package(author):
    blocks = re.findall(r"^<!-- from (\S+) -->\n```\w+\n(.*?)^```", HOW_TO.read_text(), re.DOTALL | re.MULTILINE)
    assert {path for path, _ in blocks} == {
        "src/hami_zeta/__init__.py",
        "src/hami_zeta/node.py",
        "tests/test_conformance.py",
    }
    for path, code in blocks:
        assert code in (author.package / path).read_text(), f"{HOW_TO}: the block from {path} differs from the file"


@pytest.mark.parametrize("page", ["how-to/write-a-vendor-plugin.md", "reference/hooks.md"])
def test_pages_for_authors_have_no_raw_sphinx_directives(page):
    """A code host shows directives and roles of Sphinx as raw text."""
    assert re.findall(r"\{[\w-]+\}`[^`]*`|^[`:]{3,}\{[\w-]+\}", (ROOT / "docs" / page).read_text(), re.MULTILINE) == []


def test_kit_without_files_passes_and_names_the_distribution(author):
    code = (
        "import json; from hami_core.testing import run; print(json.dumps(run('hami-zeta', timeout_s=150).as_json()))"
    )
    done = author("-c", code)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["passed"], [result for result in report["results"] if result["outcome"] == "failed"]
    assert (report["vendor"], report["distribution"], report["version"]) == ("zeta", "hami-zeta", __version__)
    assert report["capabilities"]["ZETA"]["sharing"] == "full"
    assert {result["suite"] for result in report["results"]} >= {"discovery", "inventory", "fit", "purity", "budget"}
