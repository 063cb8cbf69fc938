"""The reference pages of what a vendor may import, out of the docstrings of the public modules.

``python -m hami_core.plugins.api types > docs/reference/types.md`` writes one; `PAGES` names them all. They are plain
Markdown, so that they also read well on a code host.
"""

from __future__ import annotations

import ast
import inspect
import sys
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, Final

from hami_core.plugins.markdown import docstring, literals

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True, slots=True)
class Page:
    """One page.

    Attributes:
        module: The public module; its ``__all__`` says what is on the page.
        title: Heading.
        intro: What the module is for.
    """

    module: str
    title: str
    intro: str


PAGES: Final = {
    "types": Page(
        "hami_core",
        "Types",
        "What hooks take and answer: frozen values with typed fields. Memory is in MiB, cores in percent of one device "
        "(100: a whole one). `from hami_core import *` brings all of them. [Hooks](hooks.md) says which hook takes "
        "what; [Write a vendor plugin](../how-to/write-a-vendor-plugin.md) goes step by step.",
    ),
    "vendorkit": Page(
        "hami_core.vendorkit",
        "Vendorkit",
        "What vendors share. Each function is HAMi's rule for most vendors. A vendor with another rule writes its own "
        "hook and still uses the pieces. Everything here is pure.",
    ),
    "vendorkit-node": Page(
        "hami_core.vendorkit.node",
        "Vendorkit, node side",
        "How a vendor's node side writes its registers, and the paths at which a container finds its limits.",
    ),
    "documents": Page(
        "hami_core.documents",
        "Documents",
        "An administrator's YAML and JSON, read strictly, and texts for what is wrong in them. A vendor reads its own "
        "files with these functions, and words its own messages as the core does.",
    ),
    "testing": Page(
        "hami_core.testing",
        "Testing",
        "What an author proves a vendor with. It needs the extra `hami[testing]`. [Write a vendor "
        "plugin](../how-to/write-a-vendor-plugin.md#prove-it) has the test file to begin with.",
    ),
}
_HEADINGS: Final = {
    "hami_core.model": "Values",
    "hami_core.capability": "Capabilities",
    "hami_core.errors": "Errors",
    "hami_core.hookspecs": "The contract",
    "hami_core._version": "Version",
}


def page(name: str) -> str:
    """A page in Markdown."""
    it = PAGES[name]
    source = (
        f"Generated from the docstrings of `{it.module}` by `python -m hami_core.plugins.api {name}`; a test compares, "
        "and runs the examples."
    )
    parts = [f"# {it.title}\n", *(f"{fill(text, 119)}\n" for text in (source, it.intro))]
    for home, names in by_home(it.module).items():
        if home != it.module:
            heading = _HEADINGS.get(home) or home.rpartition(".")[2].replace("_", " ").capitalize()
            parts.append(f"## {heading}\n")
        parts += [_entry(it.module, home, each) for each in names]
    if name == "testing":
        parts += _kit()
    return "\n".join(parts)


def by_home(module: str) -> dict[str, list[str]]:
    """The public names of a module by the module that defines them, each in the order of its source."""
    every = set(import_module(module).__all__)
    found: dict[str, list[str]] = {}
    for home in _homes(module):
        names = [name for name in _definitions(home) if name in every]
        every -= set(names)
        if names:
            found[home] = names
    assert not every, f"{module}: {sorted(every)} are defined nowhere"  # noqa: S101 - a fault of this generator
    return found


def _homes(module: str) -> list[str]:
    """A public module and those that it takes its names from, in the order of `_HEADINGS` where they stand there."""
    if module == "hami_core":
        return list(_HEADINGS)
    folder = Path(inspect.getfile(import_module(module)))
    beside = sorted(folder.parent.glob("*.py")) if folder.name == "__init__.py" else []
    inside = [f"{module}.{path.stem}" for path in beside if path.stem != "__init__"]
    outside = [n.module for n in _body(module) if isinstance(n, ast.ImportFrom) and n.module and n.level == 0]
    return [module, *inside, *(each for each in outside if each.startswith("hami_core.") and each not in inside)]


@cache
def _body(module: str) -> tuple[ast.stmt, ...]:
    """A module's statements, read and not imported: some of the kit's modules need pytest."""
    return tuple(ast.parse(_path(module).read_text("utf-8")).body)


def _definitions(module: str) -> dict[str, ast.stmt]:
    """What a module defines at its top, in order."""
    return {name: node for node in _body(module) for name in _defined(node)}


def _path(module: str) -> Path:
    root = Path(inspect.getfile(import_module("hami_core"))).parents[1]
    path = root.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return [node.name]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []


def _entry(module: str, home: str, name: str) -> str:
    node = _definitions(home)[name]
    title = f"{'##' if home == module else '###'} `{name}`\n"
    if isinstance(node, ast.FunctionDef):
        return f"{title}\n```python\n{_signature(node)}\n```\n\n{_text(ast.get_docstring(node) or '')}"
    value = getattr(import_module(module), name)
    if isinstance(node, ast.ClassDef):
        return f"{title}\n{_class(value, node)}"
    said = [literals(_member_docs(_body(home)).get(name, ""))]
    if not repr(value).startswith("<"):
        said.append(f"Value: `{value!r}`")
    return f"{title}\n" + "\n\n".join(part for part in said if part) + "\n"


def _signature(node: ast.FunctionDef, name: str = "") -> str:
    arguments = ast.unparse(node.args).removeprefix("self").removeprefix(", ")
    answer = f" -> {ast.unparse(node.returns)}" if node.returns and not name else ""
    return f"{name or node.name}({arguments}){answer}"


def _text(doc: str, *, without: str = "") -> str:
    return "\n".join(docstring(doc, without=without)).strip() + "\n"


def _class(it: type, node: ast.ClassDef) -> str:
    doc = ast.get_docstring(node) or ""
    said = _attributes(doc) | _member_docs(node.body)
    text = _text(doc, without="Attributes")
    before, fence, example = text.partition("**Example**")
    parts = [before.strip() + "\n"]
    if issubclass(it, Enum):
        words = [(f"`{member.name}`", f"`{member.value}`", said.get(member.name, "")) for member in it]
        parts.append(_table(("member", "value", "meaning"), words))
    elif issubclass(it, BaseException):
        made = [_signature(each, it.__name__) for each in _functions(node) if each.name == "__init__"]
        parts = [*(f"```python\n{line}\n```\n" for line in made), *parts]
    elif members := list(_fields(it)):
        rows = [(f"`{name}`", f"`{kind}`", default, said.get(name, "")) for name, kind, default in members]
        parts.append(_table(("field", "type", "default", "meaning"), rows))
    methods = [each for each in _functions(node) if not each.name.startswith(("_", "test_"))]
    if methods and not issubclass(it, Enum):
        parts.append("\n".join(_method(method) for method in methods) + "\n")
    if fence:
        parts.append(f"{fence}{example}")
    return "\n".join(part for part in parts if part.strip())


def _functions(node: ast.ClassDef) -> list[ast.FunctionDef]:
    return [each for each in node.body if isinstance(each, ast.FunctionDef)]


def _method(node: ast.FunctionDef) -> str:
    first = literals((ast.get_docstring(node) or "").partition("\n")[0])
    if any(isinstance(each, ast.Name) and each.id == "property" for each in node.decorator_list):
        return f"- property `{node.name}`: {first}"
    return f"- `{_signature(node)}`: {first}"


def _fields(it: Any) -> Iterator[tuple[str, str, str]]:  # noqa: ANN401 - a class
    """Name, type and default of each field of a dataclass or named tuple."""
    if is_dataclass(it):
        for field in fields(it):
            yield field.name, str(field.type), _default(field)
    elif hasattr(it, "_field_defaults"):
        for name, kind in it.__annotations__.items():
            default = it._field_defaults.get(name, MISSING)
            yield name, getattr(kind, "__forward_arg__", str(kind)), "" if default is MISSING else f"`{default!r}`"


def _default(field: Field[Any]) -> str:
    if field.default is not MISSING:
        return f"`{field.default!r}`"
    return "empty" if field.default_factory is not MISSING else ""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table, without columns that hold nothing."""
    columns = [at for at in range(len(head)) if any(row[at] for row in rows)]
    lines = [
        [head[at] for at in columns],
        ["---"] * len(columns),
        *([_cell(row[at]) for at in columns] for row in rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _cell(text: str) -> str:
    return literals(text).replace("|", "\\|")


def _attributes(doc: str) -> dict[str, str]:
    """Name → meaning in the section ``Attributes`` of a docstring."""
    found: dict[str, str] = {}
    inside, name = False, ""
    for line in doc.splitlines():
        if line and not line.startswith(" "):
            inside = line == "Attributes:"
        elif inside and line.startswith(" " * 8):
            found[name] += f" {line.strip()}"
        elif inside and line.strip():
            name, _, text = line.strip().partition(": ")
            found[name] = text
    return found


def _member_docs(body: Sequence[ast.stmt]) -> dict[str, str]:
    """Name → the text below an assignment."""
    return {
        name: " ".join(inspect.cleandoc(str(after.value.value)).split())
        for before, after in pairwise(body)
        for name in (_defined(before) if isinstance(before, ast.Assign | ast.AnnAssign) else ())
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
    }


def _kit() -> list[str]:
    """What an author fills in, and what each test of the kit says."""
    case = _definitions("hami_core.testing.suites.case")["VendorCase"]
    assert isinstance(case, ast.ClassDef)  # noqa: S101 - a fault of this generator
    given = _member_docs(case.body)
    rows = [(f"`{name}`", "class attribute", text) for name, text in given.items()]
    rows += [
        (f"`{node.name}`", "fixture", ast.get_docstring(node) or "")
        for node in case.body
        if isinstance(node, ast.FunctionDef) and node.name in {"vendor", "node_side"}
    ]
    parts = ["## What a test class fills in\n", _table(("name", "is", "meaning"), rows), "## The tests of the kit\n"]
    for path in sorted(_path("hami_core.testing.suites").parent.glob("[a-z]*.py")):
        tests = [
            (node.name.removeprefix("test_").replace("_", " "), " ".join((ast.get_docstring(node) or "").split()))
            for cls in _body(f"hami_core.testing.suites.{path.stem}")
            if isinstance(cls, ast.ClassDef)
            for node in cls.body
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        ]
        if tests:
            parts += [f"### {path.stem.capitalize()}\n", _table(("test", "what it holds a vendor to"), tests)]
    return parts


if __name__ == "__main__":
    sys.stdout.write(page(sys.argv[1]))
