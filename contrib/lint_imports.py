"""Run import-linter on this tree; arguments are those of ``lint-imports``, such as ``--no-cache``.

    python contrib/lint_imports.py --no-cache

import-linter needs the name of every package. The contracts in pyproject.toml say ``VENDORS`` in place of the packages
of all vendors. This script writes their names into a temporary copy.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

if __package__ in {None, ""}:  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from contrib.vendor_folders import ROOT, in_tree


def configuration(root: Path = ROOT) -> str:
    """Text of a tree's pyproject.toml, with ``VENDORS`` replaced by the names of the vendors' packages."""
    names = ", ".join(f'"{vendor.package}"' for vendor in in_tree(root))
    return (root / "pyproject.toml").read_text("utf-8").replace('"VENDORS"', names)


def main() -> None:
    """Run; ends the process with import-linter's status."""
    from importlinter.cli import lint_imports_command  # noqa: PLC0415 - tests read the configuration without it

    # Read the packages from the tree, installed or not.
    sys.path[:0] = [
        str(ROOT / "interpose/python"),
        str(ROOT / "interpose/gpusim/python"),
        *(str(vendor.source) for vendor in in_tree()),
    ]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pyproject.toml"
        file.write_text(configuration(), "utf-8")
        lint_imports_command(["--config", str(file), *sys.argv[1:]])


if __name__ == "__main__":
    main()
