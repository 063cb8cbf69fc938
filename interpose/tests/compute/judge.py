"""What is promised of a share, and whether a result keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .cells import LAUNCH_MS

if TYPE_CHECKING:
    from .cells import Result

LONG, SHORT = 2.0, 8.0  # points, over any 10 s and any 1 s
LONGEST_JITTER = 1.2
BURST_MS = 60
TURN_MS, RESUME_MS = 10, 1


def faults(result: Result, *, at_most: bool = False, of: float = 100) -> list[str]:
    """What is wrong with it; empty if it keeps the promise.

    `at_most`: only being above the limit is wrong. `of`: the device has no more than so many percent to give, and
    somebody has a claim to each of them.
    """
    limit = result.tenant.limit
    due = limit * of / 100
    launch = LAUNCH_MS.get(result.tenant.shape, 0.3) * LONGEST_JITTER
    short = max(SHORT, result.tenant.processes * launch / 10)  # one launch each, in points of 1 s
    found = []
    for seconds, points in ((10, LONG), (1, short)):
        for share in result.windows(seconds):
            if share > limit + points or (share < due - points and not at_most):
                found.append(f"{share:.1f} % in a window of {seconds} s")
                break
    beginning = result.share(0, 3)
    allowed = limit + LONG + 100 * (BURST_MS + result.tenant.processes * launch) / 3000
    if beginning > allowed:
        found.append(f"{beginning:.1f} % in the first 3 s")
    return found


def longest_wait_ms(result: Result, others: list[Result]) -> float:
    """How long a launch may have to wait: debts of its own container's runners, the others' turns, and 50 ms.

    A runner has up to two launches under way. Of the others each has a turn before ours comes again, at least; but
    ours is 10 ms long, and in a container of 10 % that is all it may have of the 100 ms up to the next.
    """

    def launch(one: Result) -> float:
        return max(LAUNCH_MS.get(one.tenant.shape, 0.3) * LONGEST_JITTER, 0.2)

    runners = result.tenant.processes * (4 if "streams=4" in " ".join(result.tenant.work) else 1)
    rest = 100 / result.tenant.limit - 1
    own = 2 * runners * launch(result) * rest + RESUME_MS * (rest + 1)
    turns = sum(max(TURN_MS + launch(other), 2 * launch(other)) for other in others)
    return own + (max(turns, TURN_MS * rest) if others else 0) + 50
