"""The reference page of all settings, out of the models: ``python -m hami_core.settings.reference > …``."""

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

Where a setting is given in several places, the first of these counts:

1. the flag, `--name=value` or `--name value`; switches also `--name` and `--name=false`. One dash and underscores work
   too, as with HAMi's programs;
2. the environment variable, `HAMI_…`; where a second one is listed, it is HAMi's own and comes after ours;
3. the settings file, YAML, named by `--config` or `HAMI_CONFIG`; its keys are the setting names below, with `_` or `-`;
4. the default.

Durations are seconds or Go's form (`90`, `5m`, `1h30m`, `250ms`); addresses `host:port`, `:port` or `unix:/path`; lists
are separated by commas. A value that is wrong ends the process at start with the place it was set in and what is
expected: a number out of bounds, and a word that is none of those there are, with the one that was probably meant. An
unknown flag or key is an error too; an environment variable that resembles one of ours is warned of.

`HAMI_PLUGINS` chooses what plugins are loaded, for debugging: `acme,audit` these and no others, `-acme` all but
this one, set and empty none.

A vendor that `--vendors` or `--vendor` names must be installed, or the process ends; one that is installed and broken
is reported and left out.

Every file is read the same way. YAML and JSON must be UTF-8 (a byte order mark is skipped) of at most 4 MiB, and say
what they mean: a key that stands twice, aliases that multiply, tags such as `!!binary` and numbers that JSON does not
have (`.nan`, `.inf`, more than 64 bits) are refused with line and column. A date is text.

Settings of one vendor's devices are in the device-config (HAMi's `device-config.yaml`: one section a vendor, unknown
sections and keys are warned of, with the key that was probably meant) and, for what is particular to a node, in the
vendor's own variables and its per-node file; see {doc}`agent` and the vendor's page.
"""


def page() -> str:
    """The whole page in MyST markdown."""
    parts = [
        _INTRO,
        _section("hami scheduler", SchedulerSettings),
        _policies(),
        _section("hami agent", AgentSettings),
        _ignored(),
    ]
    return "\n".join(parts)


def _policies() -> str:
    chained = ", ".join(f"`{policy.word}`" for policy in DEVICE_POLICIES.values() if policy.in_chains)
    nodes = [f"| `{policy.word}` | {policy.help} |" for policy in NODE_POLICIES.values()]
    devices = [f"| `{policy.word}` | {policy.help} |" for policy in DEVICE_POLICIES.values()]
    return f"""## Policies

A pod names its policies in `hami.io/node-scheduler-policy` and `hami.io/gpu-scheduler-policy`. For pods that name none,
`--node-scheduler-policy` and `--gpu-scheduler-policy` count. {{doc}}`../explanation/placement` says what a score is.

| node policy | best node |
|---|---|
{chr(10).join(nodes)}

| device policy | tried first |
|---|---|
{chr(10).join(devices)}

A device policy may be a comma list, such as `numa,binpack`. In a list, the order comes from {chained}
as written; the other words keep their other effects. A pod's word that is none of these is passed over, with a warning
at admission. If none is left, `{DEFAULT_NODE_POLICY}` counts for nodes and `{DEFAULT_DEVICE_POLICY}` for devices.
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
    """The words a setting may have, where the description does not list them already."""
    words: tuple[Any, ...] = getattr(field.annotation, "__args__", ())
    if not words or not all(isinstance(word, str) for word in words):
        return ""
    missing = [word for word in words if word not in (field.description or "")]
    return f" One of {', '.join(f'`{word}`' for word in words)}." if missing else ""


def _ignored() -> str:
    lines = [
        "## Flags without effect",
        "",
        "HAMi's programs have them; they are accepted with a warning.",
        "",
        "| flag | of | why it has none |",
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
