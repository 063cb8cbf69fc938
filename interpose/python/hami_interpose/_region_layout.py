"""Where things lie in a region: the layout of `interpose/src/abi.h` and `compute_abi.h`."""

from __future__ import annotations

import struct
from typing import Final

PAGE: Final = 4096
DEVICES: Final = 16
COUNTERS: Final = 2 * DEVICES  # of memory: on devices, then in the host on their behalf
PROCESSES: Final = 1024

# HAMi-core's layout, from offset 0
V1_MAGIC: Final = 19920718
V1_SIZE: Final = 2008952
V1_HEAD: Final = struct.Struct("<iII")  # magic, version
V1_UUIDS_AT: Final = 64
V1_UUID_SIZE: Final = 96
V1_SLOTS_AT: Final = 1856
V1_SLOT_SIZE: Final = 1960
V1_COLUMNS: Final = struct.Struct("<qqq")  # of contexts, modules, buffers; what others took is given back below zero
V1_COLUMNS_AT: Final = 8  # in a slot
V1_COLUMNS_STEP: Final = 64  # from device to device
V1_PROCESS_NUM_AT: Final = 2008896

# our block; offsets in it
BLOCK_OFFSET: Final = 2011136
BLOCK_MAGIC: Final = 0x55504756494D4148  # "HAMIVGPU"
BLOCK_VERSION: Final = 7
HEADER_SIZE: Final = 4096
DEVICE_SIZE: Final = 128
SLOT: Final = struct.Struct("<QQQQ")  # inode of the pid namespace, image, locked, launches
SHARES: Final = 4096
SHARE: Final = struct.Struct(f"<QQ{PROCESSES // 8}s")  # word, identity, a bit for each slot that holds it
DEVICES_AT: Final = HEADER_SIZE
OWNERS_AT: Final = DEVICES_AT + COUNTERS * DEVICE_SIZE
HELD_AT: Final = OWNERS_AT + PROCESSES * 8
SLOTS_AT: Final = HELD_AT + COUNTERS * PROCESSES * 8
SHARES_AT: Final = SLOTS_AT + PROCESSES * SLOT.size
BLOCK_SIZE: Final = SHARES_AT + SHARES * SHARE.size
SHARES_USED_AT: Final = 128
LAUNCHES_AT: Final = 136  # by processes that have ended
SHARE_CLAIMED: Final = 1 << 63
SHARE_SLOT_SHIFT, SHARE_DEVICE_SHIFT = 51, 47
HEADER: Final = struct.Struct("<QIIIIII")  # magic, version, sizes of block, header, device, slot, count of devices
STATUS_AT: Final = HEADER.size
STATUS: Final = struct.Struct("<QQIIQQ48s")  # generation, heartbeat, reason, its device, bytes, time, build
DEVICE: Final = struct.Struct(
    "<QQQQI4xQQ"
)  # peak, denied, context pages, limit, cores, put into the host: often, bytes
LIMIT: Final = struct.Struct("<QI")
LIMIT_AT: Final = 24  # in a device
PAGES_MAX: Final = (1 << 35) - 1
OWNER_PID_BITS, OWNER_START_BITS, OWNER_STATE_SHIFT = 22, 40, 62
SLOT_CLAIMED, SLOT_COUNTED, SLOT_MOVING, SLOT_SUSPENDED = 0, 1, 2, 3
LOCK_BASE: Final = 1 << 40
FLOCK: Final = struct.Struct("hhqqi4x")  # struct flock of x86-64 and aarch64: type, whence, start, length, pid

# the compute block; offsets in it
COMPUTE_OFFSET: Final = -(-(BLOCK_OFFSET + BLOCK_SIZE) // PAGE) * PAGE
COMPUTE_MAGIC: Final = 0x31504D4F43494D48  # "HMICOMP1"
COMPUTE_VERSION: Final = 1
COMPUTE_HEADER: Final = struct.Struct("<QIIIII")  # magic, version, sizes of block, header, device, process
COMPUTE_BEAT_AT: Final = 32
COMPUTE_DEVICE_SIZE: Final = 256
COMPUTE_PROCESS_SIZE: Final = 64
COMPUTE_SLOTS_AT: Final = HEADER_SIZE + DEVICES * COMPUTE_DEVICE_SIZE
COMPUTE_SIZE: Final = COMPUTE_SLOTS_AT + PROCESSES * DEVICES * COMPUTE_PROCESS_SIZE
FIGURES: Final = struct.Struct("<8Q")
FIGURES_AT: Final = 64  # in a device

REGION_SIZE: Final = COMPUTE_OFFSET + COMPUTE_SIZE
