"""`hami plugins new`: what it writes, and which names it refuses. `test_template.py` installs what it writes."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

from hami_core.cli.main import main


@pytest.fixture
def new(tmp_path, monkeypatch, capsys):
    """A function that runs the command in an empty folder. Returns its output, or the line of its refusal."""
    monkeypatch.chdir(tmp_path)

    def new(*words):
        with pytest.raises(SystemExit) as ended:
            main(["plugins", "new", *words])
        return capsys.readouterr().out if ended.value.code in {0, None} else str(ended.value.code)

    return new


def entry_points(folder):
    return tomllib.loads((folder / "pyproject.toml").read_text())["project"]["entry-points"]


def test_package_is_written_and_the_next_commands_are_printed(new, tmp_path):
    said = new("zeta").splitlines()
    written = [path for path in (tmp_path / "hami-zeta").rglob("*") if path.is_file()]
    assert said[0] == f"hami-zeta: {len(written)} files written. Next:"
    commands = [line.strip().removeprefix(f"{Path(sys.executable).parent}/") for line in said[2:]]
    assert commands == ["cd hami-zeta", "pip install -e '.[test]'", "hami plugins", "python -m pytest -q"]
    assert entry_points(tmp_path / "hami-zeta").keys() == {"hami.vendors", "hami.node"}


def test_domain_and_device_are_those_of_the_options(new, tmp_path):
    new("yota", "--into", "a/b", "--domain", "npu.acme.com", "--device", "v-npu", "--no-node-side")
    package = tmp_path / "a/b/hami-yota"
    scheduler = (package / "src/hami_yota/__init__.py").read_text()
    assert '"npu.acme.com/v-npu-memory"' in scheduler
    assert '"npu.acme.com/nouse-v-npu-uuid"' in scheduler
    assert "NODE_AGENT" not in scheduler
    assert (package / "tests/data/nodes/v-npu-2.yaml").exists()
    assert entry_points(package).keys() == {"hami.vendors"}
    assert not [path.name for path in package.rglob("*.py") if path.name in {"node.py", "simulated.py"}]


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (
            ["aws-neuron"],
            "NAME: 'aws-neuron' cannot name a package hami_aws-neuron (write lower-case letters and digits,",
        ),
        (["Zeta"], "NAME: 'Zeta' cannot"),
        (["9x"], "NAME: '9x' cannot"),
        (["../x"], "NAME: '../x' cannot"),
        (["z" * 31], "cannot name a package"),
        (["none"], "NAME: none: the template's code already has a name None"),
        (["family"], "NAME: family: the template's code already has a name Family"),
        (["config"], "NAME: config: the template's code already has a name config"),
        (["nvidia"], "NAME: nvidia: a package hami_nvidia is installed"),
        (["core"], "NAME: core: a package hami_core is installed"),
        (["mlu"], "NAME: mlu is the common word MLU of cambricon (hami-cambricon "),
        (
            ["zeta", "--domain", "zeta"],
            "--domain: 'zeta' is not a domain (write one of the vendor's, such as zeta.com)",
        ),
        (["zeta", "--domain", "zeta.com/x"], "--domain: 'zeta.com/x' is not a domain"),
        (["zeta", "--domain", "x.k8s.io"], "--domain: k8s.io is not a vendor's domain"),
        (["zeta", "--device", "Npu"], "--device: 'Npu' cannot end a resource's name"),
        (["zeta", "--device", "a" * 41], "cannot end a resource's name"),
        (
            ["zeta", "--domain", "nvidia.com", "--device", "gpu"],
            "--domain and --device: the resource nvidia.com/gpu is of nvidia (hami-nvidia ",
        ),
    ],
)
def test_wrong_name_is_refused_and_nothing_is_written(new, tmp_path, words, refusal):
    said = new(*words)
    assert said.startswith("hami: ")
    assert refusal in said
    assert list(tmp_path.iterdir()) == []


def test_existing_folder_is_left_alone(new, tmp_path):
    (tmp_path / "hami-zeta").mkdir()
    assert "hami-zeta exists (choose another folder, or remove that one)" in new("zeta")
    assert list((tmp_path / "hami-zeta").iterdir()) == []


def test_folder_that_cannot_be_made_is_named(new, tmp_path):
    (tmp_path / "file").touch()
    assert "file/a/hami-zeta can't be written: Not a directory" in new("zeta", "--into", "file/a")


def test_missing_jinja_is_named_with_its_extra(new, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert new("zeta") == "hami: plugins new: jinja2 is not installed (pip install 'hami[testing]')"


@pytest.fixture
def repository(tmp_path):
    (tmp_path / "contrib").mkdir()
    (tmp_path / "contrib/vendor_folders.py").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("home", "groups"), [("vendors", {"hami.vendors", "hami.node"}), ("contrib/vendors", {"hami.vendors"})]
)
def test_vendor_of_the_repository_is_named_as_its_folder(new, repository, home, groups):
    said = new("zeta", "--into", home)
    assert said.splitlines()[2:] == ["  nox -t gen", "  nox -s lint 'vendor(zeta)'"]
    assert entry_points(repository / home / "zeta").keys() == groups


@pytest.mark.parametrize(
    ("home", "option", "other"),
    [("vendors", "--no-node-side", "contrib/vendors"), ("contrib/vendors", "--node-side", "vendors")],
)
def test_node_side_in_the_wrong_home_is_refused(new, repository, home, option, other):
    assert f"node side (write --into {other})" in new("zeta", "--into", home, option)
    assert not (repository / home / "zeta").exists()


def test_folder_called_vendors_elsewhere_is_an_ordinary_one(new, tmp_path):
    new("zeta", "--into", "vendors", "--no-node-side")
    assert (tmp_path / "vendors/hami-zeta/pyproject.toml").exists()


def test_list_of_plugins_takes_no_option_before_new(new):
    """`hami plugins --json` is the list; see `test_cli.py`."""
    with pytest.raises(SystemExit) as ended:
        main(["plugins", "--json", "new", "zeta"])
    assert ended.value.code == 2
