"""Generate files from the chart's values.yaml and from the Python packages, or check that they are up to date.

    python contrib/helm/generate.py [--check]

values.schema.json, the chart's README.md and the table of docs/reference/chart.md come from the comments of
values.yaml: "# -- text" above a key, with its type in parentheses if the default does not show it. hami-keys.yaml adds
keys of HAMi's charts to schema and table; for the templates, it becomes files/hami-keys.json. files/vendors.json lists
the vendors of vendors/ and contrib/vendors/, whose packages our images hold. files/system-keys.json comes from
hami_core.wire.keys and those vendors.
"""

from __future__ import annotations

import json
import pkgutil
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from contrib import vendor_folders
from hami_core.model import INT32_MAX
from hami_core.plugins.discovery import Found, Source
from hami_core.plugins.load import assemble
from hami_core.policies import DEVICE_POLICIES, NODE_POLICIES
from hami_core.wire import keys

ROOT = vendor_folders.ROOT
CHART = ROOT / "contrib/helm/hami"
HERE = ROOT / "contrib/helm"
PAGE = ROOT / "docs/reference/chart.md"
BEGIN, END = "<!-- generated from values.yaml -->", "<!-- end of what is generated -->"

NAME = "^[A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?$"
RESOURCE = "[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
SCALAR = {"type": ["string", "number", "boolean"]}
STRINGS = {"type": "array", "items": {"type": "string"}}
NAMED = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}
SECRET = {"anyOf": [{"type": "string"}, NAMED]}
CHIP_RESOURCES = ("resourceCountName", "resourceMemoryName", "resourceCoreName")
ROOT_PATH = {"type": "string", "pattern": "^/[^:]*$"}
TYPES: dict[str, dict[str, Any]] = {
    "any": {},
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int": {"type": "integer", "maximum": INT32_MAX},
    "number": {"type": "number", "exclusiveMinimum": 0},
    "null": {"type": "null"},
    "object": {"type": "object"},
    "map:string": {"type": "object", "additionalProperties": {"type": "string"}},
    "map:scalar": {"type": "object", "additionalProperties": SCALAR},
    "list:string": STRINGS,
    "list:int": {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 1, "maximum": INT32_MAX}},
    "list:object": {"type": "array", "items": {"type": "object"}},
    "list:secret": {"type": "array", "items": SECRET},
    "address": {"type": "string", "pattern": r"^(0\.0\.0\.0|\[::\])?:[0-9]+$"},
    "folder": {"type": "string", "pattern": "^/[^:]+$"},
    "root": ROOT_PATH,
    "auto": {"enum": ["auto"]},
    "percent": {"type": "string", "pattern": "^[0-9]+%$"},
    "int|empty": {"type": ["integer", "string"], "pattern": "^[0-9]*$", "minimum": 0, "maximum": INT32_MAX},
    "bool|string": {"enum": [True, False, "true", "false"]},
    "name": {"type": "string", "pattern": NAME},
    "resource": {"type": "string", "pattern": f"^({RESOURCE})?$"},
    "list:resource": {"type": "array", "items": {"type": "string", "pattern": f"^{RESOURCE}$"}},
    "list:name": {"type": "array", "items": {"type": "string", "pattern": NAME}},
    "list:chip": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "chipName": {"type": "string", "minLength": 1},
                "commonWord": {"type": "string", "pattern": NAME},
                **{key: {"type": "string", "pattern": f"^{RESOURCE}$"} for key in CHIP_RESOURCES},
            },
            "required": ["chipName", "commonWord", *CHIP_RESOURCES],
            "additionalProperties": False,
        },
    },
    "list:npu": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "commonWord": {"type": "string", "pattern": NAME},
                "resourceName": {"type": "string", "pattern": f"^{RESOURCE}$"},
                **{key: {"type": "string", "pattern": f"^({RESOURCE})?$"} for key in CHIP_RESOURCES[1:]},
                "memoryAllocatable": {"type": "integer", "minimum": 1, "maximum": INT32_MAX},
            },
            "required": ["commonWord", "resourceName", "memoryAllocatable"],
        },
    },
    "list:mig": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "models": {"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 1}},
                "profiles": {
                    "type": "array",
                    "minItems": 1,
                    "items": {"type": "string", "pattern": "^[1-9][0-9]?g[.][^ ]+$"},
                },
            },
            "required": ["models", "profiles"],
            "additionalProperties": False,
        },
    },
    "word": {"type": "string", "pattern": "^([A-Za-z0-9]([-A-Za-z0-9._/:@]*[A-Za-z0-9])?)?$"},
    "time": {"type": "string", "pattern": r"^([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(Z|[-+][0-9]{2}:[0-9]{2}))?$"},
    "interval": {"type": "string", "pattern": "^([0-9]+(ms|[smhdwy]))*$"},
    "duration": {"type": "string", "pattern": r"^([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h)?)+$"},
    "duration|empty": {"type": "string", "pattern": r"^([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h)?)*$"},
    "count|all": {"type": ["string", "integer"], "minimum": 1, "pattern": "^([1-9][0-9]*|all)$"},
    "share|empty": {"type": ["integer", "string"], "pattern": "^$", "minimum": 1, "maximum": 100},
    "mps-limit": {"type": "string", "pattern": "^([0-9]+=[1-9][0-9]*[MG](,[0-9]+=[1-9][0-9]*[MG])*)?$"},
    "level": {"enum": [0, 1, 2, 3, 4, "0", "1", "2", "3", "4"]},
    "list:mount": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"hostPath": ROOT_PATH, "mountPath": ROOT_PATH, "readOnly": {"type": "boolean"}},
            "required": ["hostPath"],
            "additionalProperties": False,
        },
    },
}
AGENT: dict[str, Any] = {
    "name": ({"pattern": "^[a-z]([-a-z0-9]{0,18}[a-z0-9])?$"}, "Name in those of its objects, such as acme"),
    "vendor": ({"pattern": NAME}, "Vendor, by the name of its entry point"),
    "resourceNames": (
        {
            "type": "array",
            "minItems": 1,
            "items": {"type": "string", "pattern": f"^{RESOURCE}$"},
        },
        "Every resource name of the vendor: pods that name one go to the webhook and the scheduler",
    ),
    "image": (
        {
            "type": "object",
            "properties": {
                "registry": {"type": "string"},
                "repository": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9._/]*[a-z0-9])?$"},
                "tag": {"type": "string"},
                "pullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
                "pullSecrets": TYPES["list:secret"],
            },
            "required": ["repository"],
            "additionalProperties": False,
        },
        "registry, repository, tag (empty: global.imageTag), pullPolicy, pullSecrets",
    ),
    "nodeSelector": (TYPES["map:string"], "Labels of the nodes where it runs; empty: all nodes"),
    "env": (TYPES["map:scalar"], "Environment of the agent"),
    "mounts": (
        TYPES["list:mount"],
        "Paths of the node that the agent sees: hostPath, mountPath (default: hostPath), readOnly (default: true)",
    ),
    "systemKeys": (STRINGS, "Annotations of pods that only the system may set, in addition to hami.io/…-allocated"),
    "deviceConfig": (TYPES["object"], "The vendor's section of device-config.yaml, under its key"),
    "resources": (TYPES["object"], "Resources of the container; default: those of devicePlugin"),
    "securityContext": (TYPES["object"], "Security context of the container; default: that of devicePlugin"),
    "tolerations": (TYPES["list:object"], "Tolerations of the pods"),
    "affinity": (TYPES["object"], "Affinity of the pods"),
    "extraArgs": (STRINGS, "More arguments"),
}
"""Fields of an entry of ``agents``: schema and meaning. The first four are required."""
TYPES["list:agent"] = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            name: {"description": text, **({} if "type" in part else {"type": "string"}), **part}
            for name, (part, text) in AGENT.items()
        },
        "required": list(AGENT)[:4],
        "additionalProperties": False,
    },
}
IMAGES = ("devicePlugin.image", "scheduler.extender.image", "scheduler.kubeScheduler.image")
"""Images that are texts in HAMi's charts up to 2.6."""
WORDS = {"node-policy": NODE_POLICIES, "device-policy": DEVICE_POLICIES}
"""Sets of words, from the scheduler's settings."""


@dataclass(frozen=True)
class Key:
    """One value: its path, its type in words, its default, its meaning."""

    path: tuple[str, ...]
    type: str
    default: Any
    text: str


def described(lines: list[str], line: int) -> tuple[str, str]:
    """Type and text of the comment above a line; empty if there is none."""
    found: list[str] = []
    while line > 0 and lines[line - 1].strip().startswith("#"):
        line -= 1
        found.insert(0, lines[line].strip().removeprefix("#").strip())
        if found[0].startswith("-- "):
            text = " ".join(found).removeprefix("-- ")
            match = re.match(r"\((?P<type>[\w:|>=-]+)\) (?P<text>.*)", text)
            return (match["type"], match["text"]) if match else ("", text)
    return "", ""


def inferred(default: object, path: tuple[str, ...]) -> str:
    """The type of a key, from its default."""
    for kind, word in ((bool, "bool"), (str, "string"), (int, "int")):
        if isinstance(default, kind):
            return word
    raise SystemExit(f"values.yaml: {'.'.join(path)}: say its type, as in '# -- (list:string) text'")


def values() -> list[Key]:
    """All keys of values.yaml, in its order."""
    text = (CHART / "values.yaml").read_text()
    lines = text.split("\n")
    found: list[Key] = []

    def walk(node: yaml.MappingNode, above: tuple[str, ...]) -> None:
        for key, value in node.value:
            path = (*above, key.value)
            kind, meaning = described(lines, key.start_mark.line)
            if not meaning and isinstance(value, yaml.MappingNode):
                walk(value, path)
                continue
            if not meaning:
                raise SystemExit(f"values.yaml: {'.'.join(path)}: say what it means, as in '# -- text'")
            default = yaml.SafeLoader("").construct_document(value)
            found.append(Key(path, kind or inferred(default, path), default, meaning))

    whole = yaml.compose(text)
    if not isinstance(whole, yaml.MappingNode):
        raise SystemExit("values.yaml: expected a mapping")
    walk(whole, ())
    return found


def words(kind: str) -> list[str]:
    """The words of ``enum:a|b`` or ``chain:a|b``, or of a named set such as ``words:node-policy``."""
    text = kind.partition(":")[2]
    return list(WORDS.get(text, text.split("|")))


def of_type(kind: str) -> dict[str, Any]:
    """The JSON schema of a type in words, such as ``int>=1``, ``enum:a|b`` or ``list:string|null``."""
    if kind in TYPES:
        return dict(TYPES[kind])
    if kind.startswith(("enum:", "words:")):
        return {"enum": words(kind)}
    if kind.startswith("chain:"):
        one = "|".join(words(kind))
        # Add the words as an enum of their own, so that error messages list them.
        return {"anyOf": [{"enum": words(kind)}, {"type": "string", "pattern": f"^ *({one}) *(, *({one}) *)*$"}]}
    if match := re.fullmatch(r"int>=(\d+)", kind):
        return {"type": "integer", "minimum": int(match[1]), "maximum": INT32_MAX}
    if "|" in kind:
        return {"anyOf": [of_type(part) for part in kind.split("|")]}
    raise SystemExit(f"values.yaml: {kind!r} is no type")


def schema(found: list[Key]) -> dict[str, Any]:
    """The JSON Schema of the values. It refuses unknown keys."""
    root: dict[str, Any] = {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Values of the HAMi chart"}
    for key in found:
        here = root
        for part in key.path[:-1]:
            here.update({"type": "object", "additionalProperties": False})
            here = here.setdefault("properties", {}).setdefault(part, {})
        here.update({"type": "object", "additionalProperties": False})
        here.setdefault("properties", {})[key.path[-1]] = {"description": key.text, **of_type(key.type)}
    require(root, found)
    return root


def hami_keys(found: list[Key]) -> dict[str, Any]:
    """hami-keys.yaml, and for the templates the defaults of the keys that replace HAMi's, and of images."""
    known = {".".join(key.path): key.default for key in found}
    keys: dict[str, Any] = yaml.safe_load((HERE / "hami-keys.yaml").read_text())
    for old, new in keys["moved"].items():
        if new not in known or old in known:
            raise SystemExit(f"hami-keys.yaml: {old}: {new} is not in values.yaml, or {old} is")
    images: dict[str, dict[str, Any]] = {name: {} for name in IMAGES}
    for name, default in known.items():
        above, _, part = name.rpartition(".")
        if above in images:
            images[above][part] = default
    return {**keys, "defaults": {new: known[new] for new in sorted(set(keys["moved"].values()))}, "images": images}


def add_hami_keys(root: dict[str, Any], found: list[Key], keys: dict[str, Any]) -> None:
    """Let the schema accept HAMi's keys, and images as text."""
    types = {".".join(key.path): key.type or inferred(key.default, key.path) for key in found}
    added = {old: (types[new], f"Now {new}.") for old, new in keys["moved"].items()}
    added |= {key: (each.get("type", "any"), f"Ignored: {each['text']}.") for key, each in keys["ignored"].items()}
    added |= {key: ("bool", f"Refused if true: {text}.") for key, text in keys["refused"].items()}
    for name, (kind, text) in added.items():
        *above, last = name.split(".")
        here = root
        for part in above:
            new = {"type": "object", "additionalProperties": False, "properties": {}}
            here = here["properties"].setdefault(part, new)
        accepted = of_type(kind)
        # null is allowed, as in HAMi's charts: it leaves the key out.
        either = {"anyOf": [*accepted.get("anyOf", [accepted]), TYPES["null"]]} if accepted else {}
        here["properties"][last] = {"description": text, **either}
    for name in IMAGES:
        here = root
        for part in name.split("."):
            here = here["properties"][part]
        here |= {"type": ["object", "string"], "pattern": TYPES["word"]["pattern"], "maxLength": 255}


def hami_table(keys: dict[str, Any]) -> str:
    """HAMi's keys as Markdown."""
    out = ["### Further keys of HAMi's charts", "", "| key | what becomes of it |", "|---|---|"]
    out += [f"| `{old}` | now `{new}` |" for old, new in keys["moved"].items()]
    out += [f"| `{key}` | ignored: {each['text']} |" for key, each in keys["ignored"].items()]
    out += [f"| `{key}` | refused if true: {text} |" for key, text in keys["refused"].items()]
    return "\n".join(out)


def require(root: dict[str, Any], found: list[Key]) -> None:
    """Keys that the templates need. null removes a default, which the templates accept for lists and mappings only."""
    for key in found:
        here = root
        for part in key.path[:-1]:
            if part not in here.setdefault("required", []):
                here["required"].append(part)
            here = here["properties"][part]
        if isinstance(key.default, bool | int | float | str):
            here.setdefault("required", []).append(key.path[-1])


def table(found: list[Key]) -> str:
    """The values as Markdown, with one table for each part."""
    out: list[str] = []
    part = None
    for key in found:
        head = f"`{key.path[0]}`" if len(key.path) > 1 else "Names"
        if head != part:
            part = head
            out += ["", f"### {head}", "", "| key | type | default | meaning |", "|---|---|---|---|"]
        default = json.dumps(key.default, ensure_ascii=False)
        shown = "…" if len(default) > 120 else default
        is_set = key.type.startswith(("enum:", "words:", "chain:"))
        shown_type = " or ".join(words(key.type) if is_set else key.type.split("|"))
        out.append(f"| `{'.'.join(key.path)}` | {shown_type} | `{shown}` | {key.text} |")
    out += ["", "### An entry of `agents`", "", "| field | required | meaning |", "|---|---|---|"]
    out += [f"| `{name}` | {'yes' if name in list(AGENT)[:4] else ''} | {text} |" for name, (_, text) in AGENT.items()]
    return "\n".join(out).strip()


README = """\
# The Helm chart of {title}

{description} Kubernetes {kubernetes} and later, Helm 3 and 4. Generated by
`contrib/helm/generate.py`.

No image is published yet. [Install](../../../docs/how-to/install.md) builds them, pushes them to your registry and
writes `images.yaml`:

```console
$ helm upgrade --install hami contrib/helm/hami -n hami-system --create-namespace -f images.yaml --wait
```

Where HAMi itself is installed, [migrate](../../../docs/how-to/migrate-from-hami.md) instead: the names are the same.

Values that are set most often; [the reference](../../../docs/reference/chart.md) has all of them:

{table}
"""
OFTEN_SET = (
    "global.imageRegistry",
    "global.imageTag",
    "scheduler.extender.image.registry",
    "devicePlugin.image.registry",
    "devicePlugin.nvidiaNodeSelector",
    "devicePlugin.deviceSplitCount",
    "devicePlugin.deviceMemoryScaling",
    "devicePlugin.runtimeClassName",
    "devicePlugin.nvidiaDriverRoot",
    "scheduler.replicas",
    "scheduler.certManager.enabled",
    "prometheus.enabled",
    "prometheus.alerts.enabled",
    "grafana.dashboards.enabled",
)
"""Keys in the README of the chart."""


def readme(found: list[Key]) -> str:
    """The README of the chart."""
    meta = yaml.safe_load((CHART / "Chart.yaml").read_text())
    keys_by_name = {".".join(key.path): key for key in found}
    rows = ["| key | default | meaning |", "|---|---|---|"]
    rows += [
        f"| `{name}` | `{json.dumps(keys_by_name[name].default)}` | {keys_by_name[name].text} |" for name in OFTEN_SET
    ]
    description, _, title = meta["description"].partition(". ")
    oldest = meta["kubeVersion"].removeprefix(">=").rpartition(".")[0]
    return README.format(
        title=title.rstrip("."), description=f"{description}.", kubernetes=oldest, table="\n".join(rows)
    )


def system_keys(found: list[vendor_folders.Vendor]) -> dict[str, Any]:
    """Annotations that only the system sets. Vendors are imported from the source tree, installed or not."""
    sys.path[:0] = [str(vendor.source) for vendor in found]
    sides = [
        Found(
            Source(
                vendor.name,
                vendor_folders.VENDORS,
                vendor.target(vendor_folders.VENDORS),
                vendor.distribution,
                vendor.version,
            ),
            pkgutil.resolve_name(vendor.target(vendor_folders.VENDORS)),
        )
        for vendor in found
    ]
    loaded = assemble(sides)
    loaded.require()
    families = [family for vendor in loaded.vendors for family in vendor.families]
    own = {key for family in families for key in (family.allocated_key, family.to_allocate_key) if key}
    listed = sorted(keys.SYSTEM_POD_KEYS | own)
    return {"prefix": keys.ALLOCATED_PREFIX, "suffix": keys.ALLOCATED_SUFFIX, "keys": listed}


def main() -> None:
    """Write the files; with ``--check``, only compare them."""
    found, in_tree = values(), vendor_folders.in_tree(ROOT)
    keys_of_hami, accepted = hami_keys(found), schema(found)
    add_hami_keys(accepted, found, keys_of_hami)
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    wanted = {
        CHART / "values.schema.json": json.dumps(accepted, indent=1) + "\n",
        CHART / "files/hami-keys.json": json.dumps(keys_of_hami, indent=1, ensure_ascii=False) + "\n",
        CHART / "README.md": readme(found),
        CHART / "files/vendors.json": json.dumps([vendor.name for vendor in in_tree]) + "\n",
        CHART / "files/system-keys.json": json.dumps(system_keys(in_tree), indent=1) + "\n",
        PAGE: f"{before}{BEGIN}\n\n{table(found)}\n\n{hami_table(keys_of_hami)}\n\n{END}{after}",
    }
    old = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv[1:]:
        if old:
            sys.exit("not up to date: " + ", ".join(str(path.relative_to(ROOT)) for path in old))
        return
    for path in old:
        path.write_text(wanted[path])
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
