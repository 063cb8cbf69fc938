"""The reference page of all hooks, out of the live specification: ``python -m hami_core.plugins.reference > …``."""

from __future__ import annotations

import inspect
import sys
import textwrap
from typing import Final

from hami_core import hookspecs
from hami_core.hookspecs import API_VERSION
from hami_core.plugins.example import Acme
from hami_core.plugins.hooks import HOOKS, NODE, START
from hami_core.plugins.markdown import docstring

CONTRACT: Final = ("register", "check_type", "check_uuid", "custom_filter", "patch_annotations", "allocate")
"""The six hooks whose names are frozen."""

_INTRO: Final = """# Hooks

Generated from `hami_core.hookspecs` by `python -m hami_core.plugins.reference`; a test compares. This is version
{version} of the contract. What hooks take and answer is in [Types](types.md). [Write a vendor
plugin](../how-to/write-a-vendor-plugin.md) goes step by step.

Below each hook is how a made-up vendor implements it; `hami_core/plugins/example.py` has them together.

A vendor is one class behind one entry point: group `hami.vendors` for the scheduler side, `hami.node` for the node
side, both under the vendor's name. It implements the hooks it wants, marked with `hami_core.hookimpl`, each with the
subset of the arguments it needs, by name. A method that has a hook's name and no mark refuses the whole vendor: its
rule would never be asked. It states `api_version = (major, minor)`; another major version is refused.
Where both classes implement a hook, the agent asks the node side.

Whatever a hook raises, and an answer of the wrong type or out of range, is logged with distribution, version, hook and
arguments (of one kind of failure the 1st, 10th, 100th…), counted, and has the effect named under *When it fails*. It
never ends the process; a hook that does not return does, see below. `RequestError` out of `parse_request` and
`mutate_admission` is the user's error and denies the pod with its text; `WireError` out of `register` is the node's.

A **wrapper** is a class in group `hami.plugins` whose hooks are generator functions marked `@hookimpl(wrapper=True)`.
It sees every call of the hooks it wraps, for every vendor, and may refuse; it cannot turn a refusal into a yes. What it
may change is in the last column; where it tries more, the vendor's answer stands and the wrapper is reported. A
vendor's `fit_mask` is not used while a wrapper wraps `custom_filter`, so that nothing goes past it.

The scheduler calls hooks on its event loop, one after another: a hook that waits or computes holds up every pod. After
a second a watchdog logs vendor, version, hook and stack, and counts it (`hami_plugin_blocks_total`). A vendor whose
hooks hold the loop for `--hook-time-limit` (30 s) without a pause ends the process and is closed from the next start
on: its pods are refused by name, other vendors' pods go on ([scheduler](scheduler.md)). The agent calls hooks in
threads, each with a time limit, and goes on without the answer.

A call costs about 0.2 µs beyond the hook itself, 6 µs where a wrapper wraps it.

`hami plugins` shows what is installed, imports node sides too, and exits with 1 when a plugin has an error. A node side
that needs a driver this machine lacks is "not importable here", which is none. `hami conformance NAME` runs the kit of
`hami_core.testing` on an installed vendor:

| it shows | for example |
|---|---|
| the cause beside the failed test | `custom_filter: ValueError: boom; called with request=…` |
| a load error once | `in choose: the method has a hook's name and is not marked` |
| the hook that does not return, after a third of `--timeout` (60 s) | `the hook choose did not return` |
| which side was not tested, and why | `PASSED (scheduler side only)` |

Hooks of the scheduler side must not touch files, clock or network, change their arguments, print, or keep memory of
each call; a cache of up to 2,000 entries is fine. A request may be rounded up; it must never be less than the limit
says.

| hook | side | required | a wrapper may |
|---|---|---|---|
"""

_COMBINATIONS: Final = """## Combinations

A container that asks for several devices gets them as one *combination*. Three hooks have a say in it:

| hook | asked | sees | answers |
|---|---|---|---|
| `custom_filter` | about each device, before any is taken | one device | a reason against this device |
| the same, with `depends_on_chosen` | again, beside those taken | one device, those taken before it | the same |
| `choose` | once, when enough devices fit | all devices that fit | a combination, a reason against all, or None |

A node is placed in this order:

1. Every device goes through the scheduler's checks and `custom_filter` with `chosen=()`. Those that pass are the
   *candidates*. With fewer candidates than the container asks for, the node is refused and `choose` is not asked.
2. `choose` gets all candidates, in the order of the pod's policy. Its `Reason` refuses the node: all candidates count
   under that reason, and the pod's event repeats its `detail`. Under NUMA binding step 2 is done for each NUMA node,
   until one of them gives a combination.
3. What `choose` picks is checked once more, each device beside those before it: amounts, the namespace's quota, and
   `custom_filter`. Where the quota does not allow the choice, the devices in order are put to `choose` alone.
4. Without `choose`, or where it answers None, candidates are taken in order. Where a family with `depends_on_chosen`
   refuses every further device, the last one taken is given up and the next candidate tried. The search asks at most
   256 questions more than there are candidates, which is enough for every pair among 16 devices. Then the node is
   refused. Each combination is tried in one order only, that of the policy.

All of them are asked for each request of each container, init containers too. Filter places such a pod node by node,
best first, until enough nodes are found. Where `choose` only prefers some combinations and refuses none, the family
declares `choose_is_preference`. It then answers no `Reason`, and Filter judges nodes without asking it. Scores of the
links between cards are such a preference.

Use `depends_on_chosen` for a rule between two devices. Use `choose` where the rule is about more of them, where some
combinations are better, or where the event should say why there is none.

**Pairs, device by device.** Cards 0 and 1, 2 and 3, and so on belong together; the family declares
`depends_on_chosen=True`. Of four free cards but for a little on card 3, a container that asks for two whole ones gets
cards 0 and 1, though card 2 is the first in order: no other card goes with it, so it is given up.

```python
from hami_core import DeviceUsage, Reason, hookimpl


class PairsByFilter:
    @hookimpl
    def custom_filter(self, device: DeviceUsage, chosen: tuple[DeviceUsage, ...]) -> Reason | None:
        if chosen and chosen[0].device.index // 2 != device.device.index // 2:
            return Reason("AcmeNotAPair")
        return None
```

**Pairs, all at once.** The same rule in `choose`, which keeps pairs whole as well: a container that asks for one card
gets one whose partner is taken already, if there is any.

```python
from hami_core import DeviceUsage, Reason, Request, hookimpl


class PairsByChoice:
    @hookimpl
    def choose(self, request: Request, candidates: tuple[DeviceUsage, ...]) -> tuple[int, ...] | Reason | None:
        position = {usage.device.index: at for at, usage in enumerate(candidates)}
        if request.count == 1:
            alone = [at for index, at in position.items() if index ^ 1 not in position]
            return (alone[0],) if alone else None
        pairs = [(at, position[index ^ 1]) for index, at in position.items() if index ^ 1 in position]
        if request.count == 2 and pairs:
            return pairs[0]
        return Reason("AcmeNotAPair", detail=f"{request.count} cards are asked for, both cards of a pair are given")
```

**Rings of four.** Cards 0 to 3 form a ring, 4 to 7 the next. Two or three cards must be neighbours, four a whole ring.

```python
from hami_core import DeviceUsage, Reason, Request, hookimpl


class Rings:
    @hookimpl
    def choose(self, request: Request, candidates: tuple[DeviceUsage, ...]) -> tuple[int, ...] | Reason:
        position = {usage.device.index: at for at, usage in enumerate(candidates)}
        for first in position:
            ring, place = first // 4 * 4, first % 4
            wanted = [ring + (place + step) % 4 for step in range(request.count)]
            if request.count <= 4 and all(index in position for index in wanted):
                return tuple(position[index] for index in wanted)
        return Reason("AcmeNoRing", detail=f"no {request.count} neighbours of one ring are free")
```

"""

_MAY: Final = {
    "same": "refuse by raising",
    "refusals": "add reasons",
    "mask": "refuse more devices",
    "choice": "refuse, or choose where the vendor answers None",
    "piece": "refuse, or make the slice smaller",
    "subset": "leave out devices",
    "unhealthier": "call devices unhealthy",
    "free": "change the answer",
}


def page() -> str:
    """The whole page in MyST markdown."""
    intro = _INTRO.format(version=".".join(map(str, API_VERSION)))
    rows = "\n".join(_row(name) for name in HOOKS)
    return intro + rows + "\n\n" + _COMBINATIONS + "\n".join(_hook(name) for name in HOOKS)


def signature(name: str) -> str:
    """A hook as it stands in the specification."""
    return f"{name}{inspect.signature(getattr(hookspecs, name))}".replace("'", "")


def side(name: str) -> str:
    """Where a hook is called."""
    if name in START:
        return "both"
    return "node" if name in NODE else "scheduler"


def _row(name: str) -> str:
    required = "no" if not HOOKS[name].required else "on the node side" if name in NODE else "yes"
    may = "not wrap it" if name in START else _MAY[HOOKS[name].tighten.__name__]
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
