"""What the pages say exists: settings, metrics, commands, flags, sessions, chart values, links; and examples are true.

Files and tests that pages name are checked in `test_repository.py`.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
import textwrap
import tomllib
from functools import cache
from itertools import chain
from pathlib import Path

import click
import pytest
import yaml

import noxfile
from contrib.vendor_folders import in_tree
from hami_core import ContainerKind, ContainerSpec, PodFacts
from hami_core.cli.main import root
from hami_core.plugins import load
from hami_core.plugins.metrics_reference import tables
from hami_core.settings import AgentSettings, SchedulerSettings
from hami_core.settings.fields import env_names, flag_names
from hami_core.settings.flags import KLOG

ROOT = Path(__file__).parent.parent
FOLDERS = ("docs", "contrib", "vendors", "interpose")
FILES = sorted(
    ROOT / name
    for name in subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    if (ROOT / name).is_file()
)
PAGES = {
    str(path.relative_to(ROOT)): path.read_text("utf-8")
    for path in FILES
    if path.suffix == ".md" and (path.parent == ROOT or path.relative_to(ROOT).parts[0] in FOLDERS)
}
# The change log also names what is gone.
TODAY = {name: text for name, text in PAGES.items() if name != "CHANGELOG.md"}
VENDOR_PAGES = {vendor.name: vendor.page for vendor in in_tree()}
"""Page of each vendor in its folder, of which docs/vendors gets a copy."""
SETTINGS = {"scheduler": SchedulerSettings, "agent": AgentSettings}

FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")

MADE_UP = {
    "HAMI_ZETA_SYSFS": "the tutorial for vendors",
    "HAMI_ZETA_DEV": "the tutorial for vendors",
    "hami_zeta": "the tutorial for vendors: a Python package",
    "--enable-device-type": "a flag of Cambricon's device plugin",
    "--min-dsmlu-unit": "a flag of Cambricon's device plugin",
    "hami_core": "a Python package",
    "hami_interpose": "a Python package",
    "hami_gpusim": "a Python package",
    "hami_acme": "the template: a Python package",
    "hami_container_last_kernel_elapsed_seconds": "compatibility: HAMi's, and not served",
}
"""Names on pages that are in no table, each with the reason."""


def spans():
    """Page and text of each code span outside of fences."""
    return [(name, span) for name, text in TODAY.items() for span in SPAN.findall(FENCE.sub("", text))]


@cache
def code():
    """Everything but pages and this file."""
    kinds = {".py", ".c", ".h", ".tpl", ".yaml", ".toml", ".cmake", ".txt", ".cu", ".proto"}
    files = [path for path in FILES if path.suffix in kinds and path != Path(__file__)]
    return "\n".join(path.read_text("utf-8") for path in files)


def test_every_variable_on_a_page_exists():
    fields = [item for model in SETTINGS.values() for item in model.model_fields.items()]
    known = {*chain.from_iterable(env_names(*item) for item in fields), *re.findall(r"\bHAMI_[A-Z0-9_]+", code())}
    for prefix in re.findall(r'"(HAMI_[A-Z]+_)"', code()):  # a vendor's settings
        known |= {prefix + name.upper() for name in re.findall(r"^    ([a-z_]+): ", code(), re.MULTILINE)}
    wrong = [
        f"{page}: {name}"
        for page, text in TODAY.items()
        for name in re.findall(r"\bHAMI_[A-Z0-9_]+[A-Z0-9]\b(?![*…])", text)
        if name not in known | MADE_UP.keys()
    ]
    assert wrong == []


def test_every_metric_on_a_page_is_in_a_table():
    known = {spec.name for table in tables().values() for spec in table}
    pattern = re.compile(r"((?:hami_|vgpu_|vGPU|nodeGPU|GPUDevice|Host(?:GPU|Core)|QuotaUsed)\w*)(?:\{.*\})?")
    found = [(page, pattern.fullmatch(span)) for page, span in spans()]
    wrong = [f"{page}: {it[1]}" for page, it in found if it and it[1] not in known | MADE_UP.keys()]
    assert wrong == []


@cache
def flags(command):
    """The flags of a command of `hami`."""
    if command in SETTINGS:
        model = SETTINGS[command]
        names = chain.from_iterable(flag_names(*item) for item in model.model_fields.items())
        return {*names, *KLOG, *model.IGNORED, *model.VARIABLES, "--help"}
    found = root.get_command(click.Context(root), command)
    assert found is not None, command
    parts = found.commands.values() if isinstance(found, click.Group) else ()
    params = chain(found.params, *(part.params for part in parts))
    return {*chain.from_iterable((*each.opts, *each.secondary_opts) for each in params), "--help", "-h"}


def commands():
    """Page and words of each command line, in a span or in a block; what a shell makes of it ends at a pipe."""
    for page, text in TODAY.items():
        blocks = FENCE.findall(text)
        lines = [line for _, kind, block in blocks if kind in {"console", "sh"} for line in joined(block, kind)]
        for line in (*lines, *SPAN.findall(FENCE.sub("", text))):
            for part in re.split(r"\s(?:\||&&|;|>)\s?", line):
                try:
                    yield page, shlex.split(part, comments=True)
                except ValueError:  # a quote that another line closes, or prose
                    continue


def joined(block, kind):
    """The command lines of a block, each whole."""
    lines = re.sub(r"\\\n\s*", " ", textwrap.dedent(block)).splitlines()
    return [line.removeprefix("$ ") for line in lines if kind == "sh" or line.startswith("$ ")]


def test_every_command_on_a_page_takes_its_flags():
    wrong, seen = [], 0
    for page, words in commands():
        names = [Path(word).name for word in words]
        if "hami" not in names[:1]:
            continue
        command = words[1] if len(words) > 1 else "--help"
        if command in {"--help", "--version"} or not re.fullmatch(r"[a-z-]+", command):
            continue
        seen += 1
        if command not in root.list_commands(click.Context(root)):
            wrong.append(f"{page}: hami {command}")
            continue
        given = [word.partition("=")[0] for word in words[2:] if re.match(r"--[a-z]", word)]
        wrong += [f"{page}: hami {command} {flag}" for flag in given if flag not in flags(command)]
    assert seen > 50
    assert wrong == []


def test_every_flag_on_a_page_is_taken_by_something():
    """A flag that stands alone may be of any program of ours."""
    every = chain.from_iterable(flags(name) for name in root.list_commands(click.Context(root)))
    known = {*every, *re.findall(r"(?<![\w-])--[a-z][\w-]*", code())}
    bare = re.compile(r"(--[a-z][\w-]*)(?:[= ].*)?")
    found = [(page, bare.fullmatch(span)) for page, span in spans()]
    assert [f"{page}: {it[1]}" for page, it in found if it and it[1] not in known | MADE_UP.keys()] == []


def test_every_nox_session_on_a_page_exists():
    source = ast.parse((ROOT / "noxfile.py").read_text("utf-8"))
    sessions = {each.name for each in source.body if isinstance(each, ast.FunctionDef) and each.decorator_list}
    wrong, seen = [], 0
    for page, words in commands():
        if "nox" not in [Path(word).name for word in words[:1]] or "-s" not in words:
            continue
        for name in words[words.index("-s") + 1 :]:
            if not re.fullmatch(r"[a-z0-9]+(\(.*\))?", name):
                break
            seen += 1
            if name.partition("(")[0] not in sessions:
                wrong.append(f"{page}: nox -s {name}")
    assert seen > 20
    assert noxfile.VENDORS
    assert wrong == []


def test_every_chart_value_on_a_page_exists():
    values = yaml.safe_load((ROOT / "contrib/helm/hami/values.yaml").read_text("utf-8"))
    of_hami = yaml.safe_load((ROOT / "contrib/helm/hami-keys.yaml").read_text("utf-8"))
    wrong = []
    for page, span in spans():
        keys = span.partition("=")[0].strip().split(".")
        if len(keys) < 2 or keys[0] not in values or not all(re.fullmatch(r"[A-Za-z]\w*", key) for key in keys):
            continue
        if f'"{span}"' in code():  # a finding of `hami doctor`
            continue
        if any(span.partition("=")[0] in group for group in of_hami.values()):
            continue
        at = values
        for key in keys:
            if isinstance(at, dict) and at and key not in at:
                wrong.append(f"{page}: {span}")
                break
            at = at[key] if isinstance(at, dict) and at else None
    assert wrong == []


def slugs(text):
    """The anchors of a page: its headings, as code hosts and MyST name them, and labels."""
    heads = re.findall(r"^#+ +(.+)$", FENCE.sub("", text), re.MULTILINE)
    names = [re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", head).lower()).strip() for head in heads]
    return {*(name.replace(" ", "-") for name in names), *re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE)}


def test_every_link_leads_somewhere():
    wrong, seen = [], 0
    for page, text in PAGES.items():
        for link in re.findall(r"\]\(([^)\s]+)\)", SPAN.sub("", FENCE.sub("", text))):
            if re.match(r"[a-z]+:|../../security/", link):  # elsewhere, or a form of the code host
                continue
            seen += 1
            file, _, anchor = link.partition("#")
            # Vendors' pages are read from docs/vendors.
            folder = ROOT / (
                "docs/vendors" if re.fullmatch(r"(contrib/)?vendors/\w+/docs\.md", page) else Path(page).parent
            )
            target = (folder / file).resolve() if file else ROOT / page
            if target.parent == ROOT / "docs/vendors":
                target = VENDOR_PAGES.get(target.stem, target)
            there = target.exists()
            if not there or (anchor and target.suffix == ".md" and anchor not in slugs(target.read_text("utf-8"))):
                wrong.append(f"{page}: {link}")
    assert seen > 50
    assert wrong == []


def python(text):
    """A module, a session, or a hook's signature."""
    if not text.lstrip().startswith(">>> "):
        ast.parse(f"def {text.rstrip()}: ..." if re.fullmatch(r"\w+\(.*\) -> .*\n", text) else text)


READERS = {
    "yaml": lambda text: list(yaml.safe_load_all(text)),
    "json": json.loads,
    "toml": tomllib.loads,
    "python": python,
}
EXAMPLES = [
    pytest.param(it[2], it[3], id=f"{page}:{text.count(chr(10), 0, it.start()) + 1}")
    for page, text in PAGES.items()
    for it in FENCE.finditer(text)
    if it[2] in READERS
]


@pytest.mark.parametrize(("kind", "text"), EXAMPLES)
def test_an_example_can_be_read(kind, text):
    READERS[kind](textwrap.dedent(text))


THEIRS = {page: text for page, text in PAGES.items() if re.fullmatch(r"contrib/vendors/\w+/docs\.md", page)}


@pytest.mark.parametrize("page", THEIRS)
def test_pages_of_contributed_vendors_have_one_structure(page):
    text, name = THEIRS[page], Path(page).parent.name
    heads = re.findall(r"^## (.+)$", FENCE.sub("", text), re.MULTILINE)
    assert heads == ["Requests", "Nodes", "Settings", "On the wire", "Differences from HAMi", "Try it"]
    assert len(text.split()) < 1000
    nodes, pods = f"contrib/vendors/{name}/tests/data/nodes", f"contrib/examples/{name}.yaml"
    assert f"hami demo --vendor {name} --nodes {nodes} --manifests {pods}\n" in text
    assert (ROOT / nodes).is_dir()
    assert (ROOT / pods).is_file()


def pods():
    """Pods in examples, as blocks of YAML and as text handed to `kubectl apply`."""
    texts = [(page, it[3]) for page, text in TODAY.items() for it in FENCE.finditer(text)]
    for page, text in texts:
        inside = re.findall(r"<<'?YAML'?.*?\n(.*?)^YAML$", text, re.MULTILINE | re.DOTALL) or [text]
        for part in inside:
            if re.search(r"^\s*kind: Pod$", part, re.MULTILINE):
                for document in yaml.safe_load_all(textwrap.dedent(part)):
                    if document and document.get("kind") == "Pod":
                        yield page, document


def test_vendors_take_the_pods_on_pages():
    loaded = load()
    asked = 0
    for page, pod in pods():
        for container in pod["spec"]["containers"]:
            limits = {key: str(value) for key, value in container.get("resources", {}).get("limits", {}).items()}
            facts = PodFacts("default", pod["metadata"]["name"], "uid", pod["metadata"].get("annotations", {}))
            requests = loaded.parse(ContainerSpec(container["name"], ContainerKind.APP, limits), facts)
            asked += len(requests)
            foreign = any(key.startswith("zeta.example/") for key in limits)
            assert requests or foreign or not limits, f"{page}: {limits}"
    assert asked > 1
