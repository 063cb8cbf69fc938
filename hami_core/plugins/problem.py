"""Problems of plugins: recorded for `hami plugins`, logged at a limited rate, counted for metrics."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from hami_core.errors import HamiError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hami_core.plugins.discovery import Source

log = logging.getLogger("hami.plugins")


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding about a plugin.

    Attributes:
        severity: ``error``: the plugin, or one call, has no effect. ``warning``: the plugin works, but needs attention.
        plugin: Entry-point name; empty: the finding is about no single plugin.
        source: Distribution and version.
        hook: The hook concerned; empty at loading.
        text: One sentence for people.
        error: The exception behind the finding, if any.
    """

    severity: Literal["error", "warning"]
    plugin: str
    source: str
    hook: str
    text: str
    error: HamiError | None = None

    def __str__(self) -> str:
        who = f"{self.plugin} ({self.source})" if self.plugin else "plugins"
        at = f" in {self.hook}" if self.hook else ""
        return f"{self.severity}: {who}{at}: {self.text}"


class Reporter:
    """Collects problems of one `load` and of every call after it. Several threads may use it.

    Args:
        observer: Called with each problem the first time it occurs. An exception from it is logged and goes no further.
    """

    def __init__(self, observer: Callable[[Problem], None] | None = None) -> None:
        self._observer = observer
        self._lock = threading.Lock()
        self._problems: list[Problem] = []
        self._failures: Counter[tuple[str, str]] = Counter()
        self._kinds: Counter[tuple[str, str, str]] = Counter()
        self._blocks: Counter[tuple[str, str]] = Counter()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Problems found while loading, in order."""
        return tuple(self._problems)

    @property
    def failures(self) -> Mapping[tuple[str, str], int]:
        """Failed calls since loading by (plugin, hook), for the process's metrics."""
        return dict(self._failures)

    @property
    def blocks(self) -> Mapping[tuple[str, str], int]:
        """How often a hook blocked the process for a second, by (plugin, hook), for the process's metrics."""
        return dict(self._blocks)

    def blocked(self, plugin: str, hook: str) -> None:
        """Count that a hook blocks the process."""
        self._blocks[plugin, hook] += 1

    def found(self, problem: Problem) -> None:
        """Record a problem of loading."""
        self._problems.append(problem)
        log.log(logging.ERROR if problem.severity == "error" else logging.WARNING, "%s", problem)
        self._observe(problem)

    def warn(self, source: Source, text: str) -> None:
        """Record a warning of loading."""
        self.found(Problem("warning", source.name, source.label, "", text))

    def failed(self, problem: Problem, kind: str, cause: BaseException | None) -> None:
        """Count a failed call. Log the 1st, 10th, 100th… of one kind, so that a frequent call cannot fill the disk."""
        with self._lock:
            self._failures[problem.plugin, problem.hook] += 1
            self._kinds[problem.plugin, problem.hook, kind] += 1
            count = self._kinds[problem.plugin, problem.hook, kind]
        if str(count).strip("0") == "1":
            foreseen = isinstance(cause, HamiError)  # raised on purpose, so its text says everything
            log.error("%s (occurrence %d)", problem, count, exc_info=cause if count == 1 and not foreseen else None)
        if count == 1:
            self._observe(problem)

    def _observe(self, problem: Problem) -> None:
        if self._observer is None:
            return
        try:
            self._observer(problem)
        except Exception:
            log.exception("the observer of plugin problems failed")
