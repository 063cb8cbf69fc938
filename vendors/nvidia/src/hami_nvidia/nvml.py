"""The only module that calls NVML. Its calls and errors are typed, and one broken card never hides the others.

The binding (nvidia-ml-py) is loaded on first use, so that importing this package needs no driver.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from hami_core import DeviceError
from hami_nvidia.modes import ALL_ALLOWED, DEFAULT, Modes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

MIB: Final = 1 << 20
NVLINKS: Final = 18
"""Number of NVLinks of a card that are read for pair scores."""
ERROR_INVALID_ARGUMENT: Final = 2
ERROR_NOT_SUPPORTED: Final = 3
ERROR_NO_PERMISSION: Final = 4
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
NO_SUCH_FUNCTION: Final = frozenset({ERROR_NOT_SUPPORTED, ERROR_FUNCTION_NOT_FOUND})
"""Error codes of a card or driver that lacks a function."""
DOUBLE_BIT_XID: Final = 48
"""The XID of an ECC error in two bits, which the driver also tells as an event of its own."""
_NONE: Final = 0xFFFFFFFF
"""NVML's id of no GPU instance or compute instance."""


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

    @property
    def sysfs_name(self) -> str:
        """Name of the card's folder in sysfs. NVML writes the PCI domain with eight digits, sysfs with four."""
        bus = self.bus_id.lower()
        return bus[4:] if len(bus.partition(":")[0]) == 8 else bus


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
class CardEvent:
    """A critical error that the driver reports.

    Attributes:
        xid: Its number in NVIDIA's XID catalogue.
        gpu_instance: Id of the GPU instance that it concerns; None: the whole card.
        compute_instance: Id of the compute instance that it concerns; None: the whole GPU instance.
    """

    xid: int
    gpu_instance: int | None = None
    compute_instance: int | None = None


@dataclass(frozen=True, slots=True)
class MemoryRepair:
    """How a card replaces faulty memory: by other rows (from Ampere on), or by leaving out pages.

    Attributes:
        pending: Some memory is replaced at the card's next reset. Until then the driver keeps it from programs.
        failed: A row could not be replaced. NVIDIA's advice is to replace the card.
    """

    pending: bool = False
    failed: bool = False


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
        self._events_lock = threading.Lock()
        self._module: ModuleType | None = None
        self._handles: dict[str, Any] = {}
        self._event_sets: dict[str, Any] = {}

    @contextlib.contextmanager
    def calling(self, call: str, card: str = "") -> Iterator[ModuleType]:
        """The binding, for calls of one card. Its errors become `NvmlError`."""
        module = self._open()
        try:
            yield module
        except module.NVMLError as error:
            raise NvmlError(call, int(error.value), str(error), card) from error
        except module.NVMLLibraryMismatchError as error:  # the driver is older than this version of the function
            raise NvmlError(call, ERROR_FUNCTION_NOT_FOUND, "unknown to this driver", card) from error
        except AttributeError as error:  # the binding is older
            raise NvmlError(call, ERROR_FUNCTION_NOT_FOUND, f"unknown to this nvidia-ml-py: {error}", card) from error
        except (OSError, UnicodeDecodeError, ValueError) as error:
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
                # The binding would go on to call the functions of the library that it had before.
                pynvml._nvmlGetFunctionPointer_cache.clear()  # noqa: SLF001 - it has no public name
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
        with self._events_lock, self._lock:
            module, self._module = self._module, None
            self._handles, self._event_sets = {}, {}
            if module is not None:
                with contextlib.suppress(module.NVMLError):
                    module.nvmlShutdown()

    # --- devices -----------------------------------------------------------------------------------------------

    def driver_version(self) -> str:
        """Version of the driver, such as ``550.54.15``."""
        with self.calling("nvmlSystemGetDriverVersion") as nvml:
            return text_of(nvml.nvmlSystemGetDriverVersion())

    def cuda_version(self) -> tuple[int, int]:
        """The newest version of CUDA that the driver serves, major and minor."""
        with self.calling("nvmlSystemGetCudaDriverVersion_v2") as nvml:
            version = int(nvml.nvmlSystemGetCudaDriverVersion_v2())
        return version // 1000, version % 1000 // 10

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
        self._handles[uuid] = handle
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
            if error.code in NO_SUCH_FUNCTION:
                return None
            raise

    def handle(self, uuid: str) -> Any:  # noqa: ANN401 - NVML's opaque handle
        """NVML's handle of a card or a MIG device.

        NVML looks for a UUID on all cards, and a lost card may end the search with an error. So the handles that were
        found by index are used as long as NVML is open.
        """
        if uuid in self._handles:
            return self._handles[uuid]
        with self.calling("nvmlDeviceGetHandleByUUID", uuid) as nvml:
            return nvml.nvmlDeviceGetHandleByUUID(uuid)

    def compute_capability(self, uuid: str) -> tuple[int, int] | None:
        """A card's CUDA compute capability, major and minor; None if NVML does not say."""
        handle = self.handle(uuid)

        def asked() -> tuple[int, int]:
            with self.calling("nvmlDeviceGetCudaComputeCapability", uuid) as nvml:
                major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
                return int(major), int(minor)

        found: tuple[int, int] | None = self._unless_unsupported(asked)
        return found

    def has_mig(self, uuid: str) -> bool:
        """Whether a card has MIG mode, on or off."""
        handle = self.handle(uuid)

        def asked() -> bool:
            with self.calling("nvmlDeviceGetMigMode", uuid) as nvml:
                nvml.nvmlDeviceGetMigMode(handle)
                return True

        return bool(self._unless_unsupported(asked))

    def fabric_clique(self, uuid: str) -> tuple[str, int] | None:
        """Cluster UUID and clique id of a card in an NVLink fabric; None if it is in none, or not registered yet."""
        handle = self.handle(uuid)

        def asked() -> tuple[str, int] | None:
            with self.calling("nvmlDeviceGetGpuFabricInfo", uuid) as nvml:
                info = nvml.c_nvmlGpuFabricInfo_t()
                nvml.nvmlDeviceGetGpuFabricInfo(handle, ctypes.byref(info))
                cluster = bytes(info.clusterUuid)
                if info.state != nvml.NVML_GPU_FABRIC_STATE_COMPLETED or info.status or not any(cluster):
                    return None
                return str(UUID(bytes=cluster)), int(info.cliqueId)

        found: tuple[str, int] | None = self._unless_unsupported(asked)
        return found

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
        """The active NVLinks of a card.

        Raises:
            NvmlError: The card does not answer.
        """
        handle = self.handle(uuid)
        found: list[Link] = []
        for number in range(NVLINKS):
            try:
                with self.calling("nvmlDeviceGetNvLinkState", uuid) as nvml:
                    if not nvml.nvmlDeviceGetNvLinkState(handle, number):
                        continue
                    peer = text_of(nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, number).busId)
                    found.append(Link(peer.lower(), self._is_switch(handle, number)))
            except NvmlError as error:
                if error.code not in NO_SUCH_QUESTION:
                    raise
        return found

    def _is_switch(self, handle: Any, number: int) -> bool:  # noqa: ANN401 - NVML's opaque handle
        try:
            with self.calling("nvmlDeviceGetNvLinkRemoteDeviceType") as nvml:
                kind = int(nvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, number))
                return kind == int(nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH)
        except NvmlError as error:
            if error.code in NO_SUCH_QUESTION:
                return False
            raise

    # --- events ----------------------------------------------------------------------------------------------------

    def events(self, uuid: str, most: int) -> list[CardEvent]:
        """The critical errors of a card since the last call, or since the first call.

        Each card has an event set of its own. So an event's card is known even if the card no longer answers, and an
        error of one card, or its thousands of events, concern no other.

        Args:
            uuid: The card.
            most: Events that are returned at most. Further ones are returned by the next call.

        Raises:
            NvmlError: The card's events can't be read. The next call registers the card again.
        """
        found: list[CardEvent] = []
        with self._events_lock:
            try:
                if uuid not in self._event_sets:
                    self._event_sets[uuid] = self._register(uuid)
                while len(found) < most:
                    event = self._next_event(uuid, self._event_sets[uuid])
                    if event is None:
                        break
                    found.append(event)
            except NvmlError as error:
                self._free(self._event_sets.pop(uuid, None))
                if not found and error.code not in NO_SUCH_FUNCTION:
                    raise
        return found

    def _register(self, uuid: str) -> Any:  # noqa: ANN401 - NVML's opaque handle
        handle = self.handle(uuid)
        with self.calling("nvmlEventSetCreate", uuid) as nvml:
            made = nvml.nvmlEventSetCreate()
        try:
            with self.calling("nvmlDeviceRegisterEvents", uuid) as nvml:
                wanted = nvml.nvmlEventTypeXidCriticalError | nvml.nvmlEventTypeDoubleBitEccError
                mask = wanted & int(nvml.nvmlDeviceGetSupportedEventTypes(handle))
                nvml.nvmlDeviceRegisterEvents(handle, mask, made)
        except NvmlError:
            self._free(made)
            raise
        return made

    def _next_event(self, uuid: str, events: Any) -> CardEvent | None:  # noqa: ANN401 - NVML's opaque handle
        try:
            with self.calling("nvmlEventSetWait", uuid) as nvml:
                event = nvml.nvmlEventSetWait_v2(events, 0)
                double_bit = int(event.eventType) == int(nvml.nvmlEventTypeDoubleBitEccError)
        except NvmlError as error:
            if error.code == ERROR_TIMEOUT:
                return None
            raise
        ids = (int(event.gpuInstanceId), int(event.computeInstanceId))
        gpu_instance, compute_instance = (None if number == _NONE else number for number in ids)
        return CardEvent(DOUBLE_BIT_XID if double_bit else int(event.eventData), gpu_instance, compute_instance)

    def _free(self, events: Any) -> None:  # noqa: ANN401 - NVML's opaque handle
        if events is not None:
            with contextlib.suppress(NvmlError), self.calling("nvmlEventSetFree") as nvml:
                nvml.nvmlEventSetFree(events)

    def memory_repair(self, uuid: str) -> MemoryRepair:
        """How a card replaces faulty memory.

        Raises:
            NvmlError: The card does not answer.
        """
        handle = self.handle(uuid)

        def remapped() -> MemoryRepair:
            with self.calling("nvmlDeviceGetRemappedRows", uuid) as nvml:
                _, _, pending, failed = nvml.nvmlDeviceGetRemappedRows(handle)
                return MemoryRepair(bool(pending), bool(failed))

        def retired() -> MemoryRepair:
            with self.calling("nvmlDeviceGetRetiredPagesPendingStatus", uuid) as nvml:
                return MemoryRepair(bool(nvml.nvmlDeviceGetRetiredPagesPendingStatus(handle)))

        found = self._unless_unsupported(remapped) or self._unless_unsupported(retired)
        return found or MemoryRepair()


def text_of(value: str | bytes) -> str:
    """Text of NVML, which older bindings give as bytes."""
    return value.decode() if isinstance(value, bytes) else value
