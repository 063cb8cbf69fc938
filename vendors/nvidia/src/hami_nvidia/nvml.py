"""The only module that calls NVML. Its calls and errors are typed, and one broken card never hides the others.

The binding (nvidia-ml-py) is loaded on first use, so that importing this package needs no driver.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hami_core import DeviceError
from hami_nvidia.modes import ALL_ALLOWED, DEFAULT, Modes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import ModuleType

MIB: Final = 1 << 20
NVLINKS: Final = 18
"""Number of NVLinks of a card that are read for pair scores."""
ERROR_INVALID_ARGUMENT: Final = 2
ERROR_NOT_SUPPORTED: Final = 3
ERROR_NOT_FOUND: Final = 6
ERROR_TIMEOUT: Final = 10
ERROR_FUNCTION_NOT_FOUND: Final = 13
ERROR_GPU_IS_LOST: Final = 15
ERROR_ARGUMENT_VERSION_MISMATCH: Final = 25
ERROR_UNKNOWN: Final = 999
NO_SUCH_QUESTION: Final = frozenset(
    {ERROR_INVALID_ARGUMENT, ERROR_NOT_SUPPORTED, ERROR_FUNCTION_NOT_FOUND, ERROR_ARGUMENT_VERSION_MISMATCH}
)
"""Error codes by which a driver answers a query, or a version of it, that is newer than the driver."""
_NONE: Final = 0xFFFFFFFF


class NvmlError(DeviceError):
    """One NVML call failed.

    Args:
        call: The function, such as ``nvmlDeviceGetMemoryInfo``.
        code: NVML's return code; -1 if the library is missing or its answer is unusable.
        text: NVML's message.
        card: The card that was asked; empty if none.
    """

    def __init__(self, call: str, code: int, text: str, card: str = "") -> None:
        super().__init__(f"{call}{' of ' + card if card else ''}: {text} (NVML error {code})")
        self.call = call
        self.code = code
        self.card = card


@dataclass(frozen=True, slots=True)
class Card:
    """A card as NVML describes it.

    Attributes:
        index: NVML index (PCI order).
        uuid: UUID with its ``GPU-`` prefix.
        name: NVML name.
        minor: Number of ``/dev/nvidia<minor>``.
        memory_bytes: Total memory; None if the card shares the host's memory (unified memory).
        bus_id: PCI bus id in NVML's long form.
        modes: Its modes.
        reserved_bytes: Part of the total that the driver reserves; 0 if NVML does not say.
    """

    index: int
    uuid: str
    name: str
    minor: int
    memory_bytes: int | None
    bus_id: str
    modes: Modes = ALL_ALLOWED
    reserved_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """A card's current use. None: not measured on this card."""

    memory_used_bytes: int | None
    gpu_percent: int | None
    memory_percent: int | None


@dataclass(frozen=True, slots=True)
class Traffic:
    """PCIe traffic in bytes per second."""

    sent: int
    received: int


@dataclass(frozen=True, slots=True)
class Link:
    """An active NVLink: the PCI bus id of its peer, and whether the peer is a switch."""

    peer: str
    switch: bool


class Nvml:
    """NVML, initialised on first use.

    Args:
        locate: Returns the path of libnvidia-ml.so.1 each time the library is opened; empty: load it by name.
    """

    def __init__(self, locate: Callable[[], str] = str) -> None:
        self._locate = locate
        self._lock = threading.RLock()
        self._module: ModuleType | None = None
        self._events: Any = None
        self._registered: set[str] = set()
        self._by_handle: dict[int, str] = {}

    @contextlib.contextmanager
    def calling(self, call: str, card: str = "") -> Iterator[ModuleType]:
        """The binding, for calls of one card. Its errors become `NvmlError`."""
        module = self._open()
        try:
            yield module
        except module.NVMLError as error:
            raise NvmlError(call, int(error.value), str(error), card) from error
        except (OSError, AttributeError, UnicodeDecodeError, ValueError) as error:
            raise NvmlError(call, -1, f"{type(error).__name__}: {error}", card) from error

    def _open(self) -> ModuleType:
        with self._lock:
            if self._module is not None:
                return self._module
            import pynvml  # noqa: PLC0415 - only where a driver is wanted

            library = self._locate()
            if library:
                try:
                    pynvml.nvmlLib = ctypes.CDLL(library)
                except OSError as error:
                    raise NvmlError("dlopen", -1, f"{library}: {error}") from error
            try:
                pynvml.nvmlInit()
            except pynvml.NVMLError as error:
                hint = "" if library else "; is the NVIDIA driver installed, is libnvidia-ml.so.1 mounted?"
                raise NvmlError("nvmlInit", int(error.value), f"{error}{hint}") from error
            module: ModuleType = pynvml
            self._module = module
            return module

    def close(self) -> None:
        """Shut NVML down. The next call opens it again, for example after a driver reload."""
        with self._lock:
            module, self._module, self._events = self._module, None, None
            self._registered.clear()
            self._by_handle.clear()
            if module is not None:
                with contextlib.suppress(module.NVMLError):
                    module.nvmlShutdown()

    # --- devices -----------------------------------------------------------------------------------------------

    def driver_version(self) -> str:
        """Version of the driver, such as ``550.54.15``."""
        with self.calling("nvmlSystemGetDriverVersion") as nvml:
            return text_of(nvml.nvmlSystemGetDriverVersion())

    def cards(self) -> tuple[list[Card], list[NvmlError]]:
        """Every card that answers, and the errors of the other cards.

        Raises:
            NvmlError: NVML itself does not work.
        """
        with self.calling("nvmlDeviceGetCount") as nvml:
            count = nvml.nvmlDeviceGetCount()
        found: list[Card] = []
        errors: list[NvmlError] = []
        for index in range(count):
            try:
                found.append(self._card(index))
            except NvmlError as error:
                errors.append(error)
        return found, errors

    def _card(self, index: int) -> Card:
        with self.calling("nvmlDeviceGetHandleByIndex", f"card {index}") as nvml:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = text_of(nvml.nvmlDeviceGetUUID(handle))
        with self.calling("nvmlDeviceGetName", uuid) as nvml:
            name = text_of(nvml.nvmlDeviceGetName(handle))
        with self.calling("nvmlDeviceGetMinorNumber", uuid) as nvml:
            minor = int(nvml.nvmlDeviceGetMinorNumber(handle))
        with self.calling("nvmlDeviceGetPciInfo", uuid) as nvml:
            bus_id = text_of(nvml.nvmlDeviceGetPciInfo(handle).busId)
        memory = self._unless_unsupported(lambda: self._memory(handle, uuid)[0])
        reserved = 0 if memory is None else self._reserved(handle, uuid)
        return Card(index, uuid, name, minor, memory, bus_id, self._modes(handle, uuid), reserved)

    def _memory(self, handle: Any, uuid: str) -> tuple[int, int]:  # noqa: ANN401 - NVML's opaque handle
        with self.calling("nvmlDeviceGetMemoryInfo", uuid) as nvml:
            info = nvml.nvmlDeviceGetMemoryInfo(handle)
            return int(info.total), int(info.used)

    def _reserved(self, handle: Any, uuid: str) -> int:  # noqa: ANN401 - NVML's opaque handle
        try:
            with self.calling("nvmlDeviceGetMemoryInfo_v2", uuid) as nvml:
                return int(nvml.nvmlDeviceGetMemoryInfo(handle, nvml.nvmlMemory_v2).reserved)
        except NvmlError as error:
            if error.code in NO_SUCH_QUESTION:
                return 0
            raise

    def modes(self, uuid: str) -> Modes:
        """A card's modes. If they can't be read, `Modes.problem` says why."""
        try:
            return self._modes(self.handle(uuid), uuid)
        except NvmlError as error:
            return Modes(problem=str(error))

    def _modes(self, handle: Any, uuid: str) -> Modes:  # noqa: ANN401 - NVML's opaque handle
        def mig() -> tuple[bool, bool]:
            with self.calling("nvmlDeviceGetMigMode", uuid) as nvml:
                current, pending = nvml.nvmlDeviceGetMigMode(handle)
                return bool(current), bool(pending)

        def compute() -> int:
            with self.calling("nvmlDeviceGetComputeMode", uuid) as nvml:
                return int(nvml.nvmlDeviceGetComputeMode(handle))

        try:
            current, pending = self._unless_unsupported(mig) or (False, False)
            return Modes(current, pending, self._unless_unsupported(compute) or DEFAULT)
        except NvmlError as error:
            return Modes(problem=str(error))

    def set_compute_mode(self, uuid: str, mode: int) -> None:
        """Set a card's compute mode (`hami_nvidia.modes`). It lasts until the driver is loaded anew.

        Raises:
            NvmlError: The driver refuses.
        """
        handle = self.handle(uuid)
        with self.calling("nvmlDeviceSetComputeMode", uuid) as nvml:
            nvml.nvmlDeviceSetComputeMode(handle, mode)

    def _unless_unsupported(self, call: Any) -> Any:  # noqa: ANN401 - passes through what the call answers
        try:
            return call()
        except NvmlError as error:
            if error.code in {ERROR_NOT_SUPPORTED, ERROR_FUNCTION_NOT_FOUND}:
                return None
            raise

    def handle(self, uuid: str) -> Any:  # noqa: ANN401 - NVML's opaque handle
        """NVML's handle of a card or a MIG device."""
        with self.calling("nvmlDeviceGetHandleByUUID", uuid) as nvml:
            return nvml.nvmlDeviceGetHandleByUUID(uuid)

    def usage(self, uuid: str) -> Usage:
        """A card's current use.

        Raises:
            NvmlError: The card does not answer.
        """
        handle = self.handle(uuid)
        used = self._unless_unsupported(lambda: self._memory(handle, uuid)[1])

        def rates() -> tuple[int, int]:
            with self.calling("nvmlDeviceGetUtilizationRates", uuid) as nvml:
                found = nvml.nvmlDeviceGetUtilizationRates(handle)
                return int(found.gpu), int(found.memory)

        gpu, memory = self._unless_unsupported(rates) or (None, None)
        return Usage(used, gpu, memory)

    def link_traffic(self, uuid: str) -> Traffic | None:
        """What a card sends and receives over PCIe; None if NVML does not measure it. NVML takes 20 ms for each value.

        Raises:
            NvmlError: The card does not answer.
        """
        handle = self.handle(uuid)

        def counted() -> Traffic:
            with self.calling("nvmlDeviceGetPcieThroughput", uuid) as nvml:
                sent, received = (
                    int(nvml.nvmlDeviceGetPcieThroughput(handle, counter)) * 1000
                    for counter in (nvml.NVML_PCIE_UTIL_TX_BYTES, nvml.NVML_PCIE_UTIL_RX_BYTES)
                )
                return Traffic(sent, received)

        found: Traffic | None = self._unless_unsupported(counted)
        return found

    def processes(self, uuid: str) -> dict[int, int]:
        """Bytes of device memory by host pid, as the driver counts them; 0 if the driver does not say."""
        handle = self.handle(uuid)
        with self.calling("nvmlDeviceGetComputeRunningProcesses", uuid) as nvml:
            found = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
            return {int(p.pid): int(p.usedGpuMemory or 0) for p in found}

    def process_utilization(self, uuid: str, since: float) -> dict[int, int] | None:
        """Percent of the card's time that each host pid used lately; None if NVML does not measure it.

        Args:
            uuid: The card.
            since: Unix seconds; older samples are left out. A process without a newer sample was idle.

        Raises:
            NvmlError: The card does not answer.
        """
        handle = self.handle(uuid)

        def measured() -> dict[int, int]:
            with self.calling("nvmlDeviceGetProcessUtilization", uuid) as nvml:
                found = nvml.nvmlDeviceGetProcessUtilization(handle, int(since * 1_000_000))
                ordered = sorted(found, key=lambda sample: int(sample.timeStamp))
                return {int(sample.pid): int(sample.smUtil) for sample in ordered}  # the latest sample counts

        try:
            found: dict[int, int] | None = self._unless_unsupported(measured)
        except NvmlError as error:
            if error.code == ERROR_NOT_FOUND:  # no process worked
                return {}
            raise
        return found

    def memory_node(self, uuid: str) -> int | None:
        """The NUMA node nearest to the card's memory; None if NVML does not say."""
        handle = self.handle(uuid)

        def nodes() -> list[int]:
            with self.calling("nvmlDeviceGetMemoryAffinity", uuid) as nvml:
                return [int(word) for word in nvml.nvmlDeviceGetMemoryAffinity(handle, 1, 0)]

        found = self._unless_unsupported(nodes) or [0]
        return (found[0] & -found[0]).bit_length() - 1 if found[0] else None

    # --- how cards are linked --------------------------------------------------------------------------------------

    def common_ancestor(self, one: str, other: str) -> int:
        """NVML's topology level between two cards, from 0 (same board) to 50 (across CPUs)."""
        first, second = self.handle(one), self.handle(other)
        with self.calling("nvmlDeviceGetTopologyCommonAncestor", one) as nvml:
            return int(nvml.nvmlDeviceGetTopologyCommonAncestor(first, second))

    def links(self, uuid: str) -> list[Link]:
        """The active NVLinks of a card."""
        handle = self.handle(uuid)
        found: list[Link] = []
        for number in range(NVLINKS):
            try:
                with self.calling("nvmlDeviceGetNvLinkState", uuid) as nvml:
                    if not nvml.nvmlDeviceGetNvLinkState(handle, number):
                        continue
                    peer = text_of(nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, number).busId)
                    found.append(Link(peer.lower(), self._is_switch(handle, number)))
            except NvmlError:
                continue
        return found

    def _is_switch(self, handle: Any, number: int) -> bool:  # noqa: ANN401 - NVML's opaque handle
        try:
            with self.calling("nvmlDeviceGetNvLinkRemoteDeviceType") as nvml:
                kind = int(nvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, number))
                return kind == int(nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH)
        except NvmlError:
            return False

    # --- events ----------------------------------------------------------------------------------------------------

    def watch(self, uuids: Sequence[str]) -> dict[str, NvmlError]:
        """Register cards for events of critical errors. Returns the error of each card that can't be registered."""
        if self._unless_unsupported(self._make_events) is None:
            return {}
        failed: dict[str, NvmlError] = {}
        for uuid in uuids:
            if uuid in self._registered:
                continue
            try:
                handle = self.handle(uuid)
                with self.calling("nvmlDeviceRegisterEvents", uuid) as nvml:
                    wanted = (
                        nvml.nvmlEventTypeXidCriticalError
                        | nvml.nvmlEventTypeDoubleBitEccError
                        | nvml.nvmlEventTypeSingleBitEccError
                    )
                    mask = wanted & int(nvml.nvmlDeviceGetSupportedEventTypes(handle))
                    nvml.nvmlDeviceRegisterEvents(handle, mask, self._events)
                self._registered.add(uuid)
                self._by_handle[_address(handle)] = uuid
            except NvmlError as error:
                if error.code == ERROR_NOT_SUPPORTED:
                    self._registered.add(uuid)
                else:
                    failed[uuid] = error
        return failed

    def _make_events(self) -> Any:  # noqa: ANN401 - NVML's opaque event set
        with self._lock, self.calling("nvmlEventSetCreate") as nvml:
            if self._events is None:
                self._events = nvml.nvmlEventSetCreate()
            return self._events

    def xids(self, most: int = 64) -> list[tuple[str, int]]:
        """Critical errors since the last call, as (UUID, XID). The UUID is empty if the card is unknown.

        A card that has fallen off the bus no longer answers with its UUID; it is recognised by its handle.

        Raises:
            NvmlError: Waiting for events failed.
        """
        found: list[tuple[str, int]] = []
        while self._events is not None and len(found) < most:
            try:
                with self.calling("nvmlEventSetWait") as nvml:
                    event = nvml.nvmlEventSetWait_v2(self._events, 10)
                    if int(event.eventType) != int(nvml.nvmlEventTypeXidCriticalError):
                        continue
            except NvmlError as error:
                if error.code == ERROR_TIMEOUT:
                    break
                raise
            found.append((self._event_card(event), int(event.eventData)))
        return found

    def _event_card(self, event: Any) -> str:  # noqa: ANN401 - NVML's structure
        try:
            with self.calling("nvmlDeviceGetUUID") as nvml:
                return text_of(nvml.nvmlDeviceGetUUID(event.device))
        except NvmlError:
            return self._by_handle.get(_address(event.device), "")


def _address(handle: Any) -> int:  # noqa: ANN401 - NVML's opaque handle
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def text_of(value: str | bytes) -> str:
    """Text of NVML, which older bindings give as bytes."""
    return value.decode() if isinstance(value, bytes) else value
