"""Where things lie in a region: the layout of `interpose/include/hami/abi.h` and `compute_abi.h`."""

from __future__ import annotations

import struct
from typing import Final

PAGE: Final = 4096
DEVICES: Final = 16
COUNTERS: Final = 2 * DEVICES  # of memory: on devices, then in the host on their behalf
PROCESSES: Final = 1024
CELLS: Final = 5
CELL_AWAY: Final = 4  # the last: of a suspended process, what is not on the device

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
BLOCK_VERSION: Final = 6
HEADER_SIZE: Final = 4096
DEVICE_SIZE: Final = 256
SLOT_SIZE: Final = 64 + COUNTERS * CELLS * 32
SHARES: Final = 4096
SHARE: Final = struct.Struct(f"<QQ{PROCESSES // 8}s")  # word, identity, a bit for each slot that holds it
BLOCK_SIZE: Final = HEADER_SIZE + COUNTERS * DEVICE_SIZE + PROCESSES * SLOT_SIZE + SHARES * SHARE.size
DEVICES_AT: Final = HEADER_SIZE
SLOTS_AT: Final = DEVICES_AT + COUNTERS * DEVICE_SIZE
SHARES_AT: Final = SLOTS_AT + PROCESSES * SLOT_SIZE
SHARES_USED_AT: Final = 128
LAUNCHES_AT: Final = 136  # by processes that have ended
SHARE_STATE_SHIFT, SHARE_SLOT_SHIFT, SHARE_DEVICE_SHIFT = 61, 51, 47
SHARE_OWNED, SHARE_ORPHANED, SHARE_LEAVING = 2, 3, 4
HEADER: Final = struct.Struct("<QIIIIII")  # magic, version, sizes of block, header, device, slot, count of devices
STATUS_AT: Final = HEADER.size
STATUS: Final = struct.Struct("<QQIIQQ48s")  # generation, heartbeat, reason, its device, bytes, time, build
DEVICE: Final = struct.Struct(
    "<QQ48xQQQQI4xQQ"
)  # counter, orphaned pages, peak, denied, context pages, limit, cores, put into the host: how often, bytes
LIMIT: Final = struct.Struct("<QI")
LIMIT_AT: Final = 88  # in a device
SEEN: Final = struct.Struct("<12I")  # what the counter named before, of each cell the last
SEEN_AT: Final = 16  # in a device
SLOT: Final = struct.Struct(
    f"<QQQQQQQQ{SLOT_SIZE - 64}x"
)  # owner, sweeper, launches, image, locked, settled, suspension, keeper
SUSPENSION_AWAY: Final = 2
CELL: Final = struct.Struct("<Qqqq")  # state, amount, totals
CELLS_SIZE: Final = CELLS * CELL.size  # of one counter
CELLS_AT: Final = 64  # in a slot
COUNTER_TAG_BITS: Final = 29
TAG_MASK: Final = (1 << COUNTER_TAG_BITS) - 1
COUNTER_NOBODY: Final = 7 << 16  # names no cell
SEEN_MARK: Final = 1 << 31  # of what is noted
PAGES_MAX: Final = (1 << 35) - 1
CELL_PENDING, CELL_APPLIED, CELL_PHASE, CELL_SIDE = 1, 2, 3, 4
TAG_SLOT_SHIFT, TAG_CELL_SHIFT, STATE_SEQUENCE_SHIFT = 19, 16, 16
PID_BITS: Final = 22
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
