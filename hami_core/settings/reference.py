"""Writes the reference page of all settings from the models: ``python -m hami_core.settings.reference > …``."""

from __future__ import annotations

import sys
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from hami_core.policies import DEFAULT_DEVICE_POLICY, DEFAULT_NODE_POLICY, DEVICE_POLICIES, NODE_POLICIES
from hami_core.settings.agent import AgentSettings
from hami_core.settings.fields import env_names, flag_names, note
from hami_core.settings.flags import KLOG, default_text
from hami_core.settings.scheduler import SchedulerSettings

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from hami_core.settings.base import Settings

_INTRO: Final = """# Settings

Generated from the models by `python -m hami_core.settings.reference`; a test compares.

If a setting is given in several places, the first of these counts:

1. The flag: `--name=value` or `--name value`; for switches also `--name` and `--name=false`. As in HAMi's programs, one
   dash works too, and so do underscores.
2. The environment variable, `HAMI_…`. If the table lists a second one, it is HAMi's own and comes after ours.
3. The settings file in YAML, which `--config` or `HAMI_CONFIG` names. Its keys are the names of the settings, with `_`
   or `-`.
4. The default.

A duration is a number of seconds (`90`), has Go's form (`5m`, `1h30m`, `250ms`), or counts days (`90d`). An address is
`host:port`, `:port` or `unix:/path`. Lists are separated by commas. A wrong value ends the process at start. The
message says where the value was set and what is expected, and suggests the word that was probably meant. An unknown
flag or key is an error too. An environment variable that resembles one of ours causes a warning.

`HAMI_PLUGINS` chooses the plugins to load, for debugging. `acme,audit` loads only these two, `-acme` leaves out this
one, and an empty value loads none.

If `--vendors` or `--vendor` names a vendor that is not installed, the process ends. A vendor that is installed but
broken is reported and left out.

All files follow the same rules. YAML and JSON must be UTF-8 (a byte order mark is skipped) of at most 4 MiB. Duplicate
keys, aliases that expand to too many values, tags such as `!!binary`, and numbers that JSON does not have (`.nan`,
`.inf`, more than 64 bits) are refused with line and column. A date is text.

Settings of one vendor's devices are in HAMi's `device-config.yaml`, with one section for each vendor. Unknown sections
and keys cause a warning with the key that was probably meant. Settings that differ between nodes are in the vendor's
own variables and its per-node file; see {doc}`agent` and the vendor's page.
"""


def page() -> str:
    """The whole page in MyST markdown."""
    parts = [
        _INTRO,
        _section("hami scheduler", SchedulerSettings),
        _policies(),
        _section("hami agent", AgentSettings),
        _variables(),
        _ignored(),
    ]
    return "\n".join(parts)


def _policies() -> str:
    chained = ", ".join(f"`{policy.word}`" for policy in DEVICE_POLICIES.values() if policy.in_chains)
    nodes = [f"| `{policy.word}` | {policy.help} |" for policy in NODE_POLICIES.values()]
    devices = [f"| `{policy.word}` | {policy.help} |" for policy in DEVICE_POLICIES.values()]
    return f"""## Policies

A pod names its policies in `hami.io/node-scheduler-policy` and `hami.io/gpu-scheduler-policy`. For pods that name none,
`--node-scheduler-policy` and `--gpu-scheduler-policy` apply. {{doc}}`../explanation/placement` says what a score is.

| node policy | best node |
|---|---|
{chr(10).join(nodes)}

| device policy | tried first |
|---|---|
{chr(10).join(devices)}

A device policy may be a comma list, such as `numa,binpack`. In a list, {chained}
order the devices, in the order written; the other words keep their other effects. An unknown word of a pod is ignored,
with a warning at admission. If no word is left, `{DEFAULT_NODE_POLICY}` applies to nodes and
`{DEFAULT_DEVICE_POLICY}` to devices.

`mutex` looks at the device once, when the pod is placed; later pods may join it, as in HAMi. With
`--mutex-keeps-devices` they are refused with `ExclusiveDeviceAllocateConflict` while the pod is alone there
({{doc}}`../explanation/placement`).

With NUMA binding, a device policy that the pod itself names also ranks the NUMA nodes.
"""


def _section(title: str, model: type[Settings]) -> str:
    groups: dict[str, list[str]] = defaultdict(list)
    for name, field in model.model_fields.items():
        flags = "<br>".join(f"`{flag}`" for flag in flag_names(name, field))
        variables = "<br>".join(f"`{variable}`" for variable in env_names(name, field))
        default = "required" if field.is_required() else f"`{default_text(field)}`"
        text = f"{field.description}{_choices(field)}".replace("|", "\\|")
        groups[note(field, "group")].append(f"| {flags} | {variables} | {default} | {text} |")
    lines = [f"## {title}"]
    for group, rows in groups.items():
        lines += [
            "",
            f"### {title}: {group}",
            "",
            "| flag | variable | default | meaning |",
            "|---|---|---|---|",
            *rows,
        ]
    return "\n".join([*lines, ""])


def _choices(field: FieldInfo) -> str:
    """List the words that a setting may have, unless its description has them already."""
    words: tuple[Any, ...] = getattr(field.annotation, "__args__", ())
    if not words or not all(isinstance(word, str) for word in words):
        return ""
    missing = [word for word in words if word not in (field.description or "")]
    return f" One of {', '.join(f'`{word}`' for word in words)}." if missing else ""


def _variables() -> str:
    rows = [f"| `{flag}` | `{variable}` |" for flag, variable in sorted(AgentSettings.VARIABLES.items())]
    lines = [
        "## hami agent: flags of the vendor",
        "",
        "HAMi's device plugin has these flags. The agent hands each to its vendor as HAMi's environment variable, and",
        "the flag comes before the variable. The vendor's page says what it means.",
        "",
        "| flag | variable |",
        "|---|---|",
    ]
    return "\n".join([*lines, *rows, ""])


def _ignored() -> str:
    lines = [
        "## Flags without effect",
        "",
        "HAMi's programs have these flags. They are accepted with a warning.",
        "",
        "| flag | program | why it has no effect |",
        "|---|---|---|",
    ]
    for title, flags in (
        ("scheduler", SchedulerSettings.IGNORED),
        ("agent", AgentSettings.IGNORED),
        ("both", KLOG),
    ):
        lines += [f"| `{flag}` | {title} | {why} |" for flag, why in sorted(flags.items())]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.stdout.write(page())
