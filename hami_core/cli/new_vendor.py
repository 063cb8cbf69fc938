"""``hami plugins new``: writes a vendor package from the template ``contrib/template``.

The template is itself a working package, so that tests and linters read it as it is. Two things become a new package:

- Names. Every ``acme``, ``Acme``, ``ACME``, ``acme.example`` and ``npu`` in files and in file names is replaced.
- Parts. Jinja's statements stand in comments: ``# template if node_side``, and in Markdown
  ``<!-- template if node_side -->``.
"""

from __future__ import annotations

import io
import keyword
import os
import re
import shlex
import sys
import tokenize
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME: Final = re.compile(r"[a-z][a-z0-9]{0,29}")
_DOMAIN: Final = re.compile(r"(?=.{3,200}$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)+")
_DEVICE: Final = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?")
_RESERVED: Final = ("kubernetes.io", "k8s.io", "hami.io")
"""Domains that are not vendors'. Kubernetes accepts no device plugin's resource in its own."""
_WORDS: Final = re.compile(r"acme\.example|(?<![a-z])npu(?![a-z])|acme|Acme|ACME")
_NODE_SIDE: Final = ("node.py", "simulated.py")
_LEFT_OUT: Final = ("__pycache__", "build", "dist")
_HOMES: Final = {"vendors": True, "contrib/vendors": False}
"""Folders for vendors in HAMi's repository → whether vendors there have a node side (contrib/vendor_folders.py)."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to write.

    Attributes:
        name: Name of the vendor, such as ``zeta``.
        domain: Domain of its resources and annotations.
        device: Word for one device, such as ``npu``.
        node_side: Whether the package serves the nodes.
        target: The folder to make.
        repository: Root of HAMi's repository if the vendor becomes a part of it.
    """

    name: str
    domain: str
    device: str
    node_side: bool
    target: Path
    repository: Path | None


@click.command("new")
@click.argument("name")
@click.option(
    "--into",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="Folder for the package's folder. In HAMi's repository: vendors or contrib/vendors.",
)
@click.option("--domain", help="Domain of the resources and annotations, such as zeta.com.  [default: NAME.example]")
@click.option("--device", default="npu", show_default=True, help="Word for one device: the resource is DOMAIN/DEVICE.")
@click.option(
    "--node-side/--no-node-side",
    default=None,
    help="Whether HAMi's agent serves the nodes, or another device plugin.  [default: the agent]",
)
def command(name: str, into: Path, domain: str | None, device: str, *, node_side: bool | None) -> None:
    """Write a package for the new vendor NAME, with tests that pass, and print what to do next.

    The package's folder is hami-NAME; in HAMi's repository it is NAME. Nothing is overwritten. Without a node side,
    another device plugin serves the nodes, and the package has the scheduler side alone.

    Needs the extra hami[testing].
    """
    plan = _plan(name, into, domain or f"{name}.example", device, node_side)
    files = _rendered(_template(), plan)
    _check_names(plan)
    _write(plan.target, files)
    print(f"{_shown(plan.target)}: {len(files)} files written. Next:\n")
    print("\n".join(f"  {line}" for line in _next(plan)))


def _plan(name: str, into: Path, domain: str, device: str, node_side: bool | None) -> Plan:
    """Check the options by themselves.

    Raises:
        ConfigError: An option is wrong.
    """
    from hami_core.errors import ConfigError

    if not _NAME.fullmatch(name):
        fix = "write lower-case letters and digits, a letter first, at most 30, such as zeta"
        raise ConfigError("NAME", f"{name!r} cannot name a package hami_{name}", fix)
    if not _DOMAIN.fullmatch(domain):
        raise ConfigError("--domain", f"{domain!r} is not a domain", f"write one of the vendor's, such as {name}.com")
    for reserved in _RESERVED:
        if domain == reserved or domain.endswith(f".{reserved}"):
            raise ConfigError("--domain", f"{reserved} is not a vendor's domain", f"write one such as {name}.com")
    if not _DEVICE.fullmatch(device):
        raise ConfigError("--device", f"{device!r} cannot end a resource's name", "write a word such as npu or gpu")
    home = into.resolve()
    for folder, serves_nodes in _HOMES.items():
        root = home.parents[folder.count("/")] if home.match(folder) else home
        if root / folder != home or not (root / "contrib/vendor_folders.py").is_file():
            continue
        if node_side not in {None, serves_nodes}:
            word, other = ("a", "contrib/vendors") if serves_nodes else ("no", "vendors")
            raise ConfigError("--into", f"vendors in {folder} have {word} node side", f"write --into {other}")
        return Plan(name, domain, device, serves_nodes, home / name, root)
    return Plan(name, domain, device, node_side is not False, home / f"hami-{name}", None)


def _check_names(plan: Plan) -> None:
    """Compare the names with those of installed packages and vendors.

    Raises:
        ConfigError: A name is taken.
    """
    from hami_core.errors import ConfigError
    from hami_core.plugins import load

    if find_spec(f"hami_{plan.name}") is not None:
        fix = f"choose another name, or pip uninstall hami-{plan.name}"
        raise ConfigError("NAME", f"{plan.name}: a package hami_{plan.name} is installed", fix)
    resources = {f"{plan.domain}/{plan.device}", f"{plan.domain}/{plan.device}-memory"}
    for vendor in load().vendors:
        for family in vendor.families:
            owner = f"{vendor.name} ({vendor.source.label})"
            if vendor.name == plan.name or family.word.casefold() == plan.name:
                raise ConfigError("NAME", f"{plan.name} is the common word {family.word} of {owner}", "choose another")
            for taken in sorted(resources & set(family.resources.names())):
                fix = "choose another --domain or --device"
                raise ConfigError("--domain and --device", f"the resource {taken} is of {owner}", fix)


def _template() -> Path:
    """The template's folder, in the installed package or in the checkout.

    Raises:
        ConfigError: There is no template: the package is damaged.
    """
    from hami_core.errors import ConfigError

    package = Path(__file__).resolve().parents[1]
    for candidate in (package / "template", package.parent / "contrib/template"):
        if (candidate / "pyproject.toml").is_file():
            return candidate
    raise ConfigError("plugins new", "the template is missing from the installed package", "reinstall hami")


def _rendered(template: Path, plan: Plan) -> dict[str, str]:
    """Path in the new package → content.

    Raises:
        ConfigError: Jinja is not installed, or the vendor's name is a word of the template's code.
    """
    from hami_core.errors import ConfigError

    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError as error:
        raise ConfigError("plugins new", "jinja2 is not installed", "pip install 'hami[testing]'") from error
    environment = Environment(  # noqa: S701 - these are no web pages
        block_start_string="<!-- template ",
        block_end_string="-->",
        variable_start_string="<!-- template= ",  # the template has none
        variable_end_string="=-->",
        comment_start_string="<!-- template# ",
        comment_end_string="#-->",
        line_statement_prefix="# template ",
        trim_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    names = (plan.name, plan.name.capitalize(), plan.name.upper())
    words = {"acme.example": plan.domain, "npu": plan.device, "acme": names[0], "Acme": names[1], "ACME": names[2]}
    files = {}
    for path in sorted(template.rglob("*")):
        inside = path.relative_to(template)
        hidden = any(part in _LEFT_OUT or part.startswith(".") for part in inside.parts)
        if not path.is_file() or hidden or (path.name in _NODE_SIDE and not plan.node_side):
            continue
        text = path.read_text("utf-8")
        if path.suffix == ".py" and (taken := _code_words(text) & set(names)):
            problem = f"the template's code already has a name {min(taken)}"
            raise ConfigError("NAME", f"{plan.name}: {problem}", "choose another, such as the company's whole name")
        text = environment.from_string(text).render(node_side=plan.node_side).rstrip("\n")
        files[_replaced(inside.as_posix(), words)] = f"{_replaced(text, words)}\n" if text else ""
    return files


def _replaced(text: str, words: Mapping[str, str]) -> str:
    return _WORDS.sub(lambda found: words[found[0]], text)


def _code_words(text: str) -> set[str]:
    """Names and keywords of Python code, except Acme's own."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    names = {token.string for token in tokens if token.type == tokenize.NAME}
    return {*names, *keyword.kwlist} - {"acme", "Acme", "ACME"}


def _write(target: Path, files: Mapping[str, str]) -> None:
    """Write a folder that does not exist yet.

    Raises:
        ConfigError: It exists, or can't be written.
    """
    from hami_core.errors import ConfigError

    try:
        target.mkdir(parents=True)
        for name, text in files.items():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_text(text, "utf-8")
    except FileExistsError as error:
        problem = f"{_shown(target)} exists"
        raise ConfigError("--into", problem, "choose another folder, or remove that one") from error
    except OSError as error:
        problem = f"{_shown(target)} can't be written: {error.strerror}"
        raise ConfigError("--into", problem, "choose a folder of yours") from error


def _shown(folder: Path) -> str:
    """The folder as it is typed from here."""
    here = Path.cwd()
    return str(folder.relative_to(here) if folder.is_relative_to(here) else folder)


def _next(plan: Plan) -> list[str]:
    """The commands that come next."""
    if plan.repository is not None:
        tests = shlex.quote(f"vendor({plan.name})")
        enter = [] if plan.repository == Path.cwd() else [f"cd {shlex.quote(_shown(plan.repository))}"]
        return [*enter, "nox -t gen", f"nox -s lint {tests}"]
    scripts = Path(sys.executable).parent
    on_path = str(scripts) in os.environ.get("PATH", "").split(os.pathsep)
    run = "" if on_path else f"{shlex.quote(str(scripts))}/"
    return [
        f"cd {shlex.quote(_shown(plan.target))}",
        f"{run}pip install -e '.[test]'",
        f"{run}hami plugins",
        f"{run}python -m pytest -q",
    ]
