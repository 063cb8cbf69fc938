"""``hami scheduler``: admission webhook and scheduler extender in one process."""

from __future__ import annotations

from hami_core.cli.daemon import Daemon

command = Daemon(
    "scheduler",
    settings="SchedulerSettings",
    usage="hami scheduler [FLAGS]",
    process="hami_core.scheduler.process",
    about="Run the admission webhook and scheduler extender.",
)
