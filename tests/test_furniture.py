"""Project files beside the code: licences, versions, placeholders, generated files, changelog."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import pytest

from contrib import distributions, subjects
from contrib.vendor_folders import in_tree
from noxfile import GENERATED, SCHEMAS

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
FOLDERS = [ROOT, *distributions.folders()]


def git(*words: str, root: Path = ROOT) -> list[str]:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode > 1:
        pytest.skip(f"git {words[0]}: {done.stderr.strip()}")
    return done.stdout.splitlines()


def test_copies_of_version_and_licence_are_up_to_date(capsys):
    assert distributions.main(["--check"]) == 0, capsys.readouterr().err


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_each_distribution_contains_its_licence(folder):
    project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    assert (project["license"], project["license-files"]) == ("Apache-2.0", ["LICENSE"])
    assert (folder / "LICENSE").is_file()
    assert not (folder / "LICENSE").is_symlink()


def test_every_folder_of_a_vendor_has_its_licence():
    assert {vendor.folder for vendor in in_tree()} < set(FOLDERS)


def test_new_version_is_written_everywhere(tmp_path):
    names = [distributions.SOURCE, "LICENSE"]
    names += [str(file.relative_to(ROOT)) for file, _ in distributions.copies()]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text("utf-8"), "utf-8")
    assert distributions.main(["7.8.9"], tmp_path) == 0
    assert distributions.main(["--check"], tmp_path) == 0
    for vendor in in_tree(tmp_path):
        assert vendor.version == "7.8.9"
        assert "hami>=7.8,<7.9" in vendor.pyproject["project"]["dependencies"]
    for name in ("pyproject.toml", "interpose/pyproject.toml", "vendors/nvidia/pyproject.toml"):
        assert '"hami-gpusim>=7.8,<7.9' in (tmp_path / name).read_text("utf-8")
    native = ("interpose/python/hami_interpose/_version.py", "interpose/gpusim/python/hami_gpusim/_version.py")
    for name in ("contrib/helm/hami/Chart.yaml", "CITATION.cff", *native):
        text = (tmp_path / name).read_text("utf-8")
        assert "7.8.9" in text
        assert distributions.current() not in text


def test_invalid_version_is_refused(capsys):
    assert distributions.main(["v1"]) == 2
    assert "such as 0.2.0" in capsys.readouterr().err


def test_placeholder_addresses_are_only_in_one_file():
    placeholder = "PROJECT-" + "OWNER"
    assert set(git("grep", "-l", placeholder)) <= {"pyproject.toml", "RELEASING.md"}
    if any(placeholder in address for address in PROJECT["project"]["urls"].values()):
        assert placeholder in (ROOT / "RELEASING.md").read_text("utf-8")


def test_each_pattern_of_gitattributes_matches_a_file():
    lines = (ROOT / ".gitattributes").read_text("utf-8").splitlines()
    patterns = [line.split()[0] for line in lines if line and not line.startswith(("#", "* "))]
    assert [pattern for pattern in patterns if not git("ls-files", f":(glob){pattern}")] == []


def test_generated_pages_and_no_others_are_marked():
    pages = sorted(ROOT.glob("docs/reference/*.md"))
    generated = {str(path.relative_to(ROOT)) for path in pages if GENERATED.search(path.read_text("utf-8"))}
    lines = git("check-attr", "linguist-generated", *(str(path.relative_to(ROOT)) for path in pages))
    generated.add("docs/reference/interposer-coverage.md")  # by interpose/gen/emit.py, together with the C tables
    assert {line.partition(":")[0] for line in lines if line.endswith(": set")} == generated


def test_each_schema_has_a_file():
    assert [name for name, patterns in SCHEMAS.items() if not any(list(ROOT.glob(p)) for p in patterns)] == []


def test_fragments_have_names_that_towncrier_accepts():
    config = PROJECT["tool"]["towncrier"]
    kinds = {kind["directory"] for kind in config["type"]}
    readme = (ROOT / config["directory"] / "README.md").read_text("utf-8")
    assert [kind for kind in kinds if f"| `{kind}` |" not in readme] == []
    fragments = [path for path in (ROOT / config["directory"]).iterdir() if path.name != "README.md"]
    wrong = [
        path.name
        for path in fragments
        if [part for part in path.name.split(".") if not part.isdigit()][-1] not in kinds
    ]
    assert wrong == []
    assert config["start_string"] in (ROOT / config["filename"]).read_text("utf-8")


@pytest.mark.parametrize(
    ("subject", "wrong"),
    [
        ("agent: retry a refused write", ""),
        ("docs, chart: name the key", ""),
        ("vendors/nvidia: " + "x" * 56, ""),
        ("vendors/nvidia: " + "x" * 57, "73 characters; at most 72"),
        ("Fixed it", "begin with the area, such as 'agent: ' or 'docs, chart: '"),
        ("agent:retry", "begin with the area, such as 'agent: ' or 'docs, chart: '"),
    ],
)
def test_subject_has_area_and_at_most_72_characters(subject, wrong):
    assert subjects.fault(subject) == wrong


@pytest.fixture
def history(tmp_path) -> Path:
    """A repository that added the check after a commit with a bad subject."""
    commit = ["-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "--quiet", "--allow-empty", "--message"]
    git("init", "--quiet", root=tmp_path)
    git(*commit, "Old and bad", root=tmp_path)
    (tmp_path / "contrib").mkdir()
    (tmp_path / subjects._SELF).touch()
    git("add", ".", root=tmp_path)
    git(*commit, "Bad too", root=tmp_path)
    git(*commit, "agent: good", root=tmp_path)
    return tmp_path


def test_only_subjects_after_the_check_are_checked(history, capsys):
    assert subjects.main(history) == 0
    assert capsys.readouterr().out == "subjects: 1 commits checked, 0 refused\n"
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "Worse", root=history)
    assert subjects.main(history) == 1
    assert "Worse\n  begin with the area" in capsys.readouterr().err


def test_clone_without_history_passes_with_a_note(history, tmp_path_factory, capsys):
    shallow = tmp_path_factory.mktemp("shallow") / "clone"
    git("clone", "--quiet", "--depth", "1", history.as_uri(), str(shallow))
    assert subjects.main(shallow) == 0
    assert subjects.main(tmp_path_factory.mktemp("none")) == 0
    assert capsys.readouterr().out.splitlines() == [
        "subjects: not checked: this clone is shallow",
        "subjects: not checked: this is no git repository",
    ]


def test_ci_checks_subjects():
    assert "contrib/subjects.py" in (ROOT / ".ci/run").read_text("utf-8")
