"""The two files of simulated devices, as ctypes structures.

Made by gen/layouts.py from books.h and engine.h; do not edit. The headers say what each field is for.
The number behind a field is its offset in bytes.
"""

from __future__ import annotations

import ctypes as c
from typing import Final

MAGIC: Final = 0x3142534953494D48
VERSION: Final = 9
MAX_CARDS: Final = 16
MAX_SLOTS: Final = 512
MAX_FAULTS: Final = 64
MAX_LINKS: Final = 18
MAX_ATTRIBUTES: Final = 192
MAX_MIG_PROFILES: Final = 16
MAX_MIG_INSTANCES: Final = 8
MAX_COMPUTE_INSTANCES: Final = 8
MAX_DEVICES: Final = 144
EVENT_RING: Final = 64
MAX_SHARED: Final = 1024
MAX_LIMITS: Final = 1024
CGROUP_LEVELS: Final = 8
ENGINE_MAGIC: Final = 0x31474E454D495348
ENGINE_VERSION: Final = 2
QUEUES: Final = 256
LANES: Final = 64
OPS: Final = 4096
EVENTS: Final = 8192
HISTORY: Final = 2048
HISTORY_NS: Final = 50000000
QUEUE_DEPTH: Final = 1024
WHOLE: Final = 1000

INSTANCE_FREE: Final = 0
INSTANCE_THERE: Final = 1
INSTANCE_BEING_MADE: Final = 2
REPAIR_PENDING: Final = 1
REPAIR_FAILED: Final = 2
SLOT_FREE: Final = 0
SLOT_LIVE: Final = 1
RUNNING: Final = 0
LOCKED: Final = 1
CHECKPOINTED: Final = 2
FAILED: Final = 3
LOCKING: Final = 100
OPEN_OK: Final = 0
OPEN_NO_STATE: Final = 1
OPEN_BAD: Final = 2
OP_KERNEL: Final = 1
OP_COPY: Final = 2
OP_EVENT: Final = 3
OP_WAIT: Final = 4


class Fault(c.Structure):
    """`struct sim_fault`, 128 bytes."""

    _fields_ = [
        ("active", c.c_uint32),  # 0
        ("device", c.c_int32),  # 4
        ("error", c.c_int32),  # 8
        ("skip", c.c_int32),  # 12
        ("left", c.c_int32),  # 16
        ("reserved", c.c_uint32),  # 20
        ("symbol_hash", c.c_uint64),  # 24
        ("hits", c.c_uint64),  # 32
        ("symbol", c.c_char * 88),  # 40
    ]


class Link(c.Structure):
    """`struct sim_link`, 24 bytes."""

    _fields_ = [
        ("remote_kind", c.c_uint32),  # 0
        ("version", c.c_uint32),  # 4
        ("domain", c.c_uint32),  # 8
        ("bus", c.c_uint32),  # 12
        ("device", c.c_uint32),  # 16
        ("pci_device_id", c.c_uint32),  # 20
    ]


class MigProfile(c.Structure):
    """`struct sim_mig_profile`, 96 bytes."""

    _fields_ = [
        ("profile", c.c_int32),  # 0
        ("id", c.c_uint32),  # 4
        ("slices", c.c_uint32),  # 8
        ("instances", c.c_uint32),  # 12
        ("sms", c.c_uint32),  # 16
        ("copy_engines", c.c_uint32),  # 20
        ("decoders", c.c_uint32),  # 24
        ("encoders", c.c_uint32),  # 28
        ("jpegs", c.c_uint32),  # 32
        ("ofas", c.c_uint32),  # 36
        ("memory_mib", c.c_uint64),  # 40
        ("placement_size", c.c_uint32),  # 48
        ("placement_count", c.c_uint32),  # 52
        ("placement_start", c.c_uint8 * 16),  # 56
        ("name", c.c_char * 24),  # 72
    ]


class Event(c.Structure):
    """`struct sim_event`, 32 bytes."""

    _fields_ = [
        ("sequence", c.c_uint64),  # 0
        ("type", c.c_uint64),  # 8
        ("data", c.c_uint64),  # 16
        ("gpu_instance", c.c_uint32),  # 24
        ("compute_instance", c.c_uint32),  # 28
    ]


class MigInstance(c.Structure):
    """`struct sim_mig_instance`, 40 bytes."""

    _fields_ = [
        ("state", c.c_uint32),  # 0
        ("profile_row", c.c_uint32),  # 4
        ("start", c.c_uint32),  # 8
        ("size", c.c_uint32),  # 12
        ("compute_instances", c.c_uint64),  # 16
        ("uuid", c.c_uint8 * 16),  # 24
    ]


class Device(c.Structure):
    """`struct sim_device`, 5632 bytes."""

    _fields_ = [
        ("name", c.c_char * 96),  # 0
        ("uuid", c.c_uint8 * 16),  # 96
        ("serial", c.c_char * 32),  # 112
        ("board_part", c.c_char * 32),  # 144
        ("vbios", c.c_char * 32),  # 176
        ("memory_total", c.c_uint64),  # 208
        ("memory_reserved", c.c_uint64),  # 216
        ("context_reserve", c.c_uint64),  # 224
        ("bar1_total", c.c_uint64),  # 232
        ("minor_number", c.c_uint32),  # 240
        ("numa_node", c.c_uint32),  # 244
        ("pci_domain", c.c_uint32),  # 248
        ("pci_bus", c.c_uint32),  # 252
        ("pci_device", c.c_uint32),  # 256
        ("pci_device_id", c.c_uint32),  # 260
        ("pci_subsystem_id", c.c_uint32),  # 264
        ("brand", c.c_uint32),  # 268
        ("architecture", c.c_uint32),  # 272
        ("sm_clock_mhz", c.c_uint32),  # 276
        ("memory_clock_mhz", c.c_uint32),  # 280
        ("bus_width_bits", c.c_uint32),  # 284
        ("pcie_generation", c.c_uint32),  # 288
        ("pcie_width", c.c_uint32),  # 292
        ("power_limit_mw", c.c_uint32),  # 296
        ("power_idle_mw", c.c_uint32),  # 300
        ("temperature_idle_c", c.c_uint32),  # 304
        ("ecc", c.c_uint32),  # 308
        ("mig_capable", c.c_uint32),  # 312
        ("mig_max_devices", c.c_uint32),  # 316
        ("mig_profile_count", c.c_uint32),  # 320
        ("link_count", c.c_uint32),  # 324
        ("host_bridge", c.c_uint32),  # 328
        ("pcie_switch", c.c_uint32),  # 332
        ("cpu_mask", c.c_uint64 * 16),  # 336
        ("attributes", c.c_int32 * 192),  # 464
        ("links", Link * 18),  # 1232
        ("mig_profiles", MigProfile * 16),  # 1664
        ("lost", c.c_uint32),  # 3200
        ("mig_mode", c.c_uint32),  # 3204
        ("mig_pending", c.c_uint32),  # 3208
        ("persistence", c.c_uint32),  # 3212
        ("compute_mode", c.c_uint32),  # 3216
        ("ecc_uncorrected", c.c_uint32),  # 3220
        ("mig_slices", c.c_uint32),  # 3224
        ("accounting", c.c_uint32),  # 3228
        ("event_count", c.c_uint64),  # 3232
        ("events", Event * 64),  # 3240
        ("mig_instances", MigInstance * 8),  # 5288
        ("link_kb", c.c_uint32 * 2),  # 5608
        ("repair", c.c_uint32),  # 5616
        ("_5620", c.c_uint8 * 12),
    ]


class Slot(c.Structure):
    """`struct sim_slot`, 64 bytes."""

    _fields_ = [
        ("state", c.c_uint32),  # 0
        ("pid", c.c_int32),  # 4
        ("start_time", c.c_uint64),  # 8
        ("pid_namespace", c.c_uint32),  # 16
        ("host_pid", c.c_int32),  # 20
        ("name", c.c_char * 40),  # 24
    ]


class EnginePage(c.Structure):
    """`struct sim_engine_page`, 64 bytes."""

    _fields_ = [
        ("busy_until", c.c_uint64),  # 0
        ("busy_total", c.c_uint64),  # 8
        ("launches", c.c_uint64),  # 16
        ("window_start", c.c_uint64),  # 24
        ("window_busy", c.c_uint64),  # 32
        ("window_previous", c.c_uint64),  # 40
        ("compute_instance", c.c_uint64),  # 48
        ("reserved", c.c_uint64),  # 56
    ]


class Shared(c.Structure):
    """`struct sim_shared`, 128 bytes."""

    _fields_ = [
        ("state", c.c_uint32),  # 0
        ("generation", c.c_uint32),  # 4
        ("bytes", c.c_uint64),  # 8
        ("device", c.c_uint32),  # 16
        ("reserved", c.c_uint32 * 11),  # 20
        ("holders", c.c_uint64 * 8),  # 64
    ]


class Suspension(c.Structure):
    """`struct sim_suspension`, 1216 bytes."""

    _fields_ = [
        ("state", c.c_uint32),  # 0
        ("lock", c.c_uint32),  # 4
        ("inside", c.c_uint32),  # 8
        ("managed", c.c_uint32),  # 12
        ("spoiled", c.c_uint32),  # 16
        ("reserved", c.c_uint32 * 11),  # 20
        ("away", c.c_uint64 * 144),  # 64
    ]


class Limit(c.Structure):
    """`struct sim_limit`, 48 bytes."""

    _fields_ = [
        ("cgroup", c.c_uint64),  # 0
        ("soft", c.c_uint64),  # 8
        ("hard", c.c_uint64),  # 16
        ("device", c.c_uint64),  # 24
        ("uncounted", c.c_uint64),  # 32
        ("nests", c.c_uint64),  # 40
    ]


class Books(c.Structure):
    """`struct sim_books`, 7008256 bytes."""

    _fields_ = [
        ("magic", c.c_uint64),  # 0
        ("version", c.c_uint32),  # 8
        ("size", c.c_uint32),  # 12
        ("device_count", c.c_uint32),  # 16
        ("cuda_version", c.c_int32),  # 20
        ("driver_version", c.c_char * 32),  # 24
        ("nvml_version", c.c_char * 32),  # 56
        ("launch_ns", c.c_uint64),  # 88
        ("seed", c.c_uint64),  # 96
        ("_104", c.c_uint8 * 24),
        ("watch", c.c_uint32),  # 128
        ("_132", c.c_uint8 * 60),
        ("slot_limit", c.c_uint32),  # 192
        ("device_limit", c.c_uint32),  # 196
        ("_200", c.c_uint8 * 56),
        ("faults", Fault * 64),  # 256
        ("devices", Device * 144),  # 8448
        ("slots", Slot * 512),  # 819456
        ("_852224", c.c_uint8 * 3840),
        ("used", c.c_uint64 * 512 * 144),  # 856064
        ("engines", EnginePage * 512 * 144),  # 1445888
        ("shared", Shared * 1024),  # 6164480
        ("shared_limit", c.c_uint32),  # 6295552
        ("_6295556", c.c_uint8 * 4092),
        ("suspensions", Suspension * 512),  # 6299648
        ("cgroups", c.c_uint64 * 8 * 512),  # 6922240
        ("limits", Limit * 1024),  # 6955008
        ("limit_count", c.c_uint32),  # 7004160
        ("_7004164", c.c_uint8 * 4092),
    ]


class History(c.Structure):
    """`struct sim_history`, 8 bytes."""

    _fields_ = [
        ("bucket", c.c_uint32),  # 0
        ("busy", c.c_uint32),  # 4
    ]


class Engine(c.Structure):
    """`struct sim_engine`, 16512 bytes."""

    _fields_ = [
        ("lock", c.c_uint32),  # 0
        ("current", c.c_uint32),  # 4
        ("time", c.c_uint64),  # 8
        ("slice_end", c.c_uint64),  # 16
        ("switching", c.c_uint64),  # 24
        ("idle_ns", c.c_uint64),  # 32
        ("queues", c.c_uint64 * 4),  # 40
        ("slice_ns", c.c_uint64),  # 72
        ("switch_ns", c.c_uint64),  # 80
        ("latency_ns", c.c_uint64),  # 88
        ("idle", History * 2048),  # 96
        ("_16480", c.c_uint8 * 32),
    ]


class Lane(c.Structure):
    """`struct sim_lane`, 40 bytes."""

    _fields_ = [
        ("head", c.c_uint32),  # 0
        ("tail", c.c_uint32),  # 4
        ("work_in", c.c_uint64),  # 8
        ("work_done", c.c_uint64),  # 16
        ("put_in", c.c_uint64),  # 24
        ("put_out", c.c_uint64),  # 32
    ]


class EventCell(c.Structure):
    """`struct sim_event_cell`, 40 bytes."""

    _fields_ = [
        ("generation", c.c_uint64),  # 0
        ("done", c.c_uint64),  # 8
        ("time", c.c_uint64),  # 16
        ("work", c.c_uint64),  # 24
        ("lane", c.c_uint32),  # 32
        ("pad", c.c_uint32),  # 36
    ]


class Op(c.Structure):
    """`struct sim_op`, 40 bytes."""

    _fields_ = [
        ("left", c.c_uint64),  # 0
        ("earliest", c.c_uint64),  # 8
        ("generation", c.c_uint64),  # 16
        ("kind", c.c_uint32),  # 24
        ("weight", c.c_uint32),  # 28
        ("event", c.c_uint32),  # 32
        ("next", c.c_uint32),  # 36
    ]


class Queue(c.Structure):
    """`struct sim_queue`, 510576 bytes."""

    _fields_ = [
        ("state", c.c_uint32),  # 0
        ("device", c.c_uint32),  # 4
        ("slot", c.c_uint32),  # 8
        ("pid", c.c_int32),  # 12
        ("start_time", c.c_uint64),  # 16
        ("pid_namespace", c.c_uint64),  # 24
        ("slice_ns", c.c_uint64),  # 32
        ("busy_ns", c.c_uint64),  # 40
        ("launches", c.c_uint64),  # 48
        ("checked", c.c_uint64),  # 56
        ("lanes_used", c.c_uint64),  # 64
        ("lanes_running", c.c_uint64),  # 72
        ("next_timed", c.c_uint64),  # 80
        ("weight", c.c_uint32),  # 88
        ("kernels", c.c_uint32),  # 92
        ("free", c.c_uint32),  # 96
        ("fresh", c.c_uint32),  # 100
        ("waits", c.c_uint32),  # 104
        ("pad", c.c_uint32),  # 108
        ("history", History * 2048),  # 112
        ("lanes", Lane * 64),  # 16496
        ("events", EventCell * 8192),  # 19056
        ("ops", Op * 4096),  # 346736
    ]


class Engines(c.Structure):
    """`struct sim_engines`, 133087232 bytes."""

    _fields_ = [
        ("magic", c.c_uint64),  # 0
        ("version", c.c_uint32),  # 8
        ("pad", c.c_uint32),  # 12
        ("size", c.c_uint64),  # 16
        ("queue_lock", c.c_uint32),  # 24
        ("queue_limit", c.c_uint32),  # 28
        ("_32", c.c_uint8 * 32),
        ("devices", Engine * 144),  # 64
        ("_2377792", c.c_uint8 * 1984),
        ("queues", Queue * 256),  # 2379776
    ]
