"""The region of a container and the turn page of a device, as ctypes structures.

Made by gen/layouts.py from abi.h and compute_abi.h; do not edit. The headers say what each field is for.
The number behind a field is its offset in bytes.
"""

from __future__ import annotations

import ctypes as c
from typing import Final

PAGES_MAX: Final = 0x7FFFFFFFF
V1_MAGIC: Final = 19920718
V1_SIZE: Final = 2008952
BLOCK_OFFSET: Final = 2011136
BLOCK_MAGIC: Final = 0x55504756494D4148
BLOCK_VERSION: Final = 7
LOCK_BASE: Final = 0x10000000000
LOCK_RETRY: Final = 0x10000000400
LOCK_SUSPEND: Final = 0x10000000800
SHARE_CLAIMED: Final = 0x8000000000000000
COMPUTE_OFFSET: Final = 2912256
COMPUTE_MAGIC: Final = 0x31504D4F43494D48
COMPUTE_VERSION: Final = 1
BURSTY: Final = 65536
TURN_MAGIC: Final = 0x314E525554494D48
TURN_VERSION: Final = 1
REGION_SIZE: Final = 3969024

DEVICES: Final = 16
COUNTERS: Final = 32
PROCESSES: Final = 1024
SHARES: Final = 4096
PAGE_SHIFT: Final = 12
UUID_BYTES: Final = 96
BUILD_BYTES: Final = 48
REASON_NONE: Final = 0
REASON_OVER_LIMIT: Final = 1
REASON_NO_LIMITS: Final = 2
REASON_BAD_LIMITS: Final = 3
REASON_UNKNOWN_DEVICE: Final = 4
REASON_BAD_REGION: Final = 5
REASON_NO_SLOT: Final = 6
SLOT_CLAIMED: Final = 0
SLOT_COUNTED: Final = 1
SLOT_MOVING: Final = 2
SLOT_SUSPENDED: Final = 3
OWNER_PID_BITS: Final = 22
OWNER_START_BITS: Final = 40
OWNER_STATE_SHIFT: Final = 62
SHARE_SLOT_SHIFT: Final = 51
SHARE_DEVICE_SHIFT: Final = 47
TURN_SLOTS: Final = 63


class V1Memory(c.Structure):
    """`struct hami_v1_memory`, 64 bytes."""

    _fields_ = [
        ("context", c.c_uint64),  # 0
        ("module", c.c_uint64),  # 8
        ("data", c.c_uint64),  # 16
        ("offset", c.c_uint64),  # 24
        ("total", c.c_uint64),  # 32
        ("spare", c.c_uint64 * 3),  # 40
    ]


class V1Utilization(c.Structure):
    """`struct hami_v1_utilization`, 48 bytes."""

    _fields_ = [
        ("decoder", c.c_uint64),  # 0
        ("encoder", c.c_uint64),  # 8
        ("sm", c.c_uint64),  # 16
        ("spare", c.c_uint64 * 3),  # 24
    ]


class V1Process(c.Structure):
    """`struct hami_v1_process`, 1960 bytes."""

    _fields_ = [
        ("pid", c.c_int32),  # 0
        ("host_pid", c.c_int32),  # 4
        ("used", V1Memory * 16),  # 8
        ("monitor_used", c.c_uint64 * 16),  # 1032
        ("utilization", V1Utilization * 16),  # 1160
        ("status", c.c_int32),  # 1928
        ("pad", c.c_uint32),  # 1932
        ("seqlock", c.c_uint64),  # 1936
        ("spare", c.c_uint64 * 2),  # 1944
    ]


class V1(c.Structure):
    """`struct hami_v1`, 2008952 bytes."""

    _fields_ = [
        ("initialized", c.c_int32),  # 0
        ("major", c.c_uint32),  # 4
        ("minor", c.c_uint32),  # 8
        ("sm_init", c.c_int32),  # 12
        ("owner_pid", c.c_uint64),  # 16
        ("sem", c.c_uint8 * 32),  # 24
        ("device_num", c.c_uint64),  # 56
        ("uuids", c.c_char * 96 * 16),  # 64
        ("limit", c.c_uint64 * 16),  # 1600
        ("sm_limit", c.c_uint64 * 16),  # 1728
        ("processes", V1Process * 1024),  # 1856
        ("process_num", c.c_int32),  # 2008896
        ("utilization_switch", c.c_int32),  # 2008900
        ("recent_kernel", c.c_int32),  # 2008904
        ("priority", c.c_int32),  # 2008908
        ("last_kernel_time", c.c_uint64),  # 2008912
        ("sem_postinit", c.c_uint8 * 32),  # 2008920
    ]


class Device(c.Structure):
    """`struct hami_device`, 128 bytes."""

    _fields_ = [
        ("peak", c.c_uint64),  # 0
        ("denied", c.c_uint64),  # 8
        ("context_pages", c.c_uint64),  # 16
        ("limit_bytes", c.c_uint64),  # 24
        ("cores", c.c_uint32),  # 32
        ("pad", c.c_uint32),  # 36
        ("placed", c.c_uint64),  # 40
        ("placed_bytes", c.c_uint64),  # 48
        ("context_guessed", c.c_uint64),  # 56
        ("spare", c.c_uint64 * 8),  # 64
    ]


class Slot(c.Structure):
    """`struct hami_slot`, 32 bytes."""

    _fields_ = [
        ("pid_namespace", c.c_uint64),  # 0
        ("image", c.c_uint64),  # 8
        ("locked", c.c_uint64),  # 16
        ("launches", c.c_uint64),  # 24
    ]


class ShareEntry(c.Structure):
    """`struct hami_share_entry`, 144 bytes."""

    _fields_ = [
        ("word", c.c_uint64),  # 0
        ("identity", c.c_uint64),  # 8
        ("holders", c.c_uint64 * 16),  # 16
    ]


class Block(c.Structure):
    """`struct hami_block`, 901120 bytes."""

    _fields_ = [
        ("magic", c.c_uint64),  # 0
        ("version", c.c_uint32),  # 8
        ("size", c.c_uint32),  # 12
        ("header_size", c.c_uint32),  # 16
        ("device_size", c.c_uint32),  # 20
        ("slot_size", c.c_uint32),  # 24
        ("device_count", c.c_uint32),  # 28
        ("generation", c.c_uint64),  # 32
        ("heartbeat", c.c_uint64),  # 40
        ("reason", c.c_uint32),  # 48
        ("reason_device", c.c_uint32),  # 52
        ("reason_bytes", c.c_uint64),  # 56
        ("reason_time", c.c_uint64),  # 64
        ("build", c.c_char * 48),  # 72
        ("swept", c.c_uint64),  # 120
        ("shares_used", c.c_uint32),  # 128
        ("pad", c.c_uint32),  # 132
        ("launches", c.c_uint64),  # 136
        ("spare", c.c_uint8 * 3952),  # 144
        ("devices", Device * 32),  # 4096
        ("owners", c.c_uint64 * 1024),  # 8192
        ("held", c.c_uint64 * 1024 * 32),  # 16384
        ("slots", Slot * 1024),  # 278528
        ("shares", ShareEntry * 4096),  # 311296
    ]


class ComputeDevice(c.Structure):
    """`struct hami_compute_device`, 256 bytes."""

    _fields_ = [
        ("zero", c.c_int64),  # 0
        ("frontier", c.c_uint64),  # 8
        ("last_grant_at", c.c_uint64),  # 16
        ("completions", c.c_uint32),  # 24
        ("ticket", c.c_uint32),  # 28
        ("serving", c.c_uint32),  # 32
        ("waiting_for_event", c.c_uint32),  # 36
        ("longest_launch", c.c_uint64),  # 40
        ("identity", c.c_uint64),  # 48
        ("served_at", c.c_uint64),  # 56
        ("charged", c.c_uint64),  # 64
        ("waited", c.c_uint64),  # 72
        ("longest_wait", c.c_uint64),  # 80
        ("grants", c.c_uint64),  # 88
        ("timeouts", c.c_uint64),  # 96
        ("turns", c.c_uint64),  # 104
        ("turn_timeouts", c.c_uint64),  # 112
        ("estimated", c.c_uint64),  # 120
        ("last_wait_at", c.c_uint64),  # 128
        ("share", c.c_uint64),  # 136
        ("reserved", c.c_uint64),  # 144
        ("spanned_to", c.c_uint64),  # 152
        ("spanned_from", c.c_uint64),  # 160
        ("spare", c.c_uint64 * 3),  # 168
        ("turn", c.c_uint64),  # 192
        ("turns_off_until", c.c_uint64),  # 200
        ("turn_since", c.c_uint64),  # 208
        ("turn_forfeited", c.c_uint64),  # 216
        ("turn_forfeited_at", c.c_uint64),  # 224
        ("turn_uncontested_at", c.c_uint64),  # 232
        ("turn_wake_ns", c.c_uint64),  # 240
        ("turn_alone_at", c.c_uint64),  # 248
    ]


class ComputeProcess(c.Structure):
    """`struct hami_compute_process`, 64 bytes."""

    _fields_ = [
        ("reserved", c.c_int64),  # 0
        ("events", c.c_uint32),  # 8
        ("waiters", c.c_uint32),  # 12
        ("beat", c.c_uint64),  # 16
        ("oldest_at", c.c_uint64),  # 24
        ("waiting_for_event", c.c_uint32),  # 32
        ("waiting_for_turn", c.c_uint32),  # 36
        ("overlap", c.c_uint32),  # 40
        ("granted_at", c.c_uint32),  # 44
        ("granted_total", c.c_uint64),  # 48
        ("busy_since", c.c_uint64),  # 56
    ]


class Compute(c.Structure):
    """`struct hami_compute`, 1056768 bytes."""

    _fields_ = [
        ("magic", c.c_uint64),  # 0
        ("version", c.c_uint32),  # 8
        ("size", c.c_uint32),  # 12
        ("header_size", c.c_uint32),  # 16
        ("device_size", c.c_uint32),  # 20
        ("process_size", c.c_uint32),  # 24
        ("pad", c.c_uint32),  # 28
        ("agent_beat", c.c_uint64),  # 32
        ("boot", c.c_uint64),  # 40
        ("spare", c.c_uint8 * 4048),  # 48
        ("devices", ComputeDevice * 16),  # 4096
        ("processes", ComputeProcess * 16 * 1024),  # 8192
    ]


class TurnLife(c.Structure):
    """`struct hami_turn_life`, 16 bytes."""

    _fields_ = [
        ("beat", c.c_uint64),  # 0
        ("longest_launch", c.c_uint64),  # 8
    ]


class TurnWish(c.Structure):
    """`struct hami_turn_wish`, 16 bytes."""

    _fields_ = [
        ("arrears", c.c_int64),  # 0
        ("waiting", c.c_uint64),  # 8
    ]


class TurnSlot(c.Structure):
    """`struct hami_turn_slot`, 64 bytes."""

    _fields_ = [
        ("owner", c.c_uint64),  # 0
        ("futex", c.c_uint32),  # 8
        ("pad", c.c_uint32),  # 12
        ("life", TurnLife),  # 16
        ("wish", TurnWish),  # 32
        ("spare", c.c_uint64 * 2),  # 48
    ]


class TurnPage(c.Structure):
    """`struct hami_turn_page`, 4096 bytes."""

    _fields_ = [
        ("magic", c.c_uint64),  # 0
        ("version", c.c_uint32),  # 8
        ("size", c.c_uint32),  # 12
        ("turn", c.c_uint64),  # 16
        ("since", c.c_uint64),  # 24
        ("frontier", c.c_uint64),  # 32
        ("spare", c.c_uint64 * 3),  # 40
        ("slots", TurnSlot * 63),  # 64
    ]
