"""Copy the version and the licence into every distribution. `nox -s version -- 0.2.0` runs this.

    python contrib/distributions.py            write the version of hami_core/_version.py everywhere, copy LICENSE
    python contrib/distributions.py 0.2.0      set that version first
    python contrib/distributions.py --check    list the files that differ; exit with 1 if there are any
    python contrib/distributions.py --version  print the version

`hami_core/_version.py` holds the version and `LICENSE` holds the licence. All other places are copies, because the
build of a vendor's sdist sees only the vendor's folder. This script needs only the standard library.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if __package__ in {None, ""}:  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from contrib.vendor_folders import pyprojects

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCE: Final = "hami_core/_version.py"
VERSION: Final = re.compile(r"\d+\.\d+\.\d+")
_ASSIGNED: Final = re.compile(r'(?m)^(__version__ = ")[^"]*(")$')
_PYPROJECT: Final = re.compile(r'(?m)^(version = ")[^"]*(")$')
_RANGE: Final = re.compile(r'("hami(?:-\w+)?(?:\[\w+\])?)>=\d+\.\d+,<\d+\.\d+([";])')
_CHART: Final = re.compile(r'(?m)^((?:version|appVersion): "?)\d[^"\s]*("?)$')
_CITATION: Final = re.compile(r"(?m)^(version: )\S+()$")


def current(root: Path = ROOT) -> str:
    """The version of all distributions.

    Raises:
        ValueError: hami_core/_version.py does not state a version.
    """
    found = _ASSIGNED.search((root / SOURCE).read_text("utf-8"))
    if not found:
        raise ValueError(f"{SOURCE}: __version__ is missing")
    return found[0].split('"')[1]


def folders(root: Path = ROOT) -> list[Path]:
    """Folders of all distributions except `hami` itself, including the template."""
    return [
        root / "interpose",
        root / "interpose/gpusim",
        root / "contrib/template",
        *(path.parent for path in pyprojects(root)),
    ]


def copies(root: Path = ROOT) -> Iterator[tuple[Path, str]]:
    """Each file that repeats version or licence, with the text it must have."""
    version = current(root)
    major, minor, _ = map(int, version.split("."))
    between = f">={major}.{minor},<{major}.{minor + 1}"
    for file in (root / "contrib/template/pyproject.toml", *pyprojects(root)):
        text = _RANGE.sub(rf"\g<1>{between}\g<2>", file.read_text("utf-8"))
        yield file, _PYPROJECT.sub(rf"\g<1>{version}\g<2>", text)
    for name in ("pyproject.toml", "interpose/pyproject.toml", "tests/stranger/npu/pyproject.toml"):
        yield root / name, _RANGE.sub(rf"\g<1>{between}\g<2>", (root / name).read_text("utf-8"))
    for name, pattern in {
        "interpose/python/hami_interpose/_version.py": _ASSIGNED,
        "interpose/gpusim/python/hami_gpusim/_version.py": _ASSIGNED,
        "contrib/helm/hami/Chart.yaml": _CHART,
        "CITATION.cff": _CITATION,
    }.items():
        yield root / name, pattern.sub(rf"\g<1>{version}\g<2>", (root / name).read_text("utf-8"))
    for folder in folders(root):
        yield folder / "LICENSE", (root / "LICENSE").read_text("utf-8")


def main(words: list[str], root: Path = ROOT) -> int:
    """Run; returns the exit status."""
    if words == ["--version"]:
        print(current(root))
        return 0
    check = words == ["--check"]
    if words and not check:
        if len(words) > 1 or not VERSION.fullmatch(words[0]):
            sys.stderr.write(f"{' '.join(words)!r}: write one version of three numbers, such as 0.2.0\n")
            return 2
        file = root / SOURCE
        file.write_text(_ASSIGNED.sub(rf"\g<1>{words[0]}\g<2>", file.read_text("utf-8")), "utf-8")
    different = [(file, text) for file, text in copies(root) if not file.is_file() or file.read_text("utf-8") != text]
    for file, text in different:
        sys.stderr.write(f"{file.relative_to(root)}: {'differs from its source' if check else 'written'}\n")
        if not check:
            file.write_text(text, "utf-8")
    return 1 if check and different else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
