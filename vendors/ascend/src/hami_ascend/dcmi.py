"""Huawei's driver library ``libdcmi.so``, called by ctypes. This is the only module that calls it.

Every function, structure and constant here has a public declaration. *The header* is
``component/ascend-common/devmanager/dcmi/dcmi_interface_api.h`` of https://gitcode.com/Ascend/mind-cluster (mirrored on
GitHub). *The binding* is ``dcmi.go`` and ``constants.go`` beside it, Huawei's own caller of the library. Each method
names what it is declared by.

The library does not say whether threads may call it at the same time, so calls take turns.
"""

from __future__ import annotations

import _ctypes
import contextlib
import ctypes
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hami_core import DeviceError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MIB: Final = 1 << 20
MAX_CARDS: Final = 64
"""``HiAIMaxCardNum`` in the binding's ``common/constants.go``."""
MAX_DEVICES_IN_CARD: Final = 4
"""``HiAIMaxDeviceNum`` there."""
AUTOMATIC: Final = 0xFFFFFFFF
"""As a vNPU's id or group: the driver chooses. Source: Huawei's page on ``dcmi_create_vdevice``."""

_VDIE: Final = 1
"""``enum dcmi_die_type`` of the header; the binding calls this die "the uuid of the chip"."""
_AICORE: Final = 2
"""Input of ``dcmi_get_device_utilization_rate``: ``AICore`` in the binding's ``common/constants.go``."""
_VDEV_MNG: Final = 52
"""``DCMI_MAIN_CMD_VDEV_MNG`` of the header."""
_VDEV_RESOURCE: Final = 0
"""``VmngSubCmdGetVDevResource`` in ``constants.go``."""
_TOTAL_RESOURCE: Final = 1
"""``VmngSubCmdGetTotalResource`` in ``constants.go``."""
_MAX_VNPUS: Final = 32
"""``DCMI_SOC_SPLIT_MAX`` of the header."""
_NO_LIBRARY: Final = -99999
_NO_FUNCTION: Final = -99998
_NONSENSE: Final = -99997
_MEANINGS: Final = {
    -8001: "a parameter is wrong",
    -8002: "no permission",
    -8005: "internal error",
    -8006: "no answer in time",
    -8007: "there is no such device id",
    -8008: "the device does not exist",
    -8012: "the device is not ready",
    -8020: "the device's resources are taken",
    -8255: "this device does not support it",
    _NO_LIBRARY: "the library can't be loaded",
    _NO_FUNCTION: "the driver is too old, its library has no such function",
    _NONSENSE: "the answer makes no sense",
}
"""Return codes. Source: the binding's table of errors; the three lowest are ours."""
OCCUPIED: Final = -8020
NOT_SUPPORTED: Final = -8255


class DcmiError(DeviceError):
    """One DCMI call failed.

    Args:
        call: The function, such as ``dcmi_get_device_health``.
        code: DCMI's return code, or one of ours below -99990.
        card: The card that was asked; empty if none.
        detail: What else is known.
    """

    def __init__(self, call: str, code: int, card: str = "", detail: str = "") -> None:
        meaning = _MEANINGS.get(code, "unknown error")
        where = f" of {card}" if card else ""
        super().__init__(f"{call}{where}: {meaning}{': ' + detail if detail else ''} (DCMI error {code})")
        self.call = call
        self.code = code
        self.card = card


# --- structures of the header -------------------------------------------------------------------------------------


class ChipInfo(ctypes.Structure):
    """``struct dcmi_chip_info_v2``. Its first four members are ``struct dcmi_chip_info``."""

    _fields_ = (
        ("chip_type", ctypes.c_char * 32),
        ("chip_name", ctypes.c_char * 32),
        ("chip_ver", ctypes.c_char * 32),
        ("aicore_cnt", ctypes.c_uint),
        ("npu_name", ctypes.c_char * 32),
    )


class DieId(ctypes.Structure):
    """``struct dcmi_die_id``."""

    _fields_ = (("soc_die", ctypes.c_uint * 5),)


class HbmInfo(ctypes.Structure):
    """``struct dcmi_hbm_info``; sizes are in MiB."""

    _fields_ = (
        ("memory_size", ctypes.c_ulonglong),
        ("freq", ctypes.c_uint),
        ("memory_usage", ctypes.c_ulonglong),
        ("temp", ctypes.c_int),
        ("bandwith_util_rate", ctypes.c_uint),
    )


class MemoryInfo(ctypes.Structure):
    """``struct dcmi_get_memory_info_stru``; sizes are in MiB."""

    _fields_ = (
        ("memory_size", ctypes.c_ulonglong),
        ("memory_available", ctypes.c_ulonglong),
        ("freq", ctypes.c_uint),
        ("hugepagesize", ctypes.c_ulong),
        ("hugepages_total", ctypes.c_ulong),
        ("hugepages_free", ctypes.c_ulong),
        ("utiliza", ctypes.c_uint),
        ("reserve", ctypes.c_ubyte * 60),
    )


class BaseResource(ctypes.Structure):
    """``struct dcmi_base_resource``."""

    _fields_ = (
        ("token", ctypes.c_ulonglong),
        ("token_max", ctypes.c_ulonglong),
        ("task_timeout", ctypes.c_ulonglong),
        ("vfg_id", ctypes.c_uint),
        ("vip_mode", ctypes.c_ubyte),
        ("reserved", ctypes.c_ubyte * 31),
    )


class ComputingResource(ctypes.Structure):
    """``struct dcmi_computing_resource``."""

    _fields_ = (
        ("aic", ctypes.c_float),
        ("aiv", ctypes.c_float),
        ("dsa", ctypes.c_ushort),
        ("rtsq", ctypes.c_ushort),
        ("acsq", ctypes.c_ushort),
        ("cdqm", ctypes.c_ushort),
        ("c_core", ctypes.c_ushort),
        ("ffts", ctypes.c_ushort),
        ("sdma", ctypes.c_ushort),
        ("pcie_dma", ctypes.c_ushort),
        ("memory_size", ctypes.c_ulonglong),
        ("event_id", ctypes.c_uint),
        ("notify_id", ctypes.c_uint),
        ("stream_id", ctypes.c_uint),
        ("model_id", ctypes.c_uint),
        ("topic_schedule_aicpu", ctypes.c_ushort),
        ("host_ctrl_cpu", ctypes.c_ushort),
        ("host_aicpu", ctypes.c_ushort),
        ("device_aicpu", ctypes.c_ushort),
        ("topic_ctrl_cpu_slot", ctypes.c_ushort),
        ("vdev_aicore_utilization", ctypes.c_uint),
        ("vdev_memory_total", ctypes.c_ulonglong),
        ("vdev_memory_free", ctypes.c_ulonglong),
        ("reserved", ctypes.c_ubyte * 12),
    )


class MediaResource(ctypes.Structure):
    """``struct dcmi_media_resource``."""

    _fields_ = (
        ("jpegd", ctypes.c_float),
        ("jpege", ctypes.c_float),
        ("vpc", ctypes.c_float),
        ("vdec", ctypes.c_float),
        ("pngd", ctypes.c_float),
        ("venc", ctypes.c_float),
        ("reserved", ctypes.c_ubyte * 32),
    )


class TotalResource(ctypes.Structure):
    """``struct dcmi_soc_total_resource``."""

    _fields_ = (
        ("vdev_num", ctypes.c_uint),
        ("vdev_id", ctypes.c_uint * _MAX_VNPUS),
        ("vfg_num", ctypes.c_uint),
        ("vfg_bitmap", ctypes.c_uint),
        ("base", BaseResource),
        ("computing", ComputingResource),
        ("media", MediaResource),
    )


class VdevQueryInfo(ctypes.Structure):
    """``struct dcmi_vdev_query_info``."""

    _fields_ = (
        ("name", ctypes.c_char * 16),
        ("status", ctypes.c_uint),
        ("is_container_used", ctypes.c_uint),
        ("vfid", ctypes.c_uint),
        ("vfg_id", ctypes.c_uint),
        ("container_id", ctypes.c_ulonglong),
        ("base", BaseResource),
        ("computing", ComputingResource),
        ("media", MediaResource),
    )


class VdevQuery(ctypes.Structure):
    """``struct dcmi_vdev_query_stru``."""

    _fields_ = (("vdev_id", ctypes.c_uint), ("query_info", VdevQueryInfo))


class CreateVdev(ctypes.Structure):
    """``struct dcmi_create_vdev_res_stru``."""

    _fields_ = (
        ("vdev_id", ctypes.c_uint),
        ("vfg_id", ctypes.c_uint),
        ("template_name", ctypes.c_char * 32),
        ("reserved", ctypes.c_ubyte * 64),
    )


class CreatedVdev(ctypes.Structure):
    """``struct dcmi_create_vdev_out``."""

    _fields_ = (
        ("vdev_id", ctypes.c_uint),
        ("pcie_bus", ctypes.c_uint),
        ("pcie_device", ctypes.c_uint),
        ("pcie_func", ctypes.c_uint),
        ("vfg_id", ctypes.c_uint),
        ("reserved", ctypes.c_ubyte * 32),
    )


STRUCTURES: Final[dict[str, type[ctypes.Structure]]] = {
    "dcmi_chip_info_v2": ChipInfo,
    "dcmi_die_id": DieId,
    "dcmi_hbm_info": HbmInfo,
    "dcmi_get_memory_info_stru": MemoryInfo,
    "dcmi_base_resource": BaseResource,
    "dcmi_computing_resource": ComputingResource,
    "dcmi_media_resource": MediaResource,
    "dcmi_soc_total_resource": TotalResource,
    "dcmi_vdev_query_info": VdevQueryInfo,
    "dcmi_vdev_query_stru": VdevQuery,
    "dcmi_create_vdev_res_stru": CreateVdev,
    "dcmi_create_vdev_out": CreatedVdev,
}
"""The header's name of each structure → ours."""


# --- what the library says ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Card:
    """One NPU chip.

    Attributes:
        card_id: DCMI's id of the board that carries it.
        device_id: Its number on that board.
        logic_id: Its number on the node.
        phy_id: Its physical id, the number in ``/dev/davinci<phy_id>``.
        die_id: Id of its VDIE, five words of eight hexadecimal digits: HAMi's UUID.
        chip_name: Chip name, such as ``910B3``.
    """

    card_id: int
    device_id: int
    logic_id: int
    phy_id: int
    die_id: str
    chip_name: str


@dataclass(frozen=True, slots=True)
class Vnpu:
    """One virtual NPU.

    Attributes:
        vdev_id: Its id, unique on the node.
        template: Name of the template that it was made from.
        in_container: Whether the driver counts it as used by a container.
    """

    vdev_id: int
    template: str
    in_container: bool


class Dcmi:
    """The library, loaded on first use.

    Args:
        candidates: Returns the names and paths to try each time the library is loaded, in order.
    """

    def __init__(self, candidates: Callable[[], Sequence[str]]) -> None:
        self._candidates = candidates
        self._lock = threading.RLock()
        self._library: ctypes.CDLL | None = None

    def close(self) -> None:
        """Unload the library, so that the next call loads it again. Used after the driver was replaced."""
        with self._lock:
            library, self._library = self._library, None
            if library is not None:
                _unload(library)

    def _open(self) -> ctypes.CDLL:
        if self._library is not None:
            return self._library
        problems = []
        for name in self._candidates():
            try:
                library = ctypes.CDLL(name)
                code = int(library.dcmi_init())
            except (OSError, AttributeError) as error:
                problems.append(str(error))
                continue
            if code:
                _unload(library)
                raise DcmiError("dcmi_init", code, detail=name)
            self._library = library
            return library
        raise DcmiError("dcmi_init", _NO_LIBRARY, detail="; ".join(problems))

    def _call(self, name: str, *args: Any, card: str = "") -> None:  # noqa: ANN401 - whatever ctypes converts
        """Call a function that returns 0 on success.

        Raises:
            DcmiError: The library or the function is missing, or the call failed.
        """
        with self._lock:
            library = self._open()
            try:
                function = getattr(library, name)
            except AttributeError:
                raise DcmiError(name, _NO_FUNCTION, card) from None
            code = int(function(*args))
        if code:
            raise DcmiError(name, code, card)

    # --- cards ----------------------------------------------------------------------------------------------------

    def cards(self) -> tuple[list[Card], list[DcmiError]]:
        """All NPUs of the node, and an error for each board or chip that does not answer.

        Raises:
            DcmiError: The library can't be loaded, or does not list the boards.
        """
        found: dict[str, Card] = {}
        errors: list[DcmiError] = []
        for card_id in self._card_ids():
            try:
                count = self._devices_in_card(card_id)
            except DcmiError as error:
                errors.append(error)
                continue
            for device_id in range(count):
                try:
                    card = self._card(card_id, device_id)
                except DcmiError as error:
                    errors.append(error)
                    continue
                if card.die_id in found:
                    detail = f"{_name(card_id, device_id)} has the die id of {_named(found[card.die_id])}"
                    errors.append(DcmiError("dcmi_get_device_die_v2", _NONSENSE, _name(card_id, device_id), detail))
                else:
                    found[card.die_id] = card
        return list(found.values()), errors

    def _card_ids(self) -> list[int]:
        """Declared in the header: ``dcmi_get_card_list(int *card_num, int *card_list, int list_len)``."""
        count, ids = ctypes.c_int(), (ctypes.c_int * MAX_CARDS)()
        self._call("dcmi_get_card_list", ctypes.byref(count), ids, MAX_CARDS)
        if not 0 <= count.value <= MAX_CARDS:
            raise DcmiError("dcmi_get_card_list", _NONSENSE, detail=f"{count.value} cards")
        return [card_id for card_id in ids[: count.value] if card_id >= 0]

    def _devices_in_card(self, card_id: int) -> int:
        """Declared in the header: ``dcmi_get_device_num_in_card(int card_id, int *device_num)``."""
        count = ctypes.c_int()
        self._call("dcmi_get_device_num_in_card", card_id, ctypes.byref(count), card=f"card {card_id}")
        if not 0 < count.value <= MAX_DEVICES_IN_CARD:
            raise DcmiError("dcmi_get_device_num_in_card", _NONSENSE, f"card {card_id}", f"{count.value} devices")
        return count.value

    def _card(self, card_id: int, device_id: int) -> Card:
        """Declared in the header: ``dcmi_get_device_logic_id`` and ``dcmi_get_device_phyid_from_logicid``."""
        card = _name(card_id, device_id)
        logic_id, phy_id = ctypes.c_int(), ctypes.c_uint()
        self._call("dcmi_get_device_logic_id", ctypes.byref(logic_id), card_id, device_id, card=card)
        if logic_id.value < 0:
            raise DcmiError("dcmi_get_device_logic_id", _NONSENSE, card, str(logic_id.value))
        call = "dcmi_get_device_phyid_from_logicid"
        self._call(call, ctypes.c_uint(logic_id.value), ctypes.byref(phy_id), card=card)
        die = self.die_id(card_id, device_id)
        return Card(card_id, device_id, logic_id.value, phy_id.value, die, self._chip_name(card_id, device_id))

    def die_id(self, card_id: int, device_id: int) -> str:
        """The chip's UUID, written as in the binding's ``DcGetDieID``.

        Declared in the header: ``dcmi_get_device_die_v2(int, int, enum dcmi_die_type, struct dcmi_die_id *)``.
        """
        die = DieId()
        self._call(
            "dcmi_get_device_die_v2", card_id, device_id, _VDIE, ctypes.byref(die), card=_name(card_id, device_id)
        )
        return "-".join(f"{word:08X}" for word in die.soc_die)

    def _chip_name(self, card_id: int, device_id: int) -> str:
        """Declared in the header: ``dcmi_get_device_chip_info_v2``, and ``dcmi_get_device_chip_info`` of older drivers.

        Raises:
            DcmiError: Both fail, or the chip is no Ascend.
        """
        chip, card = ChipInfo(), _name(card_id, device_id)
        try:
            self._call("dcmi_get_device_chip_info_v2", card_id, device_id, ctypes.byref(chip), card=card)
        except DcmiError:
            self._call("dcmi_get_device_chip_info", card_id, device_id, ctypes.byref(chip), card=card)
        kind, name = _text(chip.chip_type), _text(chip.chip_name)
        if kind != "Ascend" or not name:
            detail = f"type {kind!r}, name {name!r}"
            raise DcmiError("dcmi_get_device_chip_info_v2", _NONSENSE, card, detail)
        return name

    def health(self, card: Card) -> int:
        """Health code; 0 is healthy.

        Declared in the header: ``dcmi_get_device_health(int card_id, int device_id, unsigned int *health)``.
        """
        code = ctypes.c_uint()
        self._ask("dcmi_get_device_health", card, ctypes.byref(code))
        return code.value

    def _ask(self, name: str, card: Card, *args: Any) -> None:  # noqa: ANN401 - whatever ctypes converts
        self._call(name, card.card_id, card.device_id, *args, card=_named(card))

    # --- measurements ---------------------------------------------------------------------------------------------

    def memory_used_mib(self, card: Card) -> int:
        """Memory in use, in MiB: HBM where the chip has it, otherwise DDR.

        Declared in the header: ``dcmi_get_device_hbm_info`` and ``dcmi_get_device_memory_info_v3``. Units: Huawei's
        pages on both.
        """
        hbm = HbmInfo()
        try:
            self._ask("dcmi_get_device_hbm_info", card, ctypes.byref(hbm))
        except DcmiError as error:
            if error.code not in {NOT_SUPPORTED, _NO_FUNCTION}:
                raise
        if hbm.memory_size:
            return _within("dcmi_get_device_hbm_info", card, int(hbm.memory_usage), int(hbm.memory_size))
        ddr = MemoryInfo()
        call = "dcmi_get_device_memory_info_v3"
        self._ask(call, card, ctypes.byref(ddr))
        return int(ddr.memory_size) - _within(call, card, int(ddr.memory_available), int(ddr.memory_size))

    def utilization(self, card: Card) -> int:
        """Percent of time in which the AI cores worked, 0 to 100.

        Declared in the header: ``dcmi_get_device_utilization_rate(int, int, int input_type, unsigned int *)``.
        """
        rate = ctypes.c_uint()
        call = "dcmi_get_device_utilization_rate"
        self._ask(call, card, _AICORE, ctypes.byref(rate))
        return _within(call, card, rate.value, 100)

    def product_type(self, card: Card) -> str:
        """The product's name; empty on chips that do not say.

        Declared in the header: ``dcmi_get_product_type(int, int, char *product_type_str, int buf_size)``.
        """
        text = ctypes.create_string_buffer(65)
        try:
            self._ask("dcmi_get_product_type", card, text, len(text))
        except DcmiError as error:
            if error.code not in {NOT_SUPPORTED, _NO_FUNCTION}:
                raise
        return _text(text.value)

    # --- virtual NPUs ---------------------------------------------------------------------------------------------

    def vnpus(self, card: Card) -> list[Vnpu]:
        """The vNPUs of a chip.

        Declared in the header: ``dcmi_get_device_info(int, int, enum dcmi_main_cmd, unsigned int, void *, unsigned int
        *)``. Sub commands: ``constants.go``. Their buffers: ``DcGetDeviceTotalResource`` and
        ``DcGetDeviceVDevResource`` in ``dcmi.go``.
        """
        total = TotalResource()
        self._info(card, _TOTAL_RESOURCE, total)
        if total.vdev_num > _MAX_VNPUS:
            raise DcmiError("dcmi_get_device_info", _NONSENSE, _named(card), f"{total.vdev_num} vNPUs")
        found = []
        for vdev_id in total.vdev_id[: total.vdev_num]:
            query = VdevQuery(vdev_id=vdev_id)
            self._info(card, _VDEV_RESOURCE, query)
            info = query.query_info
            found.append(Vnpu(vdev_id, _text(info.name), bool(info.is_container_used)))
        return found

    def _info(self, card: Card, sub_command: int, buffer: ctypes.Structure) -> None:
        size = ctypes.c_uint(ctypes.sizeof(buffer))
        command = ctypes.c_uint(sub_command)
        self._ask("dcmi_get_device_info", card, _VDEV_MNG, command, ctypes.byref(buffer), ctypes.byref(size))

    def create(self, card: Card, template: str, vdev_id: int = AUTOMATIC) -> int:
        """Create a vNPU and return its id. The driver refuses an id that is taken.

        Declared in the header: ``dcmi_create_vdevice(int, int, struct dcmi_create_vdev_res_stru *, struct
        dcmi_create_vdev_out *)``.
        """
        wanted = CreateVdev(vdev_id=vdev_id, vfg_id=AUTOMATIC, template_name=template.encode())
        made = CreatedVdev()
        self._ask("dcmi_create_vdevice", card, ctypes.byref(wanted), ctypes.byref(made))
        return int(made.vdev_id)

    def destroy(self, card: Card, vdev_id: int) -> None:
        """Destroy a vNPU.

        Declared in the header: ``dcmi_set_destroy_vdevice(int card_id, int device_id, unsigned int vdevid)``.
        """
        self._ask("dcmi_set_destroy_vdevice", card, ctypes.c_uint(vdev_id))


def _unload(library: ctypes.CDLL) -> None:
    """Drop the library, since ctypes would return the same one for its path as long as it is loaded."""
    with contextlib.suppress(OSError):
        _ctypes.dlclose(library._handle)  # noqa: SLF001 - ctypes has no other way


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace").strip()


def _name(card_id: int, device_id: int) -> str:
    return f"card {card_id}, chip {device_id}"


def _named(card: Card) -> str:
    return _name(card.card_id, card.device_id)


def _within(call: str, card: Card, value: int, most: int) -> int:
    if not 0 <= value <= most:
        raise DcmiError(call, _NONSENSE, _named(card), f"{value} of {most}")
    return value
