"""Observes one card through NVML from outside the containers, without any limit.

``python observer.py UUID`` reads commands, one a line, and answers each with one line of JSON:

=====================  ================================================================================
``card``               what NVML reports about the card, and which reports it lacks
``watch PID ...``      starts to record the peak use of these processes; answers the device's use
``peak``               the highest sum of the processes' use, the highest use of the device, in bytes, and the number
                       of samples; ``theirs`` is null if NVML shows none of the processes
``since``              starts to record the utilization of processes
``busy PID ...``       the mean of each process's samples since then, in percent; null if there are none
=====================  ================================================================================
"""

from __future__ import annotations

import ctypes as c
import itertools
import json
import sys
import threading
import time

PERIOD_S = 0.002
UNKNOWN = (1 << 64) - 1  # NVML_VALUE_NOT_AVAILABLE
MOST = 1024


class Memory(c.Structure):
    """nvmlMemory_t."""

    _fields_ = (("total", c.c_ulonglong), ("free", c.c_ulonglong), ("used", c.c_ulonglong))


class Process(c.Structure):
    """nvmlProcessInfo_t, as functions ``_v2`` and ``_v3`` have it."""

    _fields_ = (
        ("pid", c.c_uint),
        ("used", c.c_ulonglong),
        ("gpu_instance", c.c_uint),
        ("compute_instance", c.c_uint),
    )


class Sample(c.Structure):
    """nvmlProcessUtilizationSample_t."""

    _fields_ = (
        ("pid", c.c_uint),
        ("time", c.c_ulonglong),
        ("sm", c.c_uint),
        ("memory", c.c_uint),
        ("encoder", c.c_uint),
        ("decoder", c.c_uint),
    )


class Card:
    """One card, by its UUID or its index."""

    def __init__(self, name: str) -> None:
        try:
            self.nvml = c.CDLL("libnvidia-ml.so.1")
        except OSError as error:
            raise SystemExit(str(error)) from None
        self.handle = c.c_void_p()
        self._expect("nvmlInit_v2")
        if name.isdigit():
            self._expect("nvmlDeviceGetHandleByIndex_v2", c.c_uint(int(name)), c.byref(self.handle))
        else:
            self._expect("nvmlDeviceGetHandleByUUID", name.encode(), c.byref(self.handle))

    def _expect(self, function: str, *arguments: object) -> None:
        status = self.call(function, *arguments)
        if status != 0:
            raise SystemExit(f"{function} answered {status}")

    def call(self, function: str, *arguments: object) -> int:
        """NVML's status. 13 (NVML_ERROR_FUNCTION_NOT_FOUND) if the driver does not have the function."""
        try:
            return int(getattr(self.nvml, function)(*arguments))
        except AttributeError:
            return 13

    def _text(self, function: str, *before: object) -> str:
        text = c.create_string_buffer(96)
        return text.value.decode() if self.call(function, *before, text, c.c_uint(96)) == 0 else ""

    def describe(self) -> dict[str, object]:
        """Card and driver. `processes` is None if NVML does not report the memory of processes."""
        mode, pending = c.c_uint(0), c.c_uint(0)
        self.call("nvmlDeviceGetMigMode", self.handle, c.byref(mode), c.byref(pending))
        index, processes = c.c_uint(0), self.processes()
        self.call("nvmlDeviceGetIndex", self.handle, c.byref(index))
        return {
            "index": index.value,
            "name": self._text("nvmlDeviceGetName", self.handle),
            "uuid": self._text("nvmlDeviceGetUUID", self.handle),
            "driver": self._text("nvmlSystemGetDriverVersion"),
            "total": self.memory().total,
            "used": self.memory().used,
            "mig": bool(mode.value),
            "processes": None if processes is None else len(processes),
            "utilization": self.samples(0) is not None,
        }

    def memory(self) -> Memory:
        """The device's memory in bytes."""
        found = Memory()
        self._expect("nvmlDeviceGetMemoryInfo", self.handle, c.byref(found))
        return found

    def processes(self) -> dict[int, int] | None:
        """Bytes by pid. None if NVML does not report them."""
        rows, count = (Process * MOST)(), c.c_uint(MOST)
        for function in ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"):
            if self.call(function, self.handle, c.byref(count), rows) == 0:
                found = {row.pid: row.used for row in rows[: count.value]}
                return None if any(used == UNKNOWN for used in found.values()) else found
        return None

    def samples(self, since: int) -> list[tuple[int, int, int]] | None:
        """Time in us, pid and percent of each sample after `since`. None if NVML does not report them."""
        count = c.c_uint(0)
        status = self.call("nvmlDeviceGetProcessUtilization", self.handle, None, c.byref(count), c.c_ulonglong(since))
        if status not in {0, 6, 7}:  # 6: not found, so no sample; 7: insufficient size, the usual answer
            return None
        rows, count = (Sample * (count.value + 64))(), c.c_uint(count.value + 64)
        if self.call("nvmlDeviceGetProcessUtilization", self.handle, rows, c.byref(count), c.c_ulonglong(since)) != 0:
            return []
        return [(row.time, row.pid, row.sm) for row in rows[: count.value]]


class Watch:
    """Samples the card continuously."""

    def __init__(self, card: Card) -> None:
        self.card = card
        self.lock = threading.Lock()
        self.pids: set[int] = set()
        self.theirs: int | None = None
        self.device = self.looks = 0
        self.last = 0
        self.busy: dict[int, list[int]] | None = None

    def restart(self, pids: set[int]) -> None:
        """Forget all samples and watch these processes."""
        with self.lock:
            self.pids, self.theirs, self.device, self.looks = pids, None, 0, 0

    def look(self) -> None:
        """Take one sample of memory use."""
        processes, device = self.card.processes(), self.card.memory().used
        with self.lock:
            self.looks += 1
            self.device = max(self.device, device)
            theirs = [used for pid, used in (processes or {}).items() if pid in self.pids]
            if theirs:
                self.theirs = max(self.theirs or 0, sum(theirs))

    def gather(self) -> None:
        """Add NVML's utilization samples since the last call."""
        samples = self.card.samples(self.last) if self.busy is not None else None
        with self.lock:
            for at, pid, percent in samples or ():
                self.last = max(self.last, at)
                if self.busy is not None:
                    self.busy.setdefault(pid, []).append(percent)

    def run(self) -> None:
        """Sample for ever."""
        for number in itertools.count():
            self.look()
            if number % 50 == 0:
                self.gather()
            time.sleep(PERIOD_S)

    def answer(self, command: str, pids: set[int]) -> object:
        """Answer one command."""
        if command == "card":
            return self.card.describe()
        if command == "watch":
            self.restart(pids)
            return {"device": self.card.memory().used}
        if command == "peak":
            self.look()
            with self.lock:
                return {"theirs": self.theirs, "device": self.device, "looks": self.looks}
        if command == "since":
            with self.lock:
                samples = self.card.samples(0)
                self.last = max((at for at, _, _ in samples or ()), default=0)
                self.busy = None if samples is None else {}
            return {}
        if command == "busy":
            self.gather()
            with self.lock:
                found = {pid: (self.busy or {}).get(pid) for pid in pids}
                return {str(pid): sum(seen) / len(seen) if seen else None for pid, seen in found.items()}
        return {"unknown": command}


def main() -> None:
    """Answer commands until the input ends."""
    watch = Watch(Card(sys.argv[1]))
    threading.Thread(target=watch.run, daemon=True).start()
    for line in sys.stdin:
        command, *pids = line.split()
        print(json.dumps(watch.answer(command, set(map(int, pids)))), flush=True)


if __name__ == "__main__":
    main()
