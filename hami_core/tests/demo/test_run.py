"""What a run of the demo says about pods, by what the cluster told of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hami_core.demo.run import Course

REFUSED = "no available node, 1 node has no device yet"
FAILED = {"phase": "Failed", "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 3}}}]}


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        (FAILED, "is Failed: main ended with 3"),
        ({"phase": "Pending"}, f"is Pending: {REFUSED}"),
    ],
    ids=["ended", "pending"],
)
def test_a_pod_is_told_by_how_it_ended_and_not_by_an_older_refusal(status, problem):
    pod: dict[str, Any] = {"kind": "Pod", "metadata": {"name": "job"}, "spec": {"containers": [{"name": "main"}]}}
    stage: Any = SimpleNamespace(loaded=SimpleNamespace(families={}, parse=lambda _spec, _facts: ()))
    course = Course(stage, [pod], 0.0)
    course.seen, course.events = {"job": {**pod, "status": status}}, [f"job: {REFUSED}"]
    (verdict,) = course.verdicts()
    assert verdict.problems == (problem,)
