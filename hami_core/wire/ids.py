"""Ids made of other ids: slots for the kubelet, and MIG devices in the older forms of HAMi and of the driver."""

from __future__ import annotations

import re
from typing import Final

from hami_core.errors import WireError

MAX_SLOTS: Final = 1024
"""Limit of the slots of one device."""

_UUID_SLOT = re.compile(r"([^-]+(?:-[^-]+){5})-[0-9]+", re.ASCII)
_LEGACY_MIG = re.compile(r"([^\[\]]+)\[([0-9]{1,4})-([0-9]{1,4})\]", re.ASCII)
_MIG_DEVICE = re.compile(r"MIG-(GPU-[0-9A-Za-z-]+)/([0-9]{1,4})/([0-9]{1,4})", re.ASCII)


def slot_id(device_id: str, ordinal: int) -> str:
    """Return the id of a device's slot in the form of HAMi's node plugins: ``<device>-<k>``."""
    return f"{device_id}-{ordinal}"


def device_of_slot(text: str) -> str:
    """Return the device of a slot id, by HAMi's rule.

    ``<device>::<replica>`` (NVIDIA's own plugin) and ``<prefix>-<8-4-4-4-12>-<k>`` lose their end. Any other text is
    the device's id itself.
    """
    device, separator, _ = text.partition("::")
    if separator:
        return device
    match = _UUID_SLOT.fullmatch(text)
    return match[1] if match else text


def parse_legacy_mig(text: str, *, key: str = "device id") -> tuple[str, int, int]:
    """Read ``<device>[<template>-<slot>]``, HAMi's form for MIG instances before v2.10.

    Raises:
        WireError: The text has another form.
    """
    match = _LEGACY_MIG.fullmatch(text)
    if match is None:
        raise WireError(key, 0, f"{text[:128]!r} does not have the form <device>[<template>-<slot>]")
    return match[1], int(match[2]), int(match[3])


def parse_mig_device(text: str, *, key: str = "device id") -> tuple[str, int, int]:
    """Read ``MIG-<card>/<GPU instance>/<compute instance>``, the form of MIG devices in drivers before R470.

    Raises:
        WireError: The text has another form.
    """
    match = _MIG_DEVICE.fullmatch(text)
    if match is None:
        raise WireError(key, 0, f"{text[:128]!r} does not have the form MIG-GPU-<uuid>/<gi>/<ci>")
    return match[1], int(match[2]), int(match[3])
