"""The reference page of all hooks, out of the live specification: ``python -m hami_core.plugins.reference > …``."""

from __future__ import annotations

import inspect
import sys
import textwrap
from typing import Final

from hami_core import hookspecs
from hami_core.hookspecs import API_VERSION
from hami_core.plugins.example import Acme
from hami_core.plugins.manager import HOOKS, NODE_REQUIRED, START
from hami_core.plugins.markdown import docstring
from hami_core.plugins.tighten import RULES

CONTRACT: Final = ("register", "check_type", "check_uuid", "custom_filter", "patch_annotations", "allocate")
"""The six hooks whose names are frozen."""

_INTRO: Final = """# Hooks

Generated from `hami_core.hookspecs` by `python -m hami_core.plugins.reference`; a test compares. This is version
{version} of the contract. What hooks take and answer is in [Types](types.md). [Write a vendor
plugin](../how-to/write-a-vendor-plugin.md) goes step by step.

Below each hook is how a made-up vendor implements it; `hami_core/plugins/example.py` has them together.

A vendor is one class behind one entry point: group `hami.vendors` for the scheduler side, `hami.node` for the node
side, both under the vendor's name. It implements the hooks it wants, marked with `hami_core.hookimpl`, each with the
subset of the arguments it needs, by name. It states `api_version = (major, minor)`; another major version is refused.
Where both classes implement a hook, the agent asks the node side.

Whatever a hook raises, and an answer of the wrong type or out of range, is logged with distribution, version, hook and
arguments (of one kind of failure the 1st, 10th, 100th…), counted, and has the effect named under *When it fails*. It
never ends the process. `RequestError` out of `parse_request` and `mutate_admission` is the user's error and denies the
pod with its text; `WireError` out of `register` is the node's.

A **wrapper** is a class in group `hami.plugins` whose hooks are generator functions marked `@hookimpl(wrapper=True)`.
It sees every call of the hooks it wraps, for every vendor, and may refuse; it cannot turn a refusal into a yes. What it
may change is in the last column; where it tries more, the vendor's answer stands and the wrapper is reported. A
vendor's `fit_mask` is not used while a wrapper wraps `custom_filter`, so that nothing goes past it.

A call costs about 0.2 µs beyond the hook itself, 6 µs where a wrapper wraps it.

| hook | side | required | a wrapper may |
|---|---|---|---|
"""

_MAY: Final = {
    "_same": "refuse by raising",
    "_refusals": "add reasons",
    "_mask": "refuse more devices",
    "_piece": "refuse, or make the slice smaller",
    "_subset": "leave out devices",
    "_unhealthier": "call devices unhealthy",
    "_free": "change the answer",
}


def page() -> str:
    """The whole page in MyST markdown."""
    intro = _INTRO.format(version=".".join(map(str, API_VERSION)))
    return intro + "\n".join(_row(name) for name in HOOKS) + "\n\n" + "\n".join(_hook(name) for name in HOOKS)


def signature(name: str) -> str:
    """A hook as it stands in the specification."""
    return f"{name}{inspect.signature(getattr(hookspecs, name))}".replace("'", "")


def side(name: str) -> str:
    """Where a hook is called."""
    if name in START:
        return "both"
    names = list(HOOKS)
    return "node" if names.index(name) >= names.index("discover") else "scheduler"


def _row(name: str) -> str:
    required = "yes" if name == "families" else "on the node side" if name in NODE_REQUIRED else "no"
    may = _MAY[RULES[name].__name__] if name in RULES else "not wrap it"
    frozen = " (frozen)" if name in CONTRACT else ""
    return f"| [`{name}`](#hook-{name.replace('_', '-')}){frozen} | {side(name)} | {required} | {may} |"


def _hook(name: str) -> str:
    doc = inspect.getdoc(getattr(hookspecs, name)) or ""
    body = "\n".join(docstring(doc))
    shown = f"**Example**\n\n```python\n{example(name)}\n```\n"
    return f"(hook-{name.replace('_', '-')})=\n## `{name}`\n\n```python\n{signature(name)}\n```\n\n{body}\n\n{shown}"


def example(name: str) -> str:
    """How the made-up vendor of `hami_core.plugins.example` implements a hook."""
    return textwrap.dedent(inspect.getsource(getattr(Acme, name))).strip()


if __name__ == "__main__":
    sys.stdout.write(page())
