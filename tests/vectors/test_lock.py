"""The node lock's format and decisions against the vectors."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from hami_core.errors import WireError
from hami_core.vendorkit import (
    NODE_LOCK_TIMEOUT,
    LockVerdict,
    contention_text,
    format_time_lock,
    judge_lock,
    may_release,
    parse_lock,
)
from hami_core.wire import env, keys

from .cases import Case, cases, head, value

pytestmark = pytest.mark.vectors

NOW = datetime(2026, 7, 3, 12, 0, 0, tzinfo=UTC)
AGES = {"fresh": timedelta(seconds=1), "expired": timedelta(minutes=6)}
TIMEOUTS = {None: NODE_LOCK_TIMEOUT, "2m": timedelta(minutes=2)}
UNKNOWN_NODE = {"node": "missing"}


def stamped(text: str | None) -> str | None:
    """The lock value that a word of the vectors means."""
    if text is None:
        return None
    word, separator, owner = text.partition(",")
    if word == "fresh legacy timestamp":
        return format_time_lock(NOW - AGES["fresh"])
    return format_time_lock(NOW - AGES[word]) + separator + owner if word in AGES else text


def test_lock_annotation_is_hamis() -> None:
    assert head("node_lock")["annotation"] == keys.NODE_LOCK


@pytest.mark.parametrize("case", cases("node_lock.parse"))
def test_lock_is_read_as_in_hami(case: Case) -> None:
    lock = case.ask(lambda: parse_lock(case["in"]))
    found = {"legacy": lock.legacy, "ns": lock.namespace, "pod": lock.pod}
    assert {key: case[key] for key in found if key in case}.items() <= found.items()


@pytest.mark.parametrize("case", cases("node_lock.lock", where=lambda case: "node" not in case))
def test_lock_is_taken_as_in_hami(case: Case) -> None:
    namespace, pod = case.get("requester", "ns/pod").split("/")
    assert case.get("timeout") in TIMEOUTS, case.unknown("timeout")
    current = stamped(case.get("current"))

    def judge() -> LockVerdict:
        return judge_lock(
            current, namespace=namespace, pod=pod, now=NOW, holder_exists=case.get("holder_exists", True),
            timeout=TIMEOUTS[case.get("timeout")],
        )  # fmt: skip

    contended = False
    try:
        contended = judge() is LockVerdict.CONTENDED
        words = [contention_text("n1", TIMEOUTS[case.get("timeout")]), "node lock contention"] if contended else []
    except WireError as error:
        words = [error.problem, str(error)]
    assert case.get("contention", contended) is contended
    assert case.get("ok", not words) is not bool(words)
    case.verdict("", not words, *words)


@pytest.mark.parametrize("case", cases("node_lock.release", where=lambda case: "node" not in case))
def test_lock_is_released_as_in_hami(case: Case) -> None:
    namespace, pod = case.get("requester", "ns/pod").split("/")
    assert case.get("ok", True) is True
    current = stamped(case.get("current"))
    case.verdict("", True)
    assert may_release(current, namespace=namespace, pod=pod) is case.get("removed", False)


def test_lock_value_matches_the_documented_format() -> None:
    told = value("vendors/codec.nodeLock")
    assert told["annotation"] == keys.NODE_LOCK
    assert told["env"] == env.NODE_LOCK_EXPIRE
    assert timedelta(seconds=told["expireSeconds"]) == NODE_LOCK_TIMEOUT
