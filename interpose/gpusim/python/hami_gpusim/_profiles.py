"""Profiles of simulated machines: which cards, how joined. Built-in models are the JSON files in ``profiles/``."""

from __future__ import annotations

import importlib.resources
import json
import re
import uuid
from pathlib import Path
from typing import Any

MAX_DEVICES = 16
MODELS_FOLDER = "profiles"
DEFAULT_DRIVER = "610.57.02"
DEFAULT_NVML = "13.610.57.02"
DEFAULT_CUDA = "13.5"
DEFAULT_LAUNCH_US = 10.0
CPUS_PER_NUMA_NODE = 32
_NAME = re.compile(r"([a-z0-9][a-z0-9-]*?)(?:x([0-9]{1,3}))?")

# Keys of a profile, and of one entry of its "devices".
PROFILE_KEYS = {"name", "driver_version", "nvml_version", "cuda_version", "launch_us", "seed", "devices"}
ENTRY_KEYS = {"model", "count", "memory_reserved_mib", "numa_nodes", "compute_mode", "mig_mode"}
COMPUTE_MODES = {"default": 0, "exclusive_thread": 1, "prohibited": 2, "exclusive_process": 3}  # nvmlComputeMode_t
FIXED_KEYS = {"buses", "compute_capability", "mig_profiles"}  # lists that belong to the model
MAX_TEXT = {"name": 255, "driver_version": 31, "nvml_version": 31, "seed": 255, "product": 95}
MAX_LAUNCH_US = 60_000_000


class ProfileError(ValueError):
    """A profile that is unknown or not valid; the message names the place and the fix."""


def models() -> list[str]:
    """Names of the built-in models."""
    folder = importlib.resources.files("hami_gpusim") / MODELS_FOLDER
    return sorted(f.name.removesuffix(".json") for f in folder.iterdir() if f.name.endswith(".json"))


def model(name: str) -> dict[str, Any]:
    """The data of one built-in model.

    Raises:
        ProfileError: There is none of that name.
    """
    if name not in models():
        raise ProfileError(f"unknown GPU model {name!r}; known: {', '.join(models())}")
    file = importlib.resources.files("hami_gpusim") / MODELS_FOLDER / f"{name}.json"
    data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return data


def load(profile: str | Path) -> dict[str, Any]:
    """Reads a profile: a built-in name (``h100x2``, ``t4``) or the path of a JSON or YAML file.

    Raises:
        ProfileError: Unknown name, unreadable file, or wrong content.
    """
    text = str(profile)
    if isinstance(profile, Path) or "/" in text or text.endswith((".json", ".yaml", ".yml")):
        return check(_read(Path(profile)), text)
    match = _NAME.fullmatch(text)
    if match is None or match[1] not in models():
        raise ProfileError(
            f"unknown profile {text!r}: use <model> or <model>x<count> with a model of {', '.join(models())}, "
            "or the path of a .json or .yaml file"
        )
    return check({"name": text, "devices": [{"model": match[1], "count": int(match[2] or 1)}]}, text)


def _read(path: Path) -> object:
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ProfileError(f"profile {path}: cannot be read: {error}") from error
    if path.suffix in {".yaml", ".yml"}:
        return _parse_yaml(path, content)
    try:
        parsed: object = json.loads(content)
    except json.JSONDecodeError as error:
        raise ProfileError(f"profile {path}: not JSON: {error}") from error
    return parsed


def _parse_yaml(path: Path, content: str) -> object:
    import yaml  # noqa: PLC0415 -- only YAML profiles pay for it

    try:
        parsed: object = yaml.safe_load(content)
    except yaml.YAMLError as error:
        raise ProfileError(f"profile {path}: not YAML: {error}") from error
    return parsed


def check(profile: object, source: str) -> dict[str, Any]:
    """Checks a profile's form and fills in defaults.

    Raises:
        ProfileError: Naming the key that is wrong.
    """
    if not isinstance(profile, dict) or not isinstance(profile.get("devices"), list) or not profile["devices"]:
        raise ProfileError(f"profile {source}: must be a mapping with a list `devices` of at least one entry")
    unknown = profile.keys() - PROFILE_KEYS
    if unknown:
        raise ProfileError(f"profile {source}: unknown key {min(unknown)!r}; known: {sorted(PROFILE_KEYS)}")
    _check_texts(profile, f"profile {source}")
    for position, entry in enumerate(profile["devices"]):
        _check_entry(entry, f"profile {source}: devices[{position}]")
    total = sum(int(e.get("count", 1)) for e in profile["devices"])
    if total > MAX_DEVICES:
        raise ProfileError(f"profile {source}: {total} devices, at most {MAX_DEVICES} can be simulated")
    defaults = {
        "name": source,
        "driver_version": DEFAULT_DRIVER,
        "nvml_version": DEFAULT_NVML,
        "cuda_version": DEFAULT_CUDA,
        "launch_us": DEFAULT_LAUNCH_US,
    }
    return defaults | profile


def _check_texts(profile: dict[str, Any], where: str) -> None:
    for key in ("name", "driver_version", "nvml_version", "seed"):
        if key in profile and (not isinstance(profile[key], str) or len(profile[key]) > MAX_TEXT[key]):
            raise ProfileError(f"{where}.{key}: must be a text of at most {MAX_TEXT[key]} characters")
    if not re.fullmatch(r"[0-9]{1,3}\.[0-9]", str(profile.get("cuda_version", DEFAULT_CUDA))):
        raise ProfileError(f"{where}.cuda_version: {profile['cuda_version']!r} is not <major>.<minor>")
    launch = profile.get("launch_us", DEFAULT_LAUNCH_US)
    if isinstance(launch, bool) or not isinstance(launch, int | float) or not 0 <= launch <= MAX_LAUNCH_US:
        raise ProfileError(f"{where}.launch_us: {launch!r} is not a number of microseconds from 0 to {MAX_LAUNCH_US}")


def _check_entry(entry: object, where: str) -> None:
    if not isinstance(entry, dict) or not isinstance(entry.get("model"), str):
        raise ProfileError(f"{where}: must be a mapping with a string `model`")
    data = model(entry["model"])
    unknown = {str(key) for key in entry.keys() - ENTRY_KEYS - (data.keys() - FIXED_KEYS)}
    if unknown:
        raise ProfileError(f"{where}: unknown key {min(unknown)!r}, or one that cannot be changed")
    count = entry.get("count", 1)
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MAX_DEVICES:
        raise ProfileError(f"{where}.count: {count!r} is not a whole number from 1 to {MAX_DEVICES}")
    for key, value in entry.items():
        if key == "compute_mode":
            if not isinstance(value, str) or value not in COMPUTE_MODES:
                raise ProfileError(f"{where}.compute_mode: {value!r} is not one of {', '.join(COMPUTE_MODES)}")
        elif key == "mig_mode":
            if not isinstance(value, bool) or (value and not data["mig_profiles"]):
                raise ProfileError(f"{where}.mig_mode: {value!r} is not false, or true for a model with MIG")
        elif key not in {"model", "count"}:
            _check_value(value, data.get(key, 0), key, f"{where}.{key}")


def _check_value(value: object, example: object, key: str, where: str) -> None:
    """A value of the kind that the model has there, within what the driver's structures hold."""
    if isinstance(example, bool):
        good, kind = isinstance(value, bool), "true or false"
    elif isinstance(example, int):
        top = 16 if key == "numa_nodes" else 1 << 24
        bottom = 1 if key in {"numa_nodes", "memory_mib", "sms"} else 0
        good = isinstance(value, int) and not isinstance(value, bool) and bottom <= value <= top
        kind = f"a whole number from {bottom} to {top}"
    elif key.startswith("pci_"):
        good, kind = (
            isinstance(value, str) and bool(re.fullmatch(r"0x[0-9a-fA-F]{1,8}", value)),
            "a number like 0x20b210de",
        )
    else:
        good, kind = isinstance(value, str) and len(value.encode()) <= MAX_TEXT.get(key, 31), "a short text"
    if not good:
        raise ProfileError(f"{where}: {value!r} is not {kind}")


def expand(profile: dict[str, Any], seed: str) -> list[dict[str, Any]]:
    """One mapping a card, with everything filled in.

    Args:
        profile: As ``check`` returns it.
        seed: Text that UUIDs and serial numbers are derived from.
    """
    cards: list[dict[str, Any]] = []
    for entry in profile["devices"]:
        data = model(entry["model"]) | {k: v for k, v in entry.items() if k not in {"count", "numa_nodes"}}
        count = int(entry.get("count", 1))
        cards.extend(dict(data) for _ in range(count))
    total = len(cards)
    numa_nodes = int(profile["devices"][0].get("numa_nodes", 2 if total > 1 else 1))
    taken: set[int] = set()
    for index, card in enumerate(cards):
        _place(card, index, total, numa_nodes, taken)
        card["uuid"] = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{seed}/{index}"))
        card["serial"] = str(1_650_000_000_000 + uuid.uuid5(uuid.NAMESPACE_OID, f"{seed}/serial/{index}").int % 10**9)
    for index, card in enumerate(cards):
        card["links"] = _links(cards, index)
    return cards


def _place(card: dict[str, Any], index: int, total: int, numa_nodes: int, taken: set[int]) -> None:
    buses = [int(b, 16) for b in card.pop("buses")]
    bus = buses[index % len(buses)]
    while bus in taken:
        bus = bus + 1 if bus < 0xFF else 1
    taken.add(bus)
    card |= {
        "index": index,
        "minor": index,
        "pci_bus": f"{bus:#04x}",
        "numa_node": index * numa_nodes // total,
        "pcie_switch": index // 2,
        "host_bridge": index // 2,
    }


def _links(cards: list[dict[str, Any]], index: int) -> list[dict[str, Any]]:
    """NVLinks: eight cards and more through switches, fewer directly, the links shared out evenly."""
    card = cards[index]
    count, others = int(card["nvlinks"]), [c for c in cards if c is not card and c["nvlinks"]]
    if not others or not count:
        return []
    if len(others) >= 7:
        return [{"to": "switch", "bus": f"{0xC0 + i % 6:#04x}"} for i in range(count)]
    each = count // len(others)
    return [{"to": "gpu", "index": other["index"], "bus": other["pci_bus"]} for other in others for _ in range(each)]
