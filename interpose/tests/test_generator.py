"""No function of the driver goes by unnoticed: one that has no class fails the build and is named."""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hami_gpusim import _layout
from hami_interpose import _region_layout

INTERPOSE = Path(__file__).resolve().parent.parent
CONSTRAINTS = INTERPOSE.parent / "constraints.txt"
UNKNOWN = "NotOfAnyClassYet"
ROWS = {
    "cuda": f"cu{UNKNOWN}\tcu{UNKNOWN}\t13060\t-\t13.6\ti32\tu32:flags:unsigned int\n",
    "nvml": f"nvml{UNKNOWN}\tnvml{UNKNOWN}\t0\t-\t13.6\ti32\tptr:device:nvmlDevice_t\n",
}


@pytest.fixture
def tree(tmp_path):
    """The generator with what it reads, to be changed; what it writes is not there, so nothing is compared."""
    for name in ("gen", "spec"):
        shutil.copytree(INTERPOSE / name, tmp_path / "interpose" / name)
    return tmp_path / "interpose"


def run(script: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def names(table: Path) -> set[str]:
    return {line.split("\t")[0] for line in table.read_text().splitlines() if not line.startswith("#")}


@pytest.mark.parametrize("script", ["emit.py", "layouts.py"])
def test_checked_in_files_are_what_the_generator_writes(script):
    done = run(INTERPOSE / "gen" / script, "--check")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("module", [_layout, _region_layout], ids=lambda module: module.__name__)
def test_ctypes_puts_fields_where_the_compiler_does(module):
    text = Path(str(module.__file__)).read_text()
    structures = re.findall(
        r'class (\w+)\(c\.Structure\):\n    """`struct \w+`, (\d+) bytes\."""\n\n((?: .*\n)+)', text
    )
    assert len(structures) == text.count("c.Structure")
    for name, size, fields in structures:
        structure = getattr(module, name)
        places = re.findall(r'^ +\("(\w+)", .*\),  # (\d+)$', fields, re.MULTILINE)
        assert [(field, getattr(structure, field).offset) for field, _ in places] == [
            (field, int(offset)) for field, offset in places
        ]
        assert ctypes.sizeof(structure) == int(size)


def test_changed_header_fails_the_check_and_is_shown(tree):
    for name in ("src", "python", "gpusim/include", "gpusim/python"):
        shutil.copytree(INTERPOSE / name, tree / name)
    header = tree / "src/abi.h"
    header.write_text(header.read_text().replace("NO_SLOT = 6", "NO_SLOT = 9"))
    done = run(tree / "gen/layouts.py", "--check")
    assert done.returncode == 1
    assert "-REASON_NO_SLOT: Final = 6\n+REASON_NO_SLOT: Final = 9\n" in done.stderr


@pytest.mark.parametrize("library", ROWS)
def test_symbol_without_a_class_is_named(tree, library):
    with (tree / f"spec/{library}_prototypes.tsv").open("a") as table:
        table.write(ROWS[library])
    done = run(tree / "gen/emit.py", "--check")
    assert (done.returncode, done.stderr) == (1, f"{library}.toml: unclassified: {ROWS[library].split()[0]}\n")


def newest() -> str:
    """The last version of CUDA whose headers are in the table."""
    first = (INTERPOSE / "spec/cuda_prototypes.tsv").read_text().splitlines()[0]
    return re.findall(r"\d+\.\d+", first)[-1]


def test_installed_headers_are_those_in_the_table():
    pinned = re.search(r"^nvidia-cuda-runtime==(\d+\.\d+)\.", CONSTRAINTS.read_text(), re.MULTILINE)
    assert pinned is not None
    assert pinned[1] == newest()


@pytest.fixture
def headers(tmp_path):
    """NVIDIA's headers of the newest version in the table, from its wheel, in a folder of the test's own."""
    if importlib.util.find_spec("pycparser") is None:
        pytest.skip("pycparser is not installed: no headers can be read")
    try:
        found = importlib.metadata.distribution("nvidia-cuda-runtime")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("nvidia-cuda-runtime is not installed: there are no headers to read")
    if not found.version.startswith(f"{newest()}."):
        pytest.skip(f"nvidia-cuda-runtime {found.version} is installed; the table has the headers of {newest()}")
    files = found.files or []
    [header] = [Path(str(file.locate())) for file in files if file.name == "cuda.h"]
    return Path(shutil.copytree(header.parent, tmp_path / "include", ignore=shutil.ignore_patterns("cccl*")))


def test_function_of_the_newest_headers_needs_a_class(tree, headers):
    known = names(tree / "spec/cuda_prototypes.tsv")
    families = tomllib.loads((tree / "spec/cuda.toml").read_text())["family"]
    text = (headers / "cuda.h").read_text()
    declared = re.search(r"^CUresult CUDAAPI cuInit\(.*\n", text, re.MULTILINE)
    assert declared is not None
    new = f"CUresult CUDAAPI cu{UNKNOWN}(unsigned int Flags);\n"
    (headers / "cuda.h").write_text(text.replace(declared[0], declared[0] + new))
    done = run(tree / "gen/parse.py", "--cuda", f"13.9={headers}")
    assert done.returncode == 0, done.stderr
    found = names(tree / "spec/cuda_prototypes.tsv")
    assert found - known == {f"cu{UNKNOWN}"}
    assert len(found) > 600
    assert found - {name for family in families for name in family["symbols"]} == {f"cu{UNKNOWN}"}
    done = run(tree / "gen/emit.py", "--check")
    assert (done.returncode, done.stderr) == (1, f"cuda.toml: unclassified: cu{UNKNOWN}\n")
