"""The simulated devices' engine as ctypes structures, laid out as in ``include/engine.h`` (a test compares)."""

from __future__ import annotations

import ctypes as c

from hami_gpusim._layout import MAX_CARDS, MAX_DEVICES

MAGIC = 0x31474E454D495348
VERSION = 2
QUEUES = 256
LANES = 64
OPS = 4096
EVENTS = 8192
HISTORY = 2048
HISTORY_NS = 50_000_000

SLICE_NS = 2_000_000
LATENCY_NS = 4_000


class History(c.Structure):
    """Device time in one step of 50 ms."""

    _fields_ = [("bucket", c.c_uint32), ("busy", c.c_uint32)]


class Operation(c.Structure):
    """A kernel, copy or event in a stream."""

    _fields_ = [(n, c.c_uint64) for n in ("left", "earliest", "generation")] + [
        (n, c.c_uint32) for n in ("kind", "weight", "event", "next")
    ]


class Lane(c.Structure):
    """One stream."""

    _fields_ = [("head", c.c_uint32), ("tail", c.c_uint32)] + [
        (n, c.c_uint64) for n in ("work_in", "work_done", "put_in", "put_out")
    ]


class EventCell(c.Structure):
    """One event."""

    _fields_ = [(n, c.c_uint64) for n in ("generation", "done", "time", "work")] + [
        (n, c.c_uint32) for n in ("lane", "pad")
    ]


class Queue(c.Structure):
    """What one process queued on one device."""

    _fields_ = [
        *((n, c.c_uint32) for n in ("state", "device", "slot")),
        ("pid", c.c_int32),
        *((n, c.c_uint64) for n in ("start_time", "pid_namespace", "slice_ns", "busy_ns", "launches", "checked")),
        *((n, c.c_uint64) for n in ("lanes_used", "lanes_running", "next_timed")),
        *((n, c.c_uint32) for n in ("weight", "kernels", "free", "fresh", "waits", "pad")),
        ("history", History * HISTORY),
        ("lanes", Lane * LANES),
        ("events", EventCell * EVENTS),
        ("ops", Operation * OPS),
    ]


class Engine(c.Structure):
    """One device."""

    _fields_ = [
        ("lock", c.c_uint32),
        ("current", c.c_uint32),
        *((n, c.c_uint64) for n in ("time", "slice_end", "switching", "idle_ns")),
        ("queues", c.c_uint64 * (QUEUES // 64)),
        *((n, c.c_uint64) for n in ("slice_ns", "switch_ns", "latency_ns")),
        ("idle", History * HISTORY),
        ("pad_end", c.c_uint8 * 32),
    ]


class Engines(c.Structure):
    """The file, up to the queues."""

    _fields_ = [
        ("magic", c.c_uint64),
        ("version", c.c_uint32),
        ("pad", c.c_uint32),
        ("size", c.c_uint64),
        ("queue_lock", c.c_uint32),
        ("queue_limit", c.c_uint32),
        ("pad_devices", c.c_uint8 * 32),
        ("devices", Engine * MAX_DEVICES),
    ]


QUEUES_AT = -(-c.sizeof(Engines) // 4096) * 4096
QUEUE_SIZE = c.sizeof(Queue)
SIZE = -(-(QUEUES_AT + QUEUES * QUEUE_SIZE) // 4096) * 4096


def fill() -> bytes:
    """The beginning of the file, as a machine that was just switched on has it; the rest is zeros."""
    engines = Engines()
    engines.magic, engines.version, engines.size = MAGIC, VERSION, SIZE
    for device in engines.devices[:MAX_CARDS]:
        device.slice_ns, device.latency_ns = SLICE_NS, LATENCY_NS
    return c.string_at(c.addressof(engines), Engines.devices.offset + MAX_CARDS * c.sizeof(Engine))
