"""The state directory of simulated GPUs: makes it, reads what programs took and changes what they meet."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import mmap
import os
import struct
import threading
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from hami_gpusim import _layout as layout
from hami_gpusim._books import fill, fill_engine
from hami_gpusim._profiles import COMPUTE_MODES, expand, load

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

DOUBLE_BIT_EVENT = 2  # nvmlEventTypeDoubleBitEccError
XID_EVENT = 8  # nvmlEventTypeXidCriticalError
NO_INSTANCE = 0xFFFFFFFF
XID_OFF_THE_BUS = 79
STEP_NS = layout.HISTORY_NS

# Lock files are opened once a process and never closed: closing any descriptor of a file drops all record locks that
# the process holds on it, and a simulated libcuda in this very process may hold one.
_alive: dict[str, int] = {}
_alive_lock = threading.Lock()


class StateError(RuntimeError):
    """A state directory that is missing, foreign or of another version."""


@dataclass(frozen=True, slots=True)
class Process:
    """A live process that uses a device."""

    pid: int
    """As seen from here; the process's own number if it lives in a pid namespace that is not visible."""
    name: str
    memory_used: int
    """Bytes taken on the device."""


@dataclass(frozen=True, slots=True)
class Device:
    """What the books say about one card or MIG device, at one moment. Sizes are bytes.

    What MIG devices use is used on their card, too.
    """

    index: int
    """Of a card, its place in the profile; of a MIG device, a number beyond those of all cards."""
    uuid: str
    """As NVML writes it, ``GPU-…`` or ``MIG-…``."""
    name: str
    memory_total: int
    memory_used: int
    context_reserve: int
    busy_ns: int
    """Device time that live processes have queued."""
    lost: bool
    processes: tuple[Process, ...]


@dataclass(frozen=True, slots=True)
class DeviceTime:
    """What one process really had of one card, which no driver call tells.

    Attributes:
        pid: In the process's own namespace.
        total_ns: Device time since the process began.
        steps: Device time in ns by step of `STEP_NS`, numbered from the clock's zero; the last 100 s.
    """

    pid: int
    total_ns: int
    steps: dict[int, int]


@dataclass(frozen=True, slots=True)
class Fault:
    """An error that calls of one function answer with.

    Attributes:
        symbol: Exported name (``cuMemAlloc_v2``) or base name (``cuMemAlloc``, all its variants).
        error: The CUresult or nvmlReturn_t to answer.
        device: Only calls that concern this card (index in the profile) or its MIG devices; None for any.
        skip: So many calls pass first.
        count: So many calls fail then; None for all.
    """

    symbol: str
    error: int
    device: int | None = None
    skip: int = 0
    count: int | None = None


def create(directory: str | Path, profile: str | Path, *, seed: str | None = None) -> None:
    """Makes a state directory.

    Args:
        directory: Made if missing; must not hold a state already.
        profile: Built-in name (``<model>`` or ``<model>x<count>``) or the path of a JSON or YAML file.
        seed: Text that UUIDs derive from; by default the directory's path, so that nodes differ and re-runs agree.

    Raises:
        ProfileError: The profile is unknown or not valid.
        StateError: The directory already holds a state.
    """
    root = Path(directory)
    checked = load(profile)
    cards = expand(checked, seed or str(checked.get("seed") or root.resolve()))
    if (root / "books").exists():
        raise StateError(f"{root}: already holds a simulated driver's state; remove it or use another directory")
    (root / "dev").mkdir(parents=True, exist_ok=True)
    _publish(root / "profile.json", json.dumps(checked | {"devices": cards}, indent=1).encode() + b"\n", 0o644)
    for node in ["nvidiactl", "nvidia-uvm", *(f"nvidia{card['minor']}" for card in cards)]:
        _publish(root / "dev" / node, b"", 0o666)
    _publish(root / "alive", b"", 0o666)
    _publish(root / "shared", b"", 0o666)
    _publish(root / "engine", fill_engine(), 0o666, size=ctypes.sizeof(layout.Engines))
    _publish(root / "books", fill(checked, cards), 0o666, size=ctypes.sizeof(layout.Books))


def _publish(path: Path, content: bytes, mode: int, size: int | None = None) -> None:
    """Writes a file under a temporary name and renames it, so that nobody sees half of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(content)
    if size is not None:
        os.truncate(temporary, size)  # sparse: the rest takes no room
    temporary.chmod(mode)
    temporary.replace(path)


def _alive_descriptor(root: Path) -> int:
    key = str(root.resolve())
    with _alive_lock:
        if key not in _alive:
            _alive[key] = os.open(root / "alive", os.O_RDWR | os.O_CLOEXEC)
        return _alive[key]


def _own_process() -> tuple[int, int, int]:
    """Pid namespace, pid and start time: what tells two containers' processes apart that are both pid 1."""
    stat = Path("/proc/self/stat").read_text(encoding="utf-8")
    start = int(stat.rpartition(")")[2].split()[19])
    return Path("/proc/self/ns/pid").stat().st_ino, os.getpid(), start


def _hash(symbol: str) -> int:
    value = 0xCBF29CE484222325
    for byte in symbol.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


class State:
    """The books of a state directory, live. Use as a context manager; safe beside any number of processes."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        try:
            descriptor = os.open(self.directory / "books", os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise StateError(f"{self.directory}: no simulated driver's state here ({error.strerror})") from error
        try:
            if os.fstat(descriptor).st_size != ctypes.sizeof(layout.Books):
                raise StateError(f"{self.directory}/books: wrong size; made by another version, make it anew")
            self._map = mmap.mmap(descriptor, ctypes.sizeof(layout.Books))
        finally:
            os.close(descriptor)
        self._books = layout.Books.from_buffer(self._map)
        if self._books.magic != layout.MAGIC or self._books.version != layout.VERSION:
            raise StateError(f"{self.directory}/books: foreign or of another version, make it anew")
        self._alive = _alive_descriptor(self.directory)
        with (self.directory / "engine").open("r+b") as file:
            self._engine_map = mmap.mmap(file.fileno(), ctypes.sizeof(layout.Engines))
        self._engines = layout.Engines.from_buffer(self._engine_map)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the books. The lock file stays open on purpose."""
        if not self._map.closed:
            del self._books, self._engines
            with contextlib.suppress(BufferError):  # a structure of ours is still referenced: unmapped when it goes
                self._map.close()
            with contextlib.suppress(BufferError):
                self._engine_map.close()

    def _pid_of(self, slot: int) -> int:
        """Process of a slot, 0 if it is dead."""
        record = self._books.slots[slot]
        if (record.pid_namespace, record.pid, record.start_time) == _own_process():
            return int(record.pid)
        question = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, slot, 1, 0)
        kind, _, _, _, pid = struct.unpack("hhqqi4x", fcntl.fcntl(self._alive, fcntl.F_GETLK, question))
        return 0 if kind == fcntl.F_UNLCK else pid or int(record.pid)

    def _slots(self) -> Iterator[tuple[int, int]]:
        """Live slots with their processes."""
        for slot in range(self._books.slot_limit):
            if self._books.slots[slot].state == layout.SLOT_LIVE:
                pid = self._pid_of(slot)
                if pid:
                    yield slot, pid

    @property
    def devices(self) -> tuple[Device, ...]:
        """The cards as they are now; memory of dead processes does not count."""
        live = list(self._slots())
        return tuple(
            self._device([card, *self._parts(card)], uuid.UUID(bytes=bytes(self._books.devices[card].uuid)), live)
            for card in range(self._books.device_count)
        )

    @property
    def mig_devices(self) -> tuple[Device, ...]:
        """The MIG devices of all cards as they are now; those of one GPU instance share what it has."""
        live = list(self._slots())
        return tuple(
            self._device([part], uuid.UUID(bytes=own[:15] + bytes([(own[15] + compute) % 256])), live)
            for card in range(self._books.device_count)
            for part, instance in self._parts(card).items()
            for own in [bytes(instance.uuid)]
            for compute in range(layout.MAX_COMPUTE_INSTANCES)
            if instance.compute_instances >> compute & 1
        )

    def _parts(self, card: int) -> dict[int, layout.MigInstance]:
        """GPU instances of a card, by their index as devices."""
        first = layout.MAX_CARDS + card * layout.MAX_MIG_INSTANCES
        instances = enumerate(self._books.devices[card].mig_instances)
        return {first + row: found for row, found in instances if found.state == layout.INSTANCE_THERE}

    def _device(self, indices: list[int], own: uuid.UUID, live: list[tuple[int, int]]) -> Device:
        """The first of these devices, with what is used on all of them."""
        index = indices[0]
        card = self._books.devices[index]
        shared = self._shared(indices, [slot for slot, _ in live])
        taken = {slot: sum(int(self._books.used[i][slot]) for i in indices) + shared.get(slot, 0) for slot, _ in live}
        processes = tuple(
            Process(pid, self._books.slots[slot].name.decode(errors="replace"), taken[slot])
            for slot, pid in live
            if taken[slot]
        )
        return Device(
            index=index,
            uuid=f"{'GPU' if index < layout.MAX_CARDS else 'MIG'}-{own}",
            name=card.name.decode(),
            memory_total=int(card.memory_total),
            memory_used=min(sum(taken.values()) + shared.get(None, 0), int(card.memory_total - card.memory_reserved)),
            context_reserve=int(card.context_reserve),
            busy_ns=sum(int(self._books.engines[i][slot].busy_total) for i in indices for slot, _ in live),
            lost=bool(self._books.devices[self._card_of(index)].lost),
            processes=processes,
        )

    @staticmethod
    def _card_of(index: int) -> int:
        return index if index < layout.MAX_CARDS else (index - layout.MAX_CARDS) // layout.MAX_MIG_INSTANCES

    def _shared(self, indices: list[int], live: list[int]) -> dict[int | None, int]:
        """Bytes of what several processes may hold, by the first that does; None: a descriptor alone does."""
        found: dict[int | None, int] = {}
        for number in range(self._books.shared_limit):
            entry = self._books.shared[number]
            if entry.state and entry.device in indices and entry.bytes:
                first = next((slot for slot in live if entry.holders[slot // 64] >> slot % 64 & 1), None)
                if first is not None or self._under_way(number):
                    found[first] = found.get(first, 0) + int(entry.bytes)
        return found

    def _under_way(self, entry: int) -> bool:
        """Whether a file descriptor for it is open anywhere."""
        question = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, entry, 1, 0)
        with (self.directory / "shared").open("r+b") as file:
            kind = struct.unpack("hhqqi4x", fcntl.fcntl(file, fcntl.F_OFD_GETLK, question))[0]
        return bool(kind != fcntl.F_UNLCK)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """One writer of faults and events at a time."""
        with _alive_lock:
            turn = layout.MAX_SLOTS + layout.MAX_DEVICES
            fcntl.lockf(self._alive, fcntl.LOCK_EX, 1, turn)
            try:
                yield
                self._books.watch = sum(f.active for f in self._books.faults) + sum(
                    bool(d.lost) for d in self._books.devices[: layout.MAX_CARDS]
                )
            finally:
                fcntl.lockf(self._alive, fcntl.LOCK_UN, 1, turn)

    def _card(self, index: int) -> layout.Device:
        if not 0 <= index < self._books.device_count:
            raise IndexError(f"device {index}: this state has {self._books.device_count} devices")
        card: layout.Device = self._books.devices[index]
        return card

    def _there(self, index: int) -> None:
        """Raises IndexError if there is no such card or MIG device."""
        if index not in self._parts(self._card_of(index)):
            self._card(index)

    def inject(self, fault: Fault) -> None:
        """Makes calls of a function fail, from now on, in every process of this state.

        Raises:
            StateError: So many faults are active that no room is left.
            IndexError: There is no such device.
        """
        if fault.device is not None:
            self._card(fault.device)
        with self._writing():
            free = next((f for f in self._books.faults if not f.active), None)
            if free is None:
                raise StateError(f"{layout.MAX_FAULTS} faults are active, clear() some first")
            free.device = -1 if fault.device is None else fault.device
            free.error = fault.error
            free.skip = fault.skip
            free.left = -1 if fault.count is None else fault.count
            free.symbol = fault.symbol.encode()[:87]
            free.symbol_hash = _hash(fault.symbol)
            free.hits = 0
            free.active = 1

    def hits(self, symbol: str) -> int:
        """How many calls the active faults of a symbol have failed."""
        return sum(int(f.hits) for f in self._books.faults if f.active and f.symbol == symbol.encode())

    def clear(self) -> None:
        """Ends all injected faults. Lost devices stay lost until `restore`."""
        with self._writing():
            for fault in self._books.faults:
                fault.active = 0

    def forget_cgroups(self) -> None:
        """Ends all memory limits of cgroups. They go by inode, which the file system gives to another folder later."""
        with self._writing():
            for limit in self._books.limits[: self._books.limit_count]:
                limit.cgroup = 0
            self._books.limit_count = 0

    def lose(self, index: int) -> None:
        """The card falls off the bus: Xid 79, NVML answers GPU_IS_LOST, CUDA calls fail with 999."""
        card = self._card(index)
        with self._writing():
            card.lost = 1
        self.xid(index, XID_OFF_THE_BUS)

    def restore(self, index: int) -> None:
        """The card is there again."""
        card = self._card(index)
        with self._writing():
            card.lost = 0

    def xid(
        self,
        index: int,
        number: int,
        *,
        gpu_instance: int = NO_INSTANCE,
        compute_instance: int = NO_INSTANCE,
        count: int = 1,
    ) -> None:
        """Raises an Xid on a card, which NVML event sets registered for it receive.

        Args:
            index: The card.
            number: The Xid.
            gpu_instance: Id of the GPU instance that it concerns.
            compute_instance: Id of the compute instance in it.
            count: How often. A card keeps its last 64 events; a reader that is slower loses older ones.
        """
        self._raise_events(index, XID_EVENT, number, (gpu_instance, compute_instance), count)

    def double_bit_error(self, index: int) -> None:
        """Raises the event of an ECC error in two bits, without its Xid."""
        self._raise_events(index, DOUBLE_BIT_EVENT, 0, (NO_INSTANCE, NO_INSTANCE), 1)

    def _raise_events(self, index: int, kind: int, data: int, instances: tuple[int, int], count: int) -> None:
        card = self._card(index)
        with self._writing():
            for _ in range(count):
                sequence = int(card.event_count) + 1
                event = card.events[sequence % layout.EVENT_RING]
                event.sequence = 0
                event.type, event.data = kind, data
                event.gpu_instance, event.compute_instance = instances
                event.sequence = sequence
                card.event_count = sequence

    def set_memory_repair(self, index: int, *, pending: bool = False, failed: bool = False) -> None:
        """Says how a card replaces faulty memory; NVML tells it as remapped rows, before Ampere as retired pages.

        Args:
            index: The card.
            pending: Memory is replaced at the next reset.
            failed: A row could not be replaced. Cards before Ampere do not tell this.
        """
        self._card(index).repair = pending * layout.REPAIR_PENDING + failed * layout.REPAIR_FAILED

    def set_modes(
        self, index: int, *, compute: str | None = None, mig: bool | None = None, mig_after_reset: bool | None = None
    ) -> None:
        """Changes a card's modes, whoever uses it; None leaves a mode as it is.

        Args:
            index: The card.
            compute: ``default``, ``exclusive_thread``, ``prohibited`` or ``exclusive_process``.
            mig: MIG mode now, and after a reset unless `mig_after_reset` says otherwise.
            mig_after_reset: NVML's pending MIG mode.
        """
        card = self._card(index)
        if compute is not None:
            card.compute_mode = COMPUTE_MODES[compute]
        if mig is not None:
            card.mig_mode = card.mig_pending = int(mig)
        if mig_after_reset is not None:
            card.mig_pending = int(mig_after_reset)

    def set_launch_time(self, seconds: float) -> None:
        """How long a kernel takes whose name does not say; ±20 % jitter is added."""
        self._books.launch_ns = max(0, round(seconds * 1e9))

    def set_link_traffic(self, index: int, sent_kb: int, received_kb: int) -> None:
        """What a card is said to send and receive over PCIe, in KB a second; nothing at first."""
        self._card(index).link_kb[:] = (sent_kb, received_kb)

    def set_slices(self, seconds: float, *, switch: float = 0.0) -> None:
        """How long a context keeps a card while others wait, and what changing over costs; 2 ms and nothing at first.

        A process whose environment has ``HAMI_SIM_SLICE_NS`` gets slices of its own length.
        """
        for card in range(self._books.device_count):
            for index in [card, *self._parts(card)]:
                device = self._engines.devices[index]
                device.slice_ns, device.switch_ns = max(10_000, round(seconds * 1e9)), max(0, round(switch * 1e9))

    def device_time(self, index: int) -> tuple[DeviceTime, ...]:
        """True device time of every process that ever used a card or MIG device, dead ones too."""
        self._there(index)
        found = []
        for number in range(self._engines.queue_limit):
            queue = layout.Queue.from_buffer_copy(self._engines.queues[number])
            if queue.state and queue.device == index:
                found.append(DeviceTime(int(queue.pid), int(queue.busy_ns), _steps(queue.history)))
        return tuple(found)

    def idle_time(self, index: int) -> dict[int, int]:
        """When a card or MIG device had nothing to do, in ns by step of `STEP_NS`."""
        self._there(index)
        return _steps(self._engines.devices[index].idle)


def _steps(history: ctypes.Array[layout.History]) -> dict[int, int]:
    return {int(step.bucket): int(step.busy) for step in history if step.bucket}
