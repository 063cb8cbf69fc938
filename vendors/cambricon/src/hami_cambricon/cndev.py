"""The only module that calls CNDev, Cambricon's management library. Its calls and errors are typed.

It declares only functions and structures of the public header ``device-plugin/pkg/cndev/include/cndev.h`` in
Cambricon/cambricon-k8s-device-plugin. Each method names the functions that it calls and, where the header leaves a
meaning open, the public source that tells it. The library is loaded on first use, so importing needs no driver.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
import threading
from ctypes import c_char, c_char_p, c_int32, c_int64, c_uint8, c_uint32, c_uint64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hami_core import DeviceError

if TYPE_CHECKING:
    from collections.abc import Callable

MIB: Final = 1 << 20
VERSION: Final = 6
"""CNDEV_VERSION_6, the version of the interface that Cambricon's device plugin asks for."""
ERROR_NOT_SUPPORTED: Final = 10
ERROR_INSUFFICIENT_SPACE: Final = 9
ERROR_NO_PERMISSION: Final = 13
FUNCTION_MISSING: Final = -2
"""Our code for a function that the library does not have."""
COMPUTE_PROHIBITED: Final = 2
DRIVER_RUNNING: Final = 4
_FIRST_BUFFER: Final = 128
_TEXT: Final = 100
_ID: Final = re.compile(r"[0-9A-Za-z-]{1,37}")


class CndevError(DeviceError):
    """One CNDev call failed.

    Args:
        call: The function, such as ``cndevGetUUID``.
        code: CNDev's return code; negative if the library or the function is missing or its answer is unusable.
        text: CNDev's message.
        card: The card that was asked; empty if none.
    """

    def __init__(self, call: str, code: int, text: str, card: str = "") -> None:
        hint = "; run the agent as root and with hostPID" if code == ERROR_NO_PERMISSION else ""
        super().__init__(f"{call}{' of ' + card if card else ''}: {text} (CNDev error {code}){hint}")
        self.code = code


@dataclass(frozen=True, slots=True)
class Modes:
    """What a card's modes allow.

    Attributes:
        smlu: sMLU mode is on; None: card or driver do not support it.
        mim: MIM mode is on.
        prohibited: The compute mode is PROHIBITED.
        problem: Why a mode can't be read; empty if all are known.
    """

    smlu: bool | None = None
    mim: bool = False
    prohibited: bool = False
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Card:
    """A card as CNDev describes it.

    Attributes:
        index: CNDev's index, which is also the number of ``/dev/cambricon_dev<index>``.
        uuid: UUID with the prefix ``MLU-``.
        model: CNDev's name, such as ``MLU370-X8``.
        memory_mib: Physical memory.
        numa: NUMA node; 0 if unknown.
        modes: Its modes.
    """

    index: int
    uuid: str
    model: str
    memory_mib: int
    numa: int
    modes: Modes


@dataclass(frozen=True, slots=True)
class Profile:
    """An sMLU profile: percent of the cores, and bytes of memory, of each instance that is made from it."""

    id: int
    quota: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Instance:
    """An sMLU instance.

    Attributes:
        name: The name that its maker gave; empty if it has none.
        profile: Id of the profile that it was made from.
        quota: Percent of the card's cores that it may use.
        memory_bytes: Memory that it may hold.
        used_percent: Percent of the card's cores in use.
        used_bytes: Memory in use.
        node: Its device node on the host, such as ``/dev/cambricon-caps/cap_dev0_mi1``.
    """

    name: str
    profile: int
    quota: int
    memory_bytes: int
    used_percent: int
    used_bytes: int
    node: str


# --- structures of the header ----------------------------------------------------------------------------------------


class CardInfo(ctypes.Structure):
    """``cndevCardInfo_t``."""

    _fields_ = (("version", c_int32), ("number", c_uint32))


class UuidInfo(ctypes.Structure):
    """``cndevUUID_t``. The header says that the text need not end with a zero."""

    _fields_ = (("version", c_int32), ("uuid", c_uint8 * 37), ("ncsUUID64", c_uint64))


class MemoryInfo(ctypes.Structure):
    """``cndevMemoryInfoV2_t``, in MB. The driver divides bytes by 2^20 (jklincn/cambricon-mlu-driver, ``smlu/``)."""

    _fields_ = (
        ("physicalMemoryTotal", c_int64),
        ("physicalMemoryUsed", c_int64),
        ("reservedMemory", c_int64),
        ("virtualMemoryTotal", c_int64),
        ("virtualMemoryUsed", c_int64),
        ("globalMemory", c_uint64),
        ("reserved", c_uint64 * 16),
    )


class UtilizationInfo(ctypes.Structure):
    """``cndevUtilizationInfo_t``."""

    _fields_ = (("version", c_int32), ("averageCoreUtilization", c_int32), ("coreUtilization", c_int32 * 80))


class HealthState(ctypes.Structure):
    """``cndevCardHealthState_t``."""

    _fields_ = (("version", c_int32), ("health", c_int32), ("deviceState", c_int32), ("driverState", c_int32))


class NumaNode(ctypes.Structure):
    """``cndevNUMANodeId_t``."""

    _fields_ = (("version", c_int32), ("nodeId", c_int32))


class Mode(ctypes.Structure):
    """``cndevSMLUMode_t``, ``cndevMimMode_t`` and ``cndevComputeMode_t``, which have the same layout."""

    _fields_ = (("version", c_int32), ("mode", c_int32))


class SmluSet(ctypes.Structure):
    """``cndevSMluSet_t``: percent, and bytes."""

    _fields_ = (("version", c_int32), ("mluQuota", c_uint32), ("memorySize", c_uint64))


class SmluInfo(ctypes.Structure):
    """``cndevSMluInfo_t``. The pairs are: what the instance may use, and what it uses."""

    _fields_ = (
        ("version", c_int32),
        ("profileId", c_int32),
        ("instanceId", c_int32),
        ("uuid", c_uint8 * 37),
        ("domain", c_int32),
        ("bus", c_int32),
        ("device", c_int32),
        ("function", c_int32),
        ("profileName", c_char * _TEXT),
        ("instanceName", c_char * _TEXT),
        ("devNodeName", c_char * _TEXT),
        ("mluQuota", c_uint32 * 2),
        ("memorySize", c_uint64 * 2),
        ("reserved", c_uint32 * 128),
    )


class SmluProfileIds(ctypes.Structure):
    """``cndevSMluProfileIdInfo_t``."""

    _fields_ = (("version", c_int32), ("count", c_int32), ("profileId", c_int32 * 128))


class SmluProfileInfo(ctypes.Structure):
    """``cndevSMluProfileInfo_t``."""

    _fields_ = (
        ("version", c_int32),
        ("profileId", c_int32),
        ("name", c_char * _TEXT),
        ("totalCapacity", c_uint32),
        ("remainCapacity", c_uint32),
        ("mluQuota", c_uint32 * 2),
        ("memorySize", c_uint64 * 2),
    )


# --- the library -----------------------------------------------------------------------------------------------------


class Cndev:
    """CNDev, initialised on first use.

    Its functions may be called from several threads: the header makes an exception only for waiting for events.

    Args:
        library: Path or name of libcndev.so.
    """

    def __init__(self, library: str = "libcndev.so") -> None:
        self._name = library
        self._lock = threading.Lock()
        self._library: ctypes.CDLL | None = None

    def close(self) -> None:
        """Call ``cndevRelease``. The next call opens the library again, for example after a driver reload."""
        with self._lock:
            library, self._library = self._library, None
            if library is not None:
                library.cndevRelease()

    def _open(self) -> ctypes.CDLL:
        """Load the library and call ``cndevInit`` with flag 0, as Cambricon's plugin does (``bindings.go``)."""
        with self._lock:
            if self._library is None:
                try:
                    library = ctypes.CDLL(self._name)
                    library.cndevGetErrorString.restype = c_char_p
                    library.cndevGetCardNameStringByDevId.restype = c_char_p
                    code = library.cndevInit(c_int32(0))
                except (OSError, AttributeError) as error:
                    hint = "is Cambricon's driver installed, is libcndev.so mounted? (HAMI_CAMBRICON_LIBRARY)"
                    raise CndevError("dlopen", -1, f"{error}; {hint}") from error
                if code:
                    raise CndevError("cndevInit", code, _message(library, code))
                self._library = library
            return self._library

    def _call(self, name: str, *arguments: Any, card: str = "") -> None:  # noqa: ANN401 - ctypes' values
        library = self._open()
        try:
            function: Callable[..., int] = getattr(library, name)
        except AttributeError:
            raise CndevError(name, FUNCTION_MISSING, f"{self._name} has no such function", card) from None
        code = function(*arguments)
        if code:
            raise CndevError(name, code, _message(library, code), card)

    def _ask(self, name: str, into: ctypes.Structure, *arguments: Any, card: str) -> None:  # noqa: ANN401 - as above
        if hasattr(into, "version"):
            into.version = VERSION
        self._call(name, ctypes.byref(into), *arguments, card=card)

    def _handle(self, index: int) -> c_int32:
        """``cndevGetDeviceHandleByIndex``."""
        handle = c_int32()
        self._call("cndevGetDeviceHandleByIndex", c_int32(index), ctypes.byref(handle), card=f"card {index}")
        return handle

    # --- cards -------------------------------------------------------------------------------------------------------

    def cards(self) -> tuple[list[Card], list[CndevError]]:
        """Every card that answers, and the errors of the other cards. Calls ``cndevGetDeviceCount``.

        Raises:
            CndevError: CNDev itself does not work.
        """
        count = CardInfo(version=VERSION)
        self._call("cndevGetDeviceCount", ctypes.byref(count))
        found: list[Card] = []
        errors: list[CndevError] = []
        for index in range(count.number):
            try:
                found.append(self._card(index))
            except CndevError as error:
                errors.append(error)
        return found, errors

    def _card(self, index: int) -> Card:
        """``cndevGetUUID``, ``cndevGetCardNameStringByDevId``, ``cndevGetMemoryUsageV2``."""
        uuid = self.uuid(index)
        handle = self._handle(index)
        memory = MemoryInfo()
        self._ask("cndevGetMemoryUsageV2", memory, handle, card=uuid)
        name: bytes | None = self._open().cndevGetCardNameStringByDevId(handle)
        model = (name or b"").decode("ascii", "replace").strip()
        if not model or memory.physicalMemoryTotal <= 0:
            problem = f"it says model {model!r} and {memory.physicalMemoryTotal} MiB"
            raise CndevError("cndevGetMemoryUsageV2", -1, problem, uuid)
        return Card(index, uuid, model, memory.physicalMemoryTotal, self._numa(handle, uuid), self.modes(index))

    def uuid(self, index: int) -> str:
        """A card's UUID with the prefix ``MLU-``, which Cambricon's plugin adds (``bindings.go``). ``cndevGetUUID``."""
        info = UuidInfo()
        self._ask("cndevGetUUID", info, self._handle(index), card=f"card {index}")
        text = bytes(info.uuid).split(b"\0")[0].decode("ascii", "replace")
        if not _ID.fullmatch(text):
            raise CndevError("cndevGetUUID", -1, f"its answer {text!r} is no UUID", f"card {index}")
        return f"MLU-{text}"

    def _numa(self, handle: c_int32, card: str) -> int:
        """``cndevGetNUMANodeIdByDevId``. Without an answer it is 0."""
        node = NumaNode()
        with contextlib.suppress(CndevError):
            self._ask("cndevGetNUMANodeIdByDevId", node, handle, card=card)
        return max(int(node.nodeId), 0)

    def modes(self, index: int) -> Modes:
        """``cndevGetSMLUMode``, ``cndevGetMimMode``, ``cndevGetComputeMode``. A mode that is not supported is off."""
        try:
            smlu = self._mode("cndevGetSMLUMode", index)
            mim = self._mode("cndevGetMimMode", index)
            compute = self._mode("cndevGetComputeMode", index)
        except CndevError as error:
            return Modes(problem=str(error))
        return Modes(None if smlu is None else smlu == 1, mim == 1, compute == COMPUTE_PROHIBITED)

    def _mode(self, name: str, index: int) -> int | None:
        mode = Mode()
        try:
            self._ask(name, mode, self._handle(index), card=f"card {index}")
        except CndevError as error:
            if error.code in {ERROR_NOT_SUPPORTED, FUNCTION_MISSING}:
                return None
            raise
        return int(mode.mode)

    def problem(self, index: int) -> str:
        """Why a card is not healthy; empty if it is. ``cndevGetCardHealthState``: health 1 is good, 0 is sick.

        Raises:
            CndevError: The card does not answer.
        """
        state = HealthState()
        self._ask("cndevGetCardHealthState", state, self._handle(index), card=f"card {index}")
        if state.health == 1:
            return ""
        driver = "" if state.driverState == DRIVER_RUNNING else f", driver state {state.driverState}"
        return f"CNDev says that the card is sick (device state {state.deviceState}{driver})"

    def used_mib(self, index: int) -> int:
        """Physical memory in use on a card. ``cndevGetMemoryUsageV2``."""
        memory = MemoryInfo()
        self._ask("cndevGetMemoryUsageV2", memory, self._handle(index), card=f"card {index}")
        return int(memory.physicalMemoryUsed)

    def used_percent(self, index: int) -> int:
        """Average utilization of a card's cores. ``cndevGetDeviceUtilizationInfo``."""
        info = UtilizationInfo()
        self._ask("cndevGetDeviceUtilizationInfo", info, self._handle(index), card=f"card {index}")
        return int(info.averageCoreUtilization)

    # --- sMLU --------------------------------------------------------------------------------------------------------

    def profiles(self, index: int) -> list[Profile]:
        """A card's sMLU profiles. ``cndevGetSMluProfileIdInfo``, ``cndevGetSMluProfileInfo``."""
        card, handle, ids = f"card {index}", self._handle(index), SmluProfileIds()
        self._ask("cndevGetSMluProfileIdInfo", ids, handle, card=card)
        found = []
        for number in ids.profileId[: ids.count]:
            info = SmluProfileInfo()
            self._ask("cndevGetSMluProfileInfo", info, c_int32(number), handle, card=card)
            found.append(Profile(number, info.mluQuota[0], info.memorySize[0]))
        return found

    def create_profile(self, index: int, quota: int, memory_bytes: int) -> int:
        """Make a profile of so many percent and bytes. Returns its id. ``cndevCreateSMluProfileInfo``."""
        wanted, made = SmluSet(VERSION, quota, memory_bytes), c_int32()
        handle = self._handle(index)
        self._call("cndevCreateSMluProfileInfo", ctypes.byref(wanted), ctypes.byref(made), handle, card=f"card {index}")
        return made.value

    def destroy_profile(self, index: int, profile: int) -> None:
        """``cndevDestroySMluProfileInfo``. The driver does not check whether the profile still has instances."""
        self._call("cndevDestroySMluProfileInfo", c_int32(profile), self._handle(index), card=f"card {index}")

    def instances(self, index: int) -> list[Instance]:
        """A card's sMLU instances. ``cndevGetAllSMluInstanceInfo``, again with a larger buffer if it was too small."""
        handle, size = self._handle(index), _FIRST_BUFFER
        while True:
            count, infos = c_int32(size), (SmluInfo * size)()
            for info in infos:
                info.version = VERSION
            try:
                self._call("cndevGetAllSMluInstanceInfo", ctypes.byref(count), infos, handle, card=f"card {index}")
            except CndevError as error:
                if error.code != ERROR_INSUFFICIENT_SPACE or count.value <= size:
                    raise
                size = count.value
                continue
            return [_instance(info) for info in infos[: count.value]]

    def create_instance(self, index: int, profile: int, name: str) -> int:
        """Make an instance with this name. Returns its handle. ``cndevCreateSMluInstanceByProfileId``."""
        made, text = c_int32(), ctypes.create_string_buffer(name.encode("ascii"))
        handle = self._handle(index)
        self._call(
            "cndevCreateSMluInstanceByProfileId",
            ctypes.byref(made),
            c_uint32(profile),
            handle,
            text,
            card=f"card {index}",
        )
        return made.value

    def destroy_instance(self, index: int, name: str) -> None:
        """``cndevDestroySMluInstanceByInstanceName``. It fails while a process uses the instance."""
        text = ctypes.create_string_buffer(name.encode("ascii"))
        self._call("cndevDestroySMluInstanceByInstanceName", self._handle(index), text, card=f"card {index}")

    def destroy_handle(self, handle: int) -> None:
        """``cndevDestroySMluInstanceByHandle``, with a handle that `create_instance` returned."""
        self._call("cndevDestroySMluInstanceByHandle", c_int32(handle))


def _instance(info: SmluInfo) -> Instance:
    return Instance(
        name=info.instanceName.decode("ascii", "replace"),
        profile=info.profileId,
        quota=info.mluQuota[0],
        memory_bytes=info.memorySize[0],
        used_percent=info.mluQuota[1],
        used_bytes=info.memorySize[1],
        node=info.devNodeName.decode("ascii", "replace"),
    )


def _message(library: ctypes.CDLL, code: int) -> str:
    """``cndevGetErrorString``."""
    text: bytes | None = library.cndevGetErrorString(c_int32(code))
    return (text or b"").decode("ascii", "replace")
