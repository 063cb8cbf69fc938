"""No identifier and no text in the core's code names a vendor. ``hami.toml`` has HAMi's own names."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from contrib.vendor_folders import in_tree
from hami_core.compatibility import HAMI

CORE = Path(__file__).parents[1]
OTHERS = ("amd(?!64)", "ascend(?!ing)", "iluvatar", "huawei", "neuron", "dcu")
WORDS = sorted({*(vendor.name for vendor in in_tree()), *HAMI.sections} - {"vnpus", "amd", "ascend", "iluvatar"})
NAMED = re.compile(rf"(?<![a-z])({'|'.join((*WORDS, *OTHERS))})", re.IGNORECASE)
FILES = [path for path in sorted(CORE.rglob("*.py")) if "tests" not in path.relative_to(CORE).parts]


def texts(tree: ast.Module) -> list[tuple[int, str]]:
    """Yield line and text of all names and strings, except docstrings and texts below assignments."""
    prose = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    found = []
    for node in ast.walk(tree):
        if id(node) in prose:
            continue
        words = [getattr(node, name, None) for name in ("id", "attr", "arg", "name", "asname", "module", "value")]
        found += [(getattr(node, "lineno", 0), word) for word in words if isinstance(word, str)]
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(CORE)))
def test_core_names_no_vendor(path):
    named = [f"{line}: {text[:80]!r}" for line, text in texts(ast.parse(path.read_text())) if NAMED.search(text)]
    assert named == []


@pytest.mark.parametrize(
    "line", ["NVIDIA = 1", "x = 'nvidia.com/gpu'", "import hami_ascend", "f(cambricon=1)", "a.dcu_x"]
)
def test_a_name_is_found(line):
    assert any(NAMED.search(text) for _, text in texts(ast.parse(line)))


def test_ordinary_words_are_not_taken_for_vendors():
    assert not NAMED.search("ascending linux/amd64 lambda")
