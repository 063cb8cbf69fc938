"""What a vendor gives `hami demo`, so that it runs without any option and its pods' programs are believed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hami_core.testing.stage import Stage


class Demo(Protocol):
    """A vendor's part of `hami demo`: a class behind an entry point of group ``hami.demo`` with the vendor's name.

    ``manifests`` is the folder of the pods that are submitted when the user gives none.

    ``programs`` says what commands of programs begin with that print one JSON line: ``program``, ``pid``, and for each
    of its ``devices`` ``uuid``, ``total_bytes``, and, where it allocates, ``allocated_bytes`` and ``refusal``.

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
        """The stage.

        Args:
            work: Folder for state and logs.
            real: Use the machine's own devices in place of simulated ones.
            env: Environment of the node agents, as the user gave it.
        """
        ...
