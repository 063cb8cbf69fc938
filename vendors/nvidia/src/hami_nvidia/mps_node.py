"""A node in operating mode ``mps``: whether its control daemon answers, and what a container gets to use it.

The agent neither starts nor ends the daemon (`hami_nvidia.mps` does, or the administrator). It offers cards only while
the daemon answers: without one, CUDA would run a container's programs outside MPS.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import structlog
from hami_interpose.limits import CorePolicy, Mode

from hami_core import DeviceError, Mount
from hami_core.vendorkit.node import VGPU_ROOT
from hami_nvidia.mps_control import IS_ALIVE, PIPE_DIRECTORY, MissingProgramError, MpsError, percentage_of
from hami_nvidia.nvml import MIB

if TYPE_CHECKING:
    from collections.abc import Callable

    from hami_interpose.limits import Limits

    from hami_core import ContainerEdits
    from hami_nvidia.mps_control import MpsControl, MpsFolders, Question

log = structlog.get_logger(__name__)

MODE: Final = "mps"
MOST_CLIENTS: Final = 48
"""Processes that one card's MPS server takes, from Volta on. NVIDIA's guide names 60 from CUDA 13 on."""
THREAD_PERCENTAGE: Final = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
MEMORY_LIMIT: Final = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
PIPE_IN_CONTAINER: Final = f"{VGPU_ROOT}/mps"
SHM_IN_CONTAINER: Final = "/dev/shm"  # noqa: S108 - CUDA's fixed path

_ANSWER_LIMIT_S: Final = 2.0
_FAILURES: Final = 2
"""Failed questions in a row after which the daemon counts as gone. One answer is enough for the opposite."""
_FIX: Final = "administrator: run it, with the chart by devicePlugin.mps.enabled, and see its log"


class MpsNode:
    """See the module's text.

    Args:
        folders: The daemon's folders.
        control: Returns how to ask the daemon, each time that it is asked: the driver may be installed late.
    """

    def __init__(self, folders: MpsFolders, control: Callable[[], MpsControl]) -> None:
        self._folders = folders
        self._control = control
        self._lock = threading.Lock()
        self._question: Question | None = None
        self._failures = 0
        self._problem: str | None = None

    @property
    def problem(self) -> str:
        """Why no card is offered; empty: the daemon answers. The first call waits up to 2 s for its answer."""
        if self._problem is None:
            with self._lock:
                if self._problem is None:
                    self._ask_first()
        return self._problem or ""

    def serves(self) -> bool:
        """Whether the daemon answered when it was last asked."""
        return self._problem == ""

    def _ask_first(self) -> None:
        try:
            self._control().check(_ANSWER_LIMIT_S)
        except MpsError as error:
            self._failures = _FAILURES
            self._learn(error)
        else:
            self._learn(None)

    def look(self) -> None:
        """Read the answer to the last question, and ask again. This never waits for the daemon."""
        if not self._lock.acquire(blocking=False):
            return  # another thread asks
        try:
            if self._question is not None:
                try:
                    answer = self._question.poll()
                    if answer is None:
                        return
                    percentage_of(answer)
                except MpsError as error:
                    self._learn(error)
                else:
                    self._learn(None)
                self._question = None
            self._question = self._control().question(IS_ALIVE, _ANSWER_LIMIT_S)
        except MissingProgramError as error:
            self._learn(error)
        finally:
            self._lock.release()

    def close(self) -> None:
        """End the question that is under way, if there is one."""
        with self._lock:
            if self._question is not None:
                self._question.close()
                self._question = None

    def _learn(self, error: MpsError | None) -> None:
        """Take the result of one question."""
        if error is None:
            if self._problem != "":
                log.info("the MPS control daemon answers")
            self._failures, self._problem = 0, ""
            return
        self._failures += 1
        if self._failures < _FAILURES:
            return
        problem = f"{error.reason} ({_FIX})"
        if problem != self._problem:
            log.warning("the MPS control daemon does not work", problem=str(error))
        self._problem = problem

    def add(self, edits: ContainerEdits, limits: Limits | None) -> ContainerEdits:
        """Add what a container needs to run under MPS.

        Args:
            edits: Its edits as in operating mode ``hami-core``.
            limits: Its limits in CUDA's order of cards; None: it has whole cards.

        Raises:
            DeviceError: The daemon does not answer. CUDA would run the container's programs without MPS.
        """
        if self.problem:
            raise DeviceError(self.problem)
        mounts = (
            Mount(str(self._folders.pipe), PIPE_IN_CONTAINER, read_only=False),
            Mount(str(self._folders.shm), SHM_IN_CONTAINER, read_only=False),
        )
        env = {PIPE_DIRECTORY: PIPE_IN_CONTAINER, **client_limits(limits)}
        return replace(edits, env={**edits.env, **env}, mounts=(*edits.mounts, *mounts))


def client_limits(limits: Limits | None) -> dict[str, str]:
    """The variables that limit a container's processes under MPS; empty if nothing is to be enforced.

    MPS has one percentage for all cards of a process, so it is the largest of the container's. The interposer limits
    each card by its own.
    """
    if limits is None or limits.mode is not Mode.ENFORCE:
        return {}
    memory = [f"{i}={max(d.physical_bytes // MIB, 1)}M" for i, d in enumerate(limits.devices) if d.physical_bytes]
    found = {MEMORY_LIMIT: ",".join(memory)} if memory else {}
    cores = [device.cores for device in limits.devices]
    if limits.core_policy is not CorePolicy.DISABLE and all(0 < percent < 100 for percent in cores):
        found[THREAD_PERCENTAGE] = str(max(cores))
    return found
