"""The examples of docs/reference/simulate.md print what the page shows, except the time that Filter takes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import structlog
import yaml
from click.testing import CliRunner

from hami_core.cli.main import root
from hami_core.documents import load_mapping
from hami_core.plugins import load
from hami_core.policies import PolicyDefaults
from hami_core.simulate.clusterfile import NodeRow, QuotaRow, described_world
from hami_core.simulate.generator import Generate
from hami_core.simulate.workload import Job, admitted, jobs_of

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/reference/simulate.md").read_text("utf-8")
SESSIONS = re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
FILES = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder in which the example files have the names that they have in the repository."""
    (tmp_path / "contrib").symlink_to(ROOT / "contrib")
    monkeypatch.chdir(tmp_path)
    logging = structlog.get_config()
    yield tmp_path
    structlog.configure(**logging)


def without_times(line):
    """A row of the table without its last two columns."""
    return re.sub(r"\s+[0-9.]+\s+[0-9.]+$", "", line) if re.match(r"[a-z]+/", line) else line


@pytest.mark.parametrize("session", SESSIONS, ids=range(len(SESSIONS)))
def test_session_prints_what_the_page_shows(session, here):
    for part in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
        command, *shown = part.splitlines()
        program, *arguments = shlex.split(command)
        assert program == "hami"
        done = CliRunner().invoke(root, arguments)
        assert done.exit_code == 0, done.output
        printed = [without_times(line) for line in done.stdout.splitlines()]
        assert printed[: len(shown)] == [without_times(line) for line in shown]


def test_files_on_the_page_are_taken():
    cluster, written, drawn = FILES
    world = described_world(load_mapping(cluster, "cluster.yaml"), load({}, only=["nvidia"]), "cluster.yaml")
    opened = world.open(PolicyDefaults())
    assert (len(opened.inventory.node_names()), len(opened.inventory.usage("large-8"))) == (8, 8)
    jobs, wanted = jobs_of(written, "workload.yaml")
    pods = admitted(opened, jobs)
    assert wanted is None
    assert (len(pods), [shape.refusal for shape in pods.shapes]) == (60, [""])
    jobs, wanted = jobs_of(drawn, "workload.yaml")
    assert list(jobs) == []
    assert wanted == Generate(pods=3000, load=0.95, seed=1)


def test_example_files_are_those_that_the_page_quotes():
    examples = ROOT / "contrib/examples/simulate"
    cluster, drawn, jobs = (yaml.safe_load(path.read_text("utf-8")) for path in sorted(examples.glob("*.yaml")))
    quoted = [yaml.safe_load(text) for text in FILES]
    [row] = quoted[0]["nodes"]
    assert row == {key: cluster["nodes"][0][key] for key in row}
    assert quoted[0]["quotas"] == cluster["quotas"]
    assert quoted[1]["jobs"] == jobs["jobs"][:1]
    assert quoted[2] == drawn


def test_every_key_of_the_files_is_on_the_page():
    for model in (NodeRow, QuotaRow, Job, Generate):
        for key in model.model_fields:
            assert f"`{key}`" in PAGE
