"""CONTRIBUTING.md names the files that a new hook, policy, metric, setting or command needs. This adds one of each.

`test_in_tree_vendor.py` adds a vendor.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from noxfile import GENERATED
from tests.tree import Tree

PAGE = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text("utf-8")

ADDED = {
    "a hook": {
        "hami_core/hookspecs.py": '''

@hookspec
def nap(node: str) -> None:
    """Rest for a while. Optional.

    When: now and then.

    Args:
        node: Name of the node.

    When it fails: reported.
    """
''',
        "hami_core/plugins/hooks.py": (
            "    tend = Hook(specs.tend, check=checks.nothing)\n",
            "    nap = Hook(specs.nap, check=checks.nothing, limit_s=3.0)\n",
        ),
        "hami_core/plugins/example.py": '''
    @hookimpl
    def nap(self, node: str) -> None:
        self.slept = node
''',
    },
    "a placement policy": {
        "hami_core/policies.py": (
            'DEVICE_POLICIES: Final = {\n    policy.word: policy\n    for policy in (\n',
            '        DevicePolicy("quietest", "the fewest slots in use", lambda card: -card.used_slots),\n',
        ),
    },
    "a metric": {
        "hami_core/observe/metrics.py": (
            "AGENT: Final = (\n",
            '    _counter("hami_agent_naps_total", "Times the agent rested.", "node"),\n',
        ),
        "hami_core/agent/instruments.py": (
            '        counters = self._core.counters\n',
            '        yield "hami_agent_naps_total", node, 3.0\n',
        ),
    },
    "a setting": {
        "hami_core/settings/agent.py": (
            "    reconcile_interval: Seconds",
            """    nap_time: Seconds = Field(
        7.0, le=60, description="How long the agent rests.", json_schema_extra=notes(group=_TIMES)
    )
""",
        ),
    },
    "a command": {
        "hami_core/cli/main.py": (
            "COMMANDS = {\n",
            '    "nap": Entry("hami_core.cli.nap", "Rest for a while."),\n',
        ),
        "hami_core/cli/nap.py": '''"""``hami nap``."""

import click


@click.command("nap")
def command() -> None:
    """Rest for a while."""
    print("rested")
''',
    },
}  # fmt: skip
"""Row of the page → file → text to append, or an anchor and a text: after it if it is a whole line, else before it."""


def rows() -> dict[str, list[str]]:
    """The page's table: thing → files to edit."""
    table = PAGE.split("## Add a thing\n")[1].split("\n## ")[0]
    found = re.findall(r"^\| (an? [^|]+?) \| ([^|]+) \|", table, re.MULTILINE)
    return {thing: re.findall(r"`([\w/.]+)`", files) for thing, files in found}


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Tree:
    """A tree with one more of each, and regenerated files."""
    tree = Tree(tmp_path_factory.mktemp("tree"))
    for files in ADDED.values():
        for name, added in files.items():
            file = tree.root / name
            text = file.read_text() if file.exists() else ""
            if isinstance(added, tuple):
                anchor, more = added
                assert text.count(anchor) == 1, f"{name}: {anchor}"
                file.write_text(text.replace(anchor, anchor + more if anchor.endswith("\n") else more + anchor))
            else:
                file.write_text(text + added)
    tree.run("contrib/helm/generate.py")
    for page in sorted(tree.root.glob("docs/reference/*.md")):
        if command := GENERATED.search(page.read_text("utf-8")):
            page.write_text(tree.run("-m", *command[1].split()), "utf-8")
    return tree


@pytest.mark.parametrize("thing", ADDED)
def test_page_names_the_files_of_each_thing(thing):
    """The page may name more files, such as those of both scheduler and agent, of which a thing needs one."""
    named = {name.replace("NAME", "nap") for name in rows()[thing]}
    assert set(ADDED[thing]) <= named


def test_page_has_no_other_thing():
    assert rows().keys() == {*ADDED, "a vendor"}
    assert rows()["a vendor"] == ["vendors/NAME/", "contrib/vendors/NAME/"]


USE = """
import asyncio
from hami_core.agent.vendor import Vendor
from hami_core.tests.plugins.objects import one, vendor_with
from hami_core.tests.plugins.test_calls import NODE_SIDE

slept = []
side = one(vendor_with(), node=vendor_with(nap=lambda self, node: slept.append(node), **NODE_SIDE))
side.nap("n1")
asyncio.run(Vendor(side).nap(node="n2"))
print(slept)
"""


def test_added_hook_is_called_directly_and_awaited(tree):
    assert tree.run("-c", USE) == "['n1', 'n2']\n"


def test_added_policy_is_accepted_and_documented(tree):
    command = ["-m", "hami_core", "scheduler", "--gpu-scheduler-policy=numa,quietest", "--help"]
    assert "quietest" in tree.run(*command)
    assert "| `quietest` | the fewest slots in use |" in (tree.root / "docs/reference/settings.md").read_text()
    assert "quietest" in (tree.root / "contrib/helm/hami/values.schema.json").read_text()


def test_added_metric_and_setting_are_documented(tree):
    assert "--nap-time" in tree.run("-m", "hami_core", "agent", "--help")
    assert "`HAMI_NAP_TIME`" in (tree.root / "docs/reference/settings.md").read_text()
    assert "| `hami_agent_naps_total` | counter |" in (tree.root / "docs/reference/metrics.md").read_text()


def test_added_command_runs(tree):
    assert "Rest for a while." in tree.run("-m", "hami_core", "--help")
    assert tree.run("-m", "hami_core", "nap") == "rested\n"


def test_tests_of_tables_and_pages_pass_with_the_additions(tree):
    files = [
        *("hami_core/tests/plugins/test_hooks.py", "hami_core/tests/plugins/test_reference.py"),
        *("hami_core/tests/inventory/test_new_policy.py", "hami_core/tests/settings/test_reference.py"),
        *("hami_core/tests/agent/test_metrics.py", "tests/test_metric_tables.py", "tests/test_chart_files.py"),
    ]
    # That test runs mypy for half a minute. The ordinary run of the tests covers the specification already.
    chosen = ["-k", "not uses_that_do_not_fit"]
    tree.run("-m", "pytest", "-q", "-x", "-c", "pyproject.toml", "-p", "no:cacheprovider", *files, *chosen)


def test_import_rules_hold_with_the_additions(tree):
    tree.run("contrib/lint_imports.py", "--no-cache")
