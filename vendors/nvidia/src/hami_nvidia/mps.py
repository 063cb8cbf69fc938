"""Runs the MPS control daemon of a node: ``python -m hami_nvidia.mps``, in a pod of its own.

The daemon outlives the agent, because CUDA programs that run under MPS end with their daemon. This program starts
NVIDIA's ``nvidia-cuda-mps-control -f`` below the driver's root, waits until it answers, asks it at intervals, and
starts it again with growing pauses when it has ended. It never ends a daemon that has answered before, unless it is
told to stop: such a daemon may have clients. On SIGTERM it sends ``quit`` with a time limit.

``python -m hami_nvidia.mps check`` asks once, for probes: it ends with 0 if the daemon answers.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog
from pydantic import Field
from pydantic_settings import SettingsConfigDict

from hami_core import HamiError
from hami_core.vendorkit.node import EnvironmentSettings
from hami_nvidia import modes
from hami_nvidia.driver import DriverRoot, nvml_below
from hami_nvidia.mps_control import PROGRAM, MissingProgramError, MpsControl, MpsError, MpsFolders, end_session
from hami_nvidia.nvml import Nvml
from hami_nvidia.settings import AbsolutePath  # noqa: TC001 - pydantic needs it at run time

if TYPE_CHECKING:
    from collections.abc import Callable

log = structlog.get_logger("hami_nvidia.mps")

_LONGEST_SOCKET_PATH: Final = 107
"""Bytes of a UNIX socket's path on Linux, without its end."""
_LONGEST_PAUSE_S: Final = 60.0
_STEADY_S: Final = 60.0
"""A daemon that ran for so long counts as steady, so the next pause is the first one again."""
_POLL_S: Final = 0.1


class MpsSettings(EnvironmentSettings):
    """Settings of the supervisor. Every field is the environment variable ``HAMI_MPS_<NAME>``.

    The daemon inherits the environment. So ``CUDA_MPS_ACTIVE_THREAD_PERCENTAGE`` and
    ``CUDA_MPS_PINNED_DEVICE_MEM_LIMIT`` set its defaults, which no client can raise.
    """

    model_config = SettingsConfigDict(env_prefix="HAMI_MPS_")

    dir: Path = Path("/run/hami/mps")
    """Folder of sockets, logs and shared memory. It has this path on the host, too."""
    driver_root: Path = Path("/")
    """The driver's root, where this process sees it. The daemon runs with it as its own root."""
    control: AbsolutePath = Path("/usr/bin") / PROGRAM
    """The program, below the driver's root."""
    exclusive: bool = False
    """Set each card's compute mode to EXCLUSIVE_PROCESS, so that no process can use a card beside MPS."""
    multiuser: bool = False
    """Serve clients of several users at a time (``--multiuser-server``), which older drivers can't."""
    nvml_library: str = ""
    """libnvidia-ml.so.1 to load; empty: found below driver_root."""
    start_limit_s: float = Field(default=30.0, gt=0)
    """A new daemon that has not answered by then is started again."""
    check_interval_s: float = Field(default=10.0, gt=0)
    answer_limit_s: float = Field(default=5.0, gt=0)
    quit_limit_s: int = Field(default=15, ge=1)
    """Seconds that clients get to end after SIGTERM."""
    first_pause_s: float = Field(default=1.0, gt=0)
    """Pause before the daemon is started again; it doubles up to a minute."""


class Supervisor:
    """See the module's text.

    Args:
        settings: The settings.
        control: How to start and ask the daemon.
        clock: Monotonic seconds.
    """

    def __init__(self, settings: MpsSettings, control: MpsControl, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._control = control
        self._clock = clock
        self._stopped = False
        self._answers = True

    def stop(self) -> None:
        """End the daemon, then `run`. A signal handler may call this: it takes no lock."""
        self._stopped = True

    def run(self) -> None:
        """Keep the daemon running until `stop`.

        Raises:
            MpsError: The folders can't be made, or the program is missing.
            HamiError: A card's compute mode can't be set.
        """
        self._make_folders()
        if self._settings.exclusive:
            set_exclusive(Nvml(self._nvml_library))
        options = ("-f", "--multiuser-server") if self._settings.multiuser else ("-f",)
        pause = self._settings.first_pause_s
        while not self._stopped:
            began = self._clock()
            daemon = self._control.start(*options, stdin=subprocess.DEVNULL)
            log.info("MPS control daemon started", pid=daemon.pid)
            try:
                if self._comes_up(daemon):
                    self._watch(daemon)
            finally:
                self._end(daemon)
            if self._stopped:
                break
            if self._clock() - began >= _STEADY_S:
                pause = self._settings.first_pause_s
            log.error("MPS control daemon has ended; starting it again", status=daemon.returncode, retry_s=pause)
            self._waits(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _waits(self, seconds: float) -> bool:
        """Wait. Returns early with False once `stop` was called."""
        due = self._clock() + seconds
        while not self._stopped and (left := due - self._clock()) > 0:
            time.sleep(min(left, _POLL_S))
        return not self._stopped

    def _nvml_library(self) -> str:
        root = self._settings.driver_root
        return self._settings.nvml_library or nvml_below(DriverRoot(root, root))

    def _make_folders(self) -> None:
        folders = self._control.folders
        socket = str(folders.pipe / "control")
        if len(socket.encode()) > _LONGEST_SOCKET_PATH:
            raise MpsError(f"HAMI_MPS_DIR: {socket} is too long for a socket", f"{_LONGEST_SOCKET_PATH} bytes at most")
        try:
            for folder, mode in ((folders.pipe, 0o755), (folders.log, 0o755), (folders.shm, 0o1777)):
                folder.mkdir(parents=True, exist_ok=True)
                folder.chmod(mode)
        except OSError as error:
            raise MpsError(f"HAMI_MPS_DIR: can't make the folders below {folders.base}", str(error)) from error

    def _comes_up(self, daemon: subprocess.Popen[bytes]) -> bool:
        """Whether the daemon answers within its time."""
        due = self._clock() + self._settings.start_limit_s
        problem = ""
        while daemon.poll() is None and not self._stopped:
            try:
                percentage = self._control.check(self._settings.answer_limit_s)
            except MpsError as error:
                problem = str(error)
            else:
                log.info("MPS control daemon answers", default_active_thread_percentage=percentage)
                self._answers = True
                return True
            if self._clock() >= due:
                log.error("MPS control daemon does not come up; starting it again", problem=problem)
                end_session(daemon)
                break
            time.sleep(_POLL_S)
        return False

    def _watch(self, daemon: subprocess.Popen[bytes]) -> None:
        """Ask at intervals until the daemon ends or `stop` is called. Logs each change."""
        asked = self._clock()
        while daemon.poll() is None and self._waits(_POLL_S):
            if self._clock() - asked < self._settings.check_interval_s:
                continue
            problem = ""
            try:
                self._control.check(self._settings.answer_limit_s)
            except MpsError as error:
                problem = str(error)
            asked = self._clock()
            if problem and self._answers and daemon.poll() is None:
                log.error(
                    "MPS control daemon no longer answers; its clients go on, no new pod gets its cards; if it stays "
                    "so, delete this pod",
                    problem=problem,
                )
            elif not problem and not self._answers:
                log.info("MPS control daemon answers again")
            self._answers = not problem

    def _end(self, daemon: subprocess.Popen[bytes]) -> None:
        """End the daemon and reap it. On `stop`, its clients get their time first."""
        limit_s = self._settings.quit_limit_s
        if daemon.poll() is None and self._stopped:
            log.info("ending the MPS control daemon", clients_get_s=limit_s)
            due = self._clock() + limit_s + self._settings.answer_limit_s
            with contextlib.suppress(MpsError):
                self._control.ask(f"quit -t {limit_s}", limit_s + self._settings.answer_limit_s)
            with contextlib.suppress(subprocess.TimeoutExpired):
                daemon.wait(max(due - self._clock(), 0.0))
        if daemon.poll() is None:
            log.warning("MPS control daemon is killed", pid=daemon.pid)
            end_session(daemon)
        daemon.wait()
        log.info("MPS control daemon has ended", status=daemon.returncode)


def set_exclusive(nvml: Nvml) -> None:
    """Set compute mode EXCLUSIVE_PROCESS on every card in compute mode DEFAULT that is not in MIG mode.

    Raises:
        NvmlError: NVML does not work, or a card refuses.
    """
    try:
        cards, errors = nvml.cards()
        for error in errors:
            log.warning("a card does not answer, so its compute mode is not set", error=str(error))
        for card in cards:
            if not card.modes.mig and card.modes.compute == modes.DEFAULT:
                nvml.set_compute_mode(card.uuid, modes.EXCLUSIVE_PROCESS)
                log.info("compute mode is EXCLUSIVE_PROCESS", card=card.uuid)
    finally:
        nvml.close()


def main() -> int:
    """Run the supervisor, or ``check``. Returns the exit status."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    try:
        settings = MpsSettings.from_environment()
        root = settings.driver_root
        program = settings.control
        if root != Path("/"):
            program = Path("/") / DriverRoot(root, root).follow(program.relative_to("/"))
        control = MpsControl(program, MpsFolders(settings.dir), root)
        if sys.argv[1:] == ["check"]:
            control.check(settings.answer_limit_s)
            return 0
        if sys.argv[1:]:
            print("usage: python -m hami_nvidia.mps [check]", file=sys.stderr)
            return 2
        supervisor = Supervisor(settings, control)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: supervisor.stop())
        supervisor.run()
    except MissingProgramError as error:
        fix = "install NVIDIA's driver with its compute utilities, or set HAMI_MPS_DRIVER_ROOT or HAMI_MPS_CONTROL"
        log.error("the MPS control daemon can't be started", error=str(error), fix=fix)  # noqa: TRY400 - the error says all
        return 1
    except HamiError as error:
        log.error("the MPS control daemon can't be run", error=str(error))  # noqa: TRY400 - the error says all
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
