"""The first content of the files of simulated devices."""

from __future__ import annotations

import ctypes
import mmap
import uuid
from typing import Any

from hami_gpusim import _layout as layout
from hami_gpusim._profiles import COMPUTE_MODES, CPUS_PER_NUMA_NODE

MIB = 1 << 20
SLICE_NS = 2_000_000
LATENCY_NS = 4_000


def _version(text: str) -> int:
    """``13.5`` → 13050."""
    major, _, minor = str(text).partition(".")
    return int(major) * 1000 + int(minor or 0) * 10


def fill(profile: dict[str, Any], cards: list[dict[str, Any]]) -> bytes:
    """The beginning of the books of a machine that was just switched on; the rest is zeros."""
    books = layout.Books()
    books.magic, books.version, books.size = layout.MAGIC, layout.VERSION, ctypes.sizeof(layout.Books)
    books.device_count = books.device_limit = len(cards)
    books.cuda_version = _version(profile["cuda_version"])
    books.driver_version = profile["driver_version"].encode()
    books.nvml_version = profile["nvml_version"].encode()
    books.launch_ns = round(float(profile["launch_us"]) * 1000)
    books.seed = uuid.UUID(cards[0]["uuid"]).int % 2**64
    for card in cards:
        _fill_device(books.devices[card["index"]], card)
    return ctypes.string_at(ctypes.addressof(books), layout.Books.used.offset)


def fill_engine() -> bytes:
    """The beginning of the engine's file of a machine that was just switched on; the rest is zeros."""
    # Untouched pages of a mapping take no memory, unlike a structure of 133 MB.
    engines = layout.Engines.from_buffer(mmap.mmap(-1, ctypes.sizeof(layout.Engines)))
    engines.magic, engines.version = layout.ENGINE_MAGIC, layout.ENGINE_VERSION
    engines.size = ctypes.sizeof(layout.Engines)
    for device in engines.devices[: layout.MAX_CARDS]:
        device.slice_ns, device.latency_ns = SLICE_NS, LATENCY_NS
    end = layout.Engines.devices.offset + layout.MAX_CARDS * ctypes.sizeof(layout.Engine)
    return ctypes.string_at(ctypes.addressof(engines), end)


def _fill_device(device: layout.Device, card: dict[str, Any]) -> None:
    device.name = card["product"].encode()
    device.uuid[:] = uuid.UUID(card["uuid"]).bytes
    for name in ("serial", "board_part", "vbios"):
        setattr(device, name, card[name].encode())
    device.memory_total = card["memory_mib"] * MIB
    device.memory_reserved = card.get("memory_reserved_mib", 0) * MIB
    device.context_reserve = card["context_reserve_mib"] * MIB
    device.bar1_total = card["bar1_mib"] * MIB
    device.minor_number = card["minor"]
    device.pci_bus = int(card["pci_bus"], 16)
    for name in ("pci_device_id", "pci_subsystem_id"):
        setattr(device, name, int(card[name], 16))
    for name in ("numa_node", "brand", "architecture", "sm_clock_mhz", "memory_clock_mhz", "bus_width_bits"):
        setattr(device, name, card[name])
    for name in (
        "pcie_generation",
        "pcie_width",
        "temperature_idle_c",
        "mig_max_devices",
        "host_bridge",
        "pcie_switch",
    ):
        setattr(device, name, card[name])
    device.power_limit_mw = card["power_limit_w"] * 1000
    device.power_idle_mw = card["power_idle_w"] * 1000
    device.ecc = int(card["ecc"])
    device.mig_capable = int(bool(card["mig_profiles"]))
    device.mig_mode = device.mig_pending = int(card.get("mig_mode", False))
    device.compute_mode = COMPUTE_MODES[card.get("compute_mode", "default")]
    first = card["numa_node"] * CPUS_PER_NUMA_NODE
    for cpu in range(first, first + CPUS_PER_NUMA_NODE):
        device.cpu_mask[cpu // 64] |= 1 << (cpu % 64)
    for attribute, value in attributes(card).items():
        device.attributes[attribute] = value
    _fill_links(device, card)
    _fill_mig(device, card)


def _fill_links(device: layout.Device, card: dict[str, Any]) -> None:
    device.link_count = min(len(card["links"]), layout.MAX_LINKS)
    for link, description in zip(device.links, card["links"], strict=False):
        to_gpu = description["to"] == "gpu"
        link.remote_kind = 1 if to_gpu else 2
        link.version = card["nvlink_version"]
        link.bus = int(description["bus"], 16)
        link.pci_device_id = int(card["pci_device_id"], 16) if to_gpu else 0x22A310DE


def _fill_mig(device: layout.Device, card: dict[str, Any]) -> None:
    device.mig_profile_count = len(card["mig_profiles"])
    for row in device.mig_profiles:
        row.profile = -1
    for row, profile in zip(device.mig_profiles, card["mig_profiles"], strict=False):
        for name in (
            "profile",
            "id",
            "slices",
            "instances",
            "sms",
            "copy_engines",
            "decoders",
            "encoders",
            "jpegs",
            "ofas",
        ):
            setattr(row, name, profile[name])
        row.memory_mib = profile["memory_mib"]
        row.placement_size = profile["placement_size"]
        row.placement_count = len(profile["placement_starts"])
        row.placement_start[: row.placement_count] = profile["placement_starts"]
        row.name = profile["name"].encode()


def attributes(card: dict[str, Any]) -> dict[int, int]:
    """CUdevice_attribute → value: what every model shares, then the model's own."""
    major, minor = card["compute_capability"]
    hopper = major >= 9
    ampere = major >= 8
    return {
        1: 1024, 2: 1024, 3: 1024, 4: 64, 5: 2**31 - 1, 6: 65535, 7: 65535,  # block and grid sizes
        8: 49152, 9: 65536, 10: 32, 11: 2**31 - 1, 12: 65536,  # shared, constant, warp, pitch, registers
        13: card["sm_clock_mhz"] * 1000, 14: 512, 15: 1, 16: card["sms"], 19: 1, 30: 512, 31: 1, 32: int(card["ecc"]),
        21: 131072, 22: 131072, 23: 65536, 24: 16384, 25: 16384, 26: 16384, 27: 32768, 28: 32768, 29: 2048,  # textures
        33: int(card["pci_bus"], 16), 34: 0, 50: 0, 36: card["memory_clock_mhz"] * 1000, 37: card["bus_width_bits"],
        38: card["l2_bytes"], 39: card["threads_per_sm"], 40: 3, 41: 1, 42: 32768, 43: 2048, 45: 32768, 46: 32768,
        47: 8192, 48: 8192, 49: 32768, 51: 32, 52: 32768, 53: 32768, 54: 2046, 55: 32768, 56: 131072, 57: 65536,
        58: 16384, 59: 16384, 60: 16384, 61: 32768, 62: 2048, 63: 32768, 64: 32768, 65: 2048, 66: 32768, 67: 32768,
        68: 2046, 69: 268435456, 70: 131072, 71: 65000, 72: 2097120, 73: 32768, 74: 32768, 77: 32768,
        75: major, 76: minor, 78: 1, 79: 1, 80: 1, 81: card["shared_per_sm"], 82: 65536, 83: 1, 86: 0,
        87: 2 if major in {8, 9} and minor == 0 else 32, 89: 1, 90: 1, 91: 1, 93: 1, 94: 1, 92: 1, 95: 1, 96: 1,
        97: card["shared_optin"], 98: 1, 99: 1, 102: 1, 103: 1, 106: card["blocks_per_sm"], 107: int(ampere),
        108: card["l2_bytes"] * 3 // 4 if ampere else 0, 109: 134213632 if ampere else 0, 110: 1,
        111: 1024 if ampere else 0, 112: 1, 113: 1, 114: 1, 115: 1, 116: 1, 117: 1, 118: 100, 119: 1,
        120: int(hopper), 121: 1, 122: 1, 123: 1, 124: 1, 125: 1, 126: 4 if hopper else 1, 127: int(hopper),
        129: 1, 131: -1, 134: card["numa_node"], 139: int(card["pci_device_id"], 16) - 2**32
        if int(card["pci_device_id"], 16) >= 2**31 else int(card["pci_device_id"], 16),
        140: int(card["pci_subsystem_id"], 16), 141: 1,
    }  # fmt: skip
