"""The driver's own memory limits of cgroups (NVML of driver 615 and later), kept as the slices say.

They are a second lock below the interposer: they also hold for a program that does not load it. A pod's cgroup gets the
limit, for three reasons. It exists before the pod's first process, and the driver's backend ``misc`` never counts what
a program took before. A container can't leave it, whatever cgroups it makes below. And the kubelet names it, so nothing
that a pod can change tells whose it is. Only hard limits are set: a soft limit would reserve memory in the cgroups
above, and that reservation stays when the pod's cgroup goes.

The driver's limit counts no managed memory (``cudaMallocManaged``), so the interposer's limit stays in force.
Sources: nvml.h of CUDA 13.4, NVIDIA's guide "MPS v3 memory partitioning", memacct.c of the open kernel modules 615.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import structlog

from hami_core import ContainerKind
from hami_nvidia.nvml import (
    ERROR_FUNCTION_NOT_FOUND,
    ERROR_NO_PERMISSION,
    ERROR_NOT_FOUND,
    ERROR_NOT_SUPPORTED,
    ERROR_UNKNOWN,
    NvmlError,
)
from hami_nvidia.pod_cgroups import pod_cgroups

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from hami_nvidia.nvml import Nvml

log = structlog.get_logger(__name__)

NO_LIMIT: Final = 2**64 - 1
"""NVML's value for no limit (``NVML_DEVICE_MEMORY_LIMIT_MAX``)."""
CHECK_INTERVAL_S: Final = 60.0
"""A limit that is set is compared with the driver's at this interval."""
_FIRST_DELAY_S: Final = 10.0
_LAST_DELAY_S: Final = 320.0
_UNABLE: Final = {
    ERROR_NOT_SUPPORTED: "the driver has no limits",
    ERROR_FUNCTION_NOT_FOUND: "the driver has no limits",
    ERROR_NO_PERMISSION: "the agent may not set them; it needs the capability SYS_ADMIN",
}
"""Answers of NVML that mean the card, and not one pod."""
_HINTS: Final = {ERROR_NOT_FOUND: "is the controller dmem enabled in the cgroup.subtree_control above?"}


@dataclass(frozen=True, slots=True)
class Share:
    """What one container may have of each card.

    Attributes:
        kind: When it runs.
        bytes_of: Bytes by card UUID; 0: without limit.
    """

    kind: ContainerKind
    bytes_of: Mapping[str, int]


def pod_bytes(shares: Iterable[Share]) -> dict[str, int]:
    """What the containers of a pod that run at the same time may have together, by card. Pure.

    Init containers run one by one before the others, sidecars beside both. On a card on which some container has no
    limit, the pod has none: `NO_LIMIT`.

    Example:
        >>> one, two = Share(ContainerKind.INIT, {"GPU-a": 3}), Share(ContainerKind.APP, {"GPU-a": 2})
        >>> pod_bytes([one, two, two])
        {'GPU-a': 4}
    """
    beside: Counter[str] = Counter()
    together: Counter[str] = Counter()
    alone: Counter[str] = Counter()
    free: set[str] = set()
    for share in shares:
        free |= {card for card, size in share.bytes_of.items() if not size}
        if share.kind is ContainerKind.INIT:
            alone |= Counter(share.bytes_of)
        elif share.kind is ContainerKind.SIDECAR:
            beside.update(share.bytes_of)
        else:
            together.update(share.bytes_of)
    return dict(beside + (alone | together)) | dict.fromkeys(free, NO_LIMIT)


@dataclass(slots=True)
class _Pod:
    """What the agent knows of one pod.

    Attributes:
        bytes_of: The wanted limit of each card, or `NO_LIMIT`.
        cgroup: Its cgroup; None: not found yet.
        identity: Device and inode of the cgroup.
        confirmed: Cards on which the driver says that it holds the wanted limit.
        due: When to compare again.
        delay_s: Pause before the next attempt after a failure.
    """

    bytes_of: dict[str, int] = field(default_factory=dict)
    cgroup: Path | None = None
    identity: tuple[int, int] = (0, 0)
    confirmed: set[str] = field(default_factory=set)
    due: float = float("-inf")
    delay_s: float = _FIRST_DELAY_S

    def begin_anew(self) -> None:
        """Nothing is known of what the driver holds."""
        self.confirmed.clear()
        self.due, self.delay_s = float("-inf"), _FIRST_DELAY_S


class MemoryLimits:
    """See the module's text.

    Args:
        nvml: The driver.
        cgroups: Where the host's cgroup v2 is mounted.
        clock: Monotonic seconds.
    """

    def __init__(self, nvml: Nvml, cgroups: Path, clock: Callable[[], float]) -> None:
        self.failures = 0
        """Number of failed attempts to set a limit, since the start."""
        self._nvml = nvml
        self._cgroups = cgroups
        self._clock = clock
        self._pods: dict[str, _Pod] = {}
        self._told: set[str] = set()
        self._unable: dict[str, float] = {}
        self._sees_pods = True

    def holds(self, pod_uid: str, card: str) -> bool:
        """Whether the driver limits a pod's memory on a card."""
        pod = self._pods.get(pod_uid)
        return pod is not None and card in pod.confirmed

    def update(self, shares: Iterable[tuple[str, Share]]) -> None:
        """Compare the driver's limits with these, and set those that differ. Never raises.

        Args:
            shares: Running containers, each with its pod's UID.
        """
        of_pod: dict[str, list[Share]] = defaultdict(list)
        for uid, share in shares:
            of_pod[uid].append(share)
        self._pods = {uid: self._pods.get(uid) or _Pod() for uid in of_pod}
        self._told &= of_pod.keys()
        for uid, pod in self._pods.items():
            if (wanted := pod_bytes(of_pod[uid])) != pod.bytes_of:
                pod.bytes_of = wanted
                pod.begin_anew()
        self._find()
        now = self._clock()
        for uid, pod in self._pods.items():
            sizes = {card: size for card, size in pod.bytes_of.items() if now >= self._unable.get(card, now)}
            if sizes and pod.cgroup is not None and now >= pod.due:
                self._compare(uid, pod, sizes, now)

    def _find(self) -> None:
        """Find the cgroups that are not known yet, or that were made anew."""
        for pod in self._pods.values():
            if pod.cgroup is not None and _identity(pod.cgroup) != pod.identity:
                pod.cgroup = None
                pod.begin_anew()
        missing = {uid: pod for uid, pod in self._pods.items() if pod.cgroup is None}
        if not missing:
            return
        present = pod_cgroups(self._cgroups)
        for uid, pod in missing.items():
            if uid in present:
                pod.cgroup, pod.identity = present[uid], _identity(present[uid])
        if self._sees_pods and not present:
            log.info("no pods' cgroups are in sight, so the driver limits no memory", folder=str(self._cgroups))
        self._sees_pods = bool(present)

    def _compare(self, uid: str, pod: _Pod, sizes: Mapping[str, int], now: float) -> None:
        pod.due = now + CHECK_INTERVAL_S
        problem = None
        for card, size in sizes.items():
            try:
                self._ensure(pod, card, size)
                self._unable.pop(card, None)
            except NvmlError as error:
                pod.confirmed.discard(card)
                if error.code in _UNABLE:
                    self._has_none(card, error, now)
                else:
                    problem = error
        if problem is None:
            pod.delay_s = _FIRST_DELAY_S
            self._told.discard(uid)
        elif pod.cgroup is not None and _identity(pod.cgroup) == pod.identity:
            self._failed(uid, pod, problem, now)

    def _has_none(self, card: str, error: NvmlError, now: float) -> None:
        """No limit can be set on this card. It is asked again, since the driver or the agent's rights may change."""
        self.failures += error.code == ERROR_NO_PERMISSION
        if card not in self._unable:
            report = log.warning if error.code == ERROR_NO_PERMISSION else log.info
            reason = _UNABLE[error.code]
            report("the driver limits no memory on a card", card=card, reason=reason, error=str(error))
        self._unable[card] = now + _LAST_DELAY_S

    def _failed(self, uid: str, pod: _Pod, error: NvmlError, now: float) -> None:
        pod.due, pod.delay_s = now + pod.delay_s, min(2 * pod.delay_s, _LAST_DELAY_S)
        self.failures += 1
        if uid not in self._told:
            hint = _HINTS.get(error.code, "")
            log.warning("the driver does not limit a pod's memory", pod=uid, error=str(error), hint=hint)
        self._told.add(uid)

    def _ensure(self, pod: _Pod, card: str, size: int) -> None:
        """Set a card's limit unless the driver has it, and confirm it; for `NO_LIMIT`, lift an earlier limit.

        Raises:
            NvmlError: The driver refuses.
        """
        path = os.fsencode(str(pod.cgroup))
        found = self._hard_limit(card, path)
        if found is None and size == NO_LIMIT:
            return
        if found != size:
            pod.confirmed.discard(card)
            handle = self._nvml.handle(card)
            with self._nvml.calling("nvmlDeviceSetMemoryLimits_v1", card) as nvml:
                nvml.nvmlDeviceSetMemoryLimits_v1(handle, nvml.c_nvmlSetMemoryLimits_v1_t(path, 0, size))
            if self._hard_limit(card, path) != size:
                raise NvmlError("nvmlDeviceSetMemoryLimits_v1", ERROR_UNKNOWN, "the driver keeps another limit", card)
        if size != NO_LIMIT:
            pod.confirmed.add(card)

    def _hard_limit(self, card: str, path: bytes) -> int | None:
        """The limit in force in bytes; None: the driver has none for this cgroup, or no limits at all.

        Driver 615 answers "not supported" for a cgroup without a limit. So only setting one tells which it is.
        """
        handle = self._nvml.handle(card)
        try:
            with self._nvml.calling("nvmlDeviceGetMemoryLimits_v1", card) as nvml:
                found = nvml.c_nvmlGetMemoryLimits_v1_t(path, 0, 0, 0)
                nvml.nvmlDeviceGetMemoryLimits_v1(handle, found)
                return int(found.hardLimit)
        except NvmlError as error:
            if error.code in {ERROR_NOT_SUPPORTED, ERROR_NOT_FOUND}:
                return None
            raise


def _identity(folder: Path) -> tuple[int, int]:
    try:
        status = folder.stat()
    except OSError:
        return 0, 0
    return status.st_dev, status.st_ino
