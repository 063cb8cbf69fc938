"""A line of the waiting times crosses the whole axis, whatever the pods waited."""

from __future__ import annotations

import numpy as np
import pytest

from hami_core.simulate.plots import SHORTEST_S, steps


@pytest.mark.parametrize(
    ("waits", "times", "shares"),
    [
        ([], [1, 60], [0, 0]),
        ([0, 0, 0.5], [1, 60], [75, 75]),
        ([0, 7, 9], [1, 7, 9, 60], [25, 50, 75, 75]),
        ([7], [1, 7, 60], [0, 25, 25]),
    ],
    ids=["no pod was placed", "no pod waited", "some waited", "all waited"],
)
def test_line_of_waits_reaches_from_end_to_end(waits, times, shares):
    found = steps(np.array(waits, np.float64), pods=4, right=60)
    assert found[0].tolist() == times
    assert found[1].tolist() == shares


def test_line_of_many_waits_has_few_points():
    times, shares = steps(np.arange(100_000) / 10, pods=100_000, right=20_000)
    assert len(times) <= 502
    assert (times[0], times[-1], shares[-1]) == (SHORTEST_S, 20_000, 100)
    assert (np.diff(times) >= 0).all()
    assert (np.diff(shares) >= 0).all()
