"""The class by which a vendor gives `hami demo` its own pods, programs and stage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hami_core.testing.stage import Stage


class Demo(Protocol):
    """A vendor's part of `hami demo`: the class of an entry point in group ``hami.demo`` with the vendor's name.

    ``manifests`` is the folder of the pods that the demo submits if the user gives none.

    ``programs`` holds prefixes of commands. Their programs must print a report: one JSON line with ``program``, ``pid``
    and ``devices``. Each device has ``uuid`` and ``total_bytes``. A program that allocates memory adds
    ``allocated_bytes`` and ``refusal``. Any other program may print one.

    Example:
        >>> from pathlib import Path
        >>> class AcmeDemo:
        ...     manifests = Path("/opt/acme/pods")
        ...     programs = ("acme-fill",)
        ...
        ...     def stage(self, work, *, real, env):
        ...         return Stage(work, [StageNode("npu-1", env=env)], ["acme"])
        >>> AcmeDemo().programs
        ('acme-fill',)
    """

    manifests: Path
    programs: tuple[str, ...]

    def stage(self, work: Path, *, real: bool, env: Mapping[str, str]) -> Stage:
        """Make the stage.

        Args:
            work: Folder for state and logs.
            real: Whether to use the machine's own devices instead of simulated ones.
            env: Environment of the node agents, as the user gave it.

        Raises:
            ConfigError: This machine lacks something that the demo needs; says how to install it.
        """
        ...
