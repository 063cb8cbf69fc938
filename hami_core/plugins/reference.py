"""Writes the reference page of all hooks from their specifications: ``python -m hami_core.plugins.reference > …``."""

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
{version} of the contract. [Types](types.md) describes what hooks take and answer. [Write a vendor
plugin](../how-to/write-a-vendor-plugin.md) goes step by step.

The example below each hook is from a made-up vendor; `hami_core/plugins/example.py` has the whole vendor.

## Rules

A **vendor** is one class behind one entry point: group `hami.vendors` for the scheduler side, `hami.node` for the node
side, both under the vendor's name. The class marks its hooks with `hami_core.hookimpl`. Each hook takes the arguments
that it needs, by name. If a method has a hook's name and no mark, the whole vendor is refused, because the method would
never be called. The class states `api_version = (major, minor)`; another major version is refused. If both classes
implement a hook, the agent calls the node side's.

**Imports.** The scheduler side is imported on machines without a driver, so it loads no driver library. Of the core,
import only from these modules. All others change without notice. For a vendor in this repository the import linter
enforces this.

| module | what it has |
|---|---|
| `hami_core` | [types, errors and the hook marker](types.md) |
| `hami_core.vendorkit` | [what vendors share](vendorkit.md): amounts, rounding, selectors, templates, locks |
| `hami_core.vendorkit.node` | [what the node side needs](vendorkit-node.md): writing registers, paths in containers |
| `hami_core.documents` | [strict readers for an administrator's YAML and JSON](documents.md), with texts for errors |
| `hami_core.testing` | [the conformance kit](testing.md) |

**Defaults.** Only `families` is required on the scheduler side. A vendor leaves out each other hook whose default is
right:

| hook left out | default |
|---|---|
| `register` | devices from the family's `register_key` in HAMi's JSON form |
| `parse_request` | count, memory, percentage and cores from limits, else requests; refuses impossible amounts |
| `mutate_admission` | the container uses devices if `parse_request` finds a request |
| `check_type`, `check_uuid` | the family's selector annotations: comma lists of models and UUIDs to use or to avoid |
| `custom_filter` | every device that has room |
| `patch_annotations` | nothing beyond `allocated_key` and `to_allocate_key`, which the framework writes |

**Refusing.** What a hook answers or raises depends on whose fault it is:

| problem | answer | from |
|---|---|---|
| the device does not fit | return `Reason`; it appears in the pod's events | `custom_filter`, `check_type`, … |
| the user's mistake | raise `RequestError(subject, field, problem, fix)` | `parse_request`, `mutate_admission` |
| a node's malformed annotation | raise `WireError` | `register` |
| a device, driver or file that is missing or fails | raise `DeviceError`; the pod's events show its text | `allocate` |

Any other exception is the plugin's failure: the pod is refused, and the message names the distribution and its version.

A **failure** is an exception, or an answer of the wrong type or out of range. It is counted, and logged with
distribution, version, hook and arguments (the 1st, 10th, 100th… failure of one kind). It never ends the process. *When
it fails* names its effect. Two exceptions are answers, not failures. `RequestError` from `parse_request` and
`mutate_admission` is the user's error and denies the pod with its text. `WireError` from `register` is the node's
error.

A **wrapper** is a class in group `hami.plugins` whose hooks are generator functions marked `@hookimpl(wrapper=True)`.
It sees every call of the hooks that it wraps, for every vendor, and may refuse. It cannot turn a refusal into a yes.
The last column of the table says what it may change. If it changes more, the vendor's answer stands and the wrapper is
reported. While a wrapper wraps `custom_filter`, vendors' `fit_mask` is not used, since it would bypass the wrapper.

**Time.** The scheduler calls hooks on its event loop, one after another, so a hook that waits or computes delays every
pod. After one second, a watchdog logs vendor, version, hook and stack, and counts the event
(`hami_plugin_blocks_total`). If a vendor's hooks hold the loop for `--hook-time-limit` (30 s) without a pause, the
process ends, and the vendor is closed from the next start on: its pods are refused with the vendor's name, and other
vendors' pods are scheduled ([scheduler](scheduler.md)). The agent calls hooks in threads, each with a time limit, and
continues without the answer. A call costs about 0.2 µs besides the hook itself, or 6 µs if a wrapper wraps it.

**Purity.** Hooks of the scheduler side must not use files, clock or network, change their arguments, print, or
remember each call. A cache of up to 2,000 entries is fine. A request may be rounded up, but must never be less than the
limit.

**Tools.** `hami plugins` lists what is installed, imports node sides too, and exits with 1 if a plugin has an error. A
node side that needs a driver which this machine lacks is "not importable here"; that is not an error.
`hami conformance NAME` runs the tests of `hami_core.testing` on an installed vendor:

| it shows | for example |
|---|---|
| the cause of each failed test | `custom_filter: ValueError: boom; called with request=…` |
| a load error once | `in choose: the method has a hook's name and is not marked` |
| the hook that does not return, after a third of `--timeout` (60 s) | `the hook choose did not return` |
| which side was not tested, and why | `PASSED (scheduler side only)` |

## All hooks

| hook | side | required | a wrapper may |
|---|---|---|---|
"""

_COMBINATIONS: Final = """## Combinations

A container that asks for several devices gets them as one *combination*. Two hooks take part in choosing it:

| hook | called | sees | answers |
|---|---|---|---|
| `custom_filter` | for each device, before any is taken | one device | a reason against this device |
| with `depends_on_chosen` | again, while devices are taken | one device, those taken before it | the same |
| `choose` | once, if enough devices fit | all devices that fit | a combination, a reason against all, or None |

The scheduler places a container on a node in these steps:

1. Every device goes through the scheduler's checks and `custom_filter` with `chosen=()`. The devices that pass are the
   *candidates*. If there are fewer than the container asks for, the node is refused and `choose` is not called.
2. `choose` gets all candidates, in the order of the pod's policy. Its `Reason` refuses the node: all candidates count
   under that reason, and the pod's event repeats its `detail`. Under NUMA binding, this step is done for each NUMA
   node, until one of them gives a combination.
3. The devices that `choose` picks are checked again, each together with those before it: amounts, the namespace's
   quota, and `custom_filter`. If the quota does not allow the choice, `choose` is called once more with only the
   devices that the policy's order would take.
4. Without `choose`, or if it answers None, candidates are taken in order. If a family with `depends_on_chosen` refuses
   every further device, the last device taken is given up and the next candidate is tried. Each combination is tried in
   the policy's order only. The search makes at most 256 calls more than there are candidates, which is enough for
   every pair among 16 devices. Then the node is refused.

These steps are done for each request of each container, including init containers. Filter places such a pod node by
node, best first, until enough nodes are found. If `choose` only prefers some combinations and refuses none, the family
declares `choose_is_preference`. `choose` then answers no `Reason`, and Filter judges nodes without calling it. Scores
of the links between cards are such a preference.

Use `depends_on_chosen` for a rule between two devices. Use `choose` if the rule is about more devices, if some
combinations are better, or if the event should say why there is none.

**Pairs, device by device.** Cards 0 and 1 belong together, 2 and 3, and so on. The family declares
`depends_on_chosen=True`. Example: of four cards, a container has a little of card 3, and the others are free. The
policy puts card 2 first. A container that asks for two whole cards gets cards 0 and 1: no other card goes with card 2,
so the search gives it up.

```python
from hami_core import DeviceUsage, Reason, hookimpl


class PairsByFilter:
    @hookimpl
    def custom_filter(self, device: DeviceUsage, chosen: tuple[DeviceUsage, ...]) -> Reason | None:
        if chosen and chosen[0].device.index // 2 != device.device.index // 2:
            return Reason("AcmeNotAPair")
        return None
```

**Pairs, all at once.** The same rule in `choose`, which also keeps pairs whole: a container that asks for one card gets
a card whose partner is taken already, if there is one.

```python
from hami_core import DeviceUsage, Reason, Request, hookimpl


class PairsByChoice:
    @hookimpl
    def choose(self, request: Request, candidates: tuple[DeviceUsage, ...]) -> tuple[int, ...] | Reason | None:
        position = {usage.device.index: number for number, usage in enumerate(candidates)}
        if request.count == 1:
            alone = [number for index, number in position.items() if index ^ 1 not in position]
            return (alone[0],) if alone else None
        pairs = [(number, position[index ^ 1]) for index, number in position.items() if index ^ 1 in position]
        if request.count == 2 and pairs:
            return pairs[0]
        return Reason("AcmeNotAPair", detail=f"{request.count} cards are asked for, cards are given in pairs")
```

**Rings of four.** Cards 0 to 3 form a ring, cards 4 to 7 the next. Two or three cards must be neighbours in a ring,
four cards a whole ring.

```python
from hami_core import DeviceUsage, Reason, Request, hookimpl


class Rings:
    @hookimpl
    def choose(self, request: Request, candidates: tuple[DeviceUsage, ...]) -> tuple[int, ...] | Reason:
        position = {usage.device.index: number for number, usage in enumerate(candidates)}
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
    "choice": "refuse, or choose if the vendor answers None",
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
    """A hook's name, arguments and answer, as in its specification."""
    return f"{name}{inspect.signature(getattr(hookspecs, name))}".replace("'", "")


def side(name: str) -> str:
    """The side on which a hook is called."""
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
    """The code of a hook in the made-up vendor of `hami_core.plugins.example`."""
    return textwrap.dedent(inspect.getsource(getattr(Acme, name))).strip()


if __name__ == "__main__":
    sys.stdout.write(page())
