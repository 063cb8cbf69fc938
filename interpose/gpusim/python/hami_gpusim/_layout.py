"""The simulated driver's books as ctypes structures: the same layout as ``include/books.h`` (a test compares)."""

from __future__ import annotations

import ctypes as c

MAGIC = 0x3142534953494D48
VERSION = 9
MAX_CARDS = 16
MAX_SLOTS = 512
MAX_SHARED = 1024
MAX_LIMITS = 1024
CGROUP_LEVELS = 8
MAX_FAULTS = 64
MAX_LINKS = 18
MAX_ATTRIBUTES = 192
MAX_MIG_PROFILES = 16
MAX_MIG_INSTANCES = 8
MAX_COMPUTE_INSTANCES = 8
MAX_DEVICES = MAX_CARDS * (1 + MAX_MIG_INSTANCES)
REPAIR_PENDING, REPAIR_FAILED = 1, 2
EVENT_RING = 64
LIVE = 1
THERE = 1


class Link(c.Structure):
    """One NVLink of a device."""

    _fields_ = [(n, c.c_uint32) for n in ("remote_kind", "version", "domain", "bus", "device", "pci_device_id")]


class MigProfile(c.Structure):
    """One GPU instance profile of a model."""

    _fields_ = [
        ("profile", c.c_int32),
        *((n, c.c_uint32) for n in ("id", "slices", "instances", "sms", "copy_engines", "decoders", "encoders")),
        ("jpegs", c.c_uint32),
        ("ofas", c.c_uint32),
        ("memory_mib", c.c_uint64),
        ("placement_size", c.c_uint32),
        ("placement_count", c.c_uint32),
        ("placement_start", c.c_uint8 * 16),
        ("name", c.c_char * 24),
    ]


class MigInstance(c.Structure):
    """One GPU instance made at run time."""

    _fields_ = [
        *((n, c.c_uint32) for n in ("state", "profile_row", "start", "size")),
        ("compute_instances", c.c_uint64),
        ("uuid", c.c_uint8 * 16),
    ]


class Event(c.Structure):
    """One entry of a device's event ring."""

    _fields_ = [
        *((n, c.c_uint64) for n in ("sequence", "type", "data")),
        ("gpu_instance", c.c_uint32),
        ("compute_instance", c.c_uint32),
    ]


class Device(c.Structure):
    """One card, or a GPU instance of one: what it is, then what changes."""

    _fields_ = [
        ("name", c.c_char * 96),
        ("uuid", c.c_uint8 * 16),
        ("serial", c.c_char * 32),
        ("board_part", c.c_char * 32),
        ("vbios", c.c_char * 32),
        *((n, c.c_uint64) for n in ("memory_total", "memory_reserved", "context_reserve", "bar1_total")),
        *((n, c.c_uint32) for n in ("minor_number", "numa_node", "pci_domain", "pci_bus", "pci_device")),
        *((n, c.c_uint32) for n in ("pci_device_id", "pci_subsystem_id", "brand", "architecture")),
        *((n, c.c_uint32) for n in ("sm_clock_mhz", "memory_clock_mhz", "bus_width_bits", "pcie_generation")),
        *((n, c.c_uint32) for n in ("pcie_width", "power_limit_mw", "power_idle_mw", "temperature_idle_c")),
        *((n, c.c_uint32) for n in ("ecc", "mig_capable", "mig_max_devices", "mig_profile_count", "link_count")),
        ("host_bridge", c.c_uint32),
        ("pcie_switch", c.c_uint32),
        ("cpu_mask", c.c_uint64 * 16),
        ("attributes", c.c_int32 * MAX_ATTRIBUTES),
        ("links", Link * MAX_LINKS),
        ("mig_profiles", MigProfile * MAX_MIG_PROFILES),
        *((n, c.c_uint32) for n in ("lost", "mig_mode", "mig_pending", "persistence", "compute_mode")),
        ("ecc_uncorrected", c.c_uint32),
        ("mig_slices", c.c_uint32),
        ("accounting", c.c_uint32),
        ("event_count", c.c_uint64),
        ("events", Event * EVENT_RING),
        ("mig_instances", MigInstance * MAX_MIG_INSTANCES),
        ("link_kb", c.c_uint32 * 2),
        ("repair", c.c_uint32),
        ("pad_end", c.c_uint8 * 12),
    ]


class Fault(c.Structure):
    """One injected fault."""

    _fields_ = [
        ("active", c.c_uint32),
        ("device", c.c_int32),
        ("error", c.c_int32),
        ("skip", c.c_int32),
        ("left", c.c_int32),
        ("reserved", c.c_uint32),
        ("symbol_hash", c.c_uint64),
        ("hits", c.c_uint64),
        ("symbol", c.c_char * 88),
    ]


class EnginePage(c.Structure):
    """What one process queued on one device."""

    _fields_ = [
        (n, c.c_uint64)
        for n in ("busy_until", "busy_total", "launches", "window_start", "window_busy", "window_previous")
    ] + [("compute_instance", c.c_uint64), ("reserved", c.c_uint64)]


class Slot(c.Structure):
    """One process that uses a device."""

    _fields_ = [
        ("state", c.c_uint32),
        ("pid", c.c_int32),
        ("start_time", c.c_uint64),
        ("pid_namespace", c.c_uint32),
        ("host_pid", c.c_int32),
        ("name", c.c_char * 40),
    ]


class Shared(c.Structure):
    """An allocation that several processes hold."""

    _fields_ = [
        ("state", c.c_uint32),
        ("generation", c.c_uint32),
        ("bytes", c.c_uint64),
        ("device", c.c_uint32),
        ("pad_reserved", c.c_uint32 * 11),
        ("holders", c.c_uint64 * (MAX_SLOTS // 64)),
    ]


class Suspension(c.Structure):
    """A process that another may suspend."""

    _fields_ = [
        *((n, c.c_uint32) for n in ("state", "lock", "inside", "managed", "spoiled")),
        ("pad_reserved", c.c_uint32 * 11),
        ("away", c.c_uint64 * MAX_DEVICES),
    ]


class Limit(c.Structure):
    """The driver's own limit of a cgroup's memory on a card."""

    _fields_ = [(n, c.c_uint64) for n in ("cgroup", "soft", "hard", "device", "uncounted", "nests")]


class Books(c.Structure):
    """The whole file."""

    _fields_ = [
        ("magic", c.c_uint64),
        ("version", c.c_uint32),
        ("size", c.c_uint32),
        ("device_count", c.c_uint32),
        ("cuda_version", c.c_int32),
        ("driver_version", c.c_char * 32),
        ("nvml_version", c.c_char * 32),
        ("launch_ns", c.c_uint64),
        ("seed", c.c_uint64),
        ("pad_watch", c.c_uint8 * 24),
        ("watch", c.c_uint32),
        ("pad_limit", c.c_uint8 * 60),
        ("slot_limit", c.c_uint32),
        ("device_limit", c.c_uint32),
        ("pad_faults", c.c_uint8 * 56),
        ("faults", Fault * MAX_FAULTS),
        ("devices", Device * MAX_DEVICES),
        ("slots", Slot * MAX_SLOTS),
        ("pad_used", c.c_uint8 * 3840),
        ("used", c.c_uint64 * MAX_SLOTS * MAX_DEVICES),
        ("engines", EnginePage * MAX_SLOTS * MAX_DEVICES),
        ("shared", Shared * MAX_SHARED),
        ("shared_limit", c.c_uint32),
        ("pad_suspensions", c.c_uint8 * 4092),
        ("suspensions", Suspension * MAX_SLOTS),
        ("cgroups", c.c_uint64 * CGROUP_LEVELS * MAX_SLOTS),
        ("limits", Limit * MAX_LIMITS),
        ("limit_count", c.c_uint32),
        ("pad_end", c.c_uint8 * 4092),
    ]


def offsets(structure: type[c.Structure]) -> dict[str, int]:
    """Offset of each field, padding left out."""
    names = [str(field[0]) for field in structure._fields_]
    return {name: int(getattr(structure, name).offset) for name in names if not name.startswith("pad_")}
