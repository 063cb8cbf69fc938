"""What a vendor's node side needs: what it writes to the node, paths of a container's limits, waiting for room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from hami_core.errors import DeviceError
from hami_core.wire.env import LIMITS_DIR, PRELOAD_PATH, REGION_DIR, VGPU_ROOT
from hami_core.wire.node import encode_devices_json, encode_pair_scores, format_reported

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "LIMITS_DIR",
    "PRELOAD_PATH",
    "REGION_DIR",
    "VGPU_ROOT",
    "encode_devices_json",
    "encode_pair_scores",
    "format_reported",
    "wait_for_room",
]

_ROOM_WAIT_S: Final = 5.0
"""How long `allocate`, which may take 10 s, waits for room on a full device."""
_ROOM_POLL_S: Final = 0.05
_T = TypeVar("_T")


def wait_for_room(
    make: Callable[[], _T],
    is_full: Callable[[DeviceError], bool],
    clock: Callable[[], float],
    sleep: Callable[[float], object],
) -> _T:
    """Call ``make`` again while the device is full, for 5 s at most: a container that has just ended is released soon.

    The kubelet tells of the end of a pod when it admits the next one. So `allocate` and `release` come at one time.

    Args:
        make: Makes or finds what a container gets of a device.
        is_full: Whether an error of ``make`` says that the device has no room.
        clock: Returns monotonic seconds, such as ``time.monotonic``.
        sleep: Waits so many seconds, such as ``time.sleep``.

    Raises:
        DeviceError: The device is still full, or ``make`` failed otherwise.

    Example:
        >>> import time
        >>> wait_for_room(lambda: "instance 1", lambda error: True, time.monotonic, time.sleep)
        'instance 1'
    """
    deadline = clock() + _ROOM_WAIT_S
    while True:
        try:
            return make()
        except DeviceError as error:
            if not is_full(error) or clock() >= deadline:
                raise
        sleep(_ROOM_POLL_S)
