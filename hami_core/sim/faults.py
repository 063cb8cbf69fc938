"""Faults on demand: rules that match requests by verb, resource and caller, each a limited number of times.

Tests set them by HTTP at the API server's ``/sim/faults``: POST adds, GET lists with hits, DELETE clears.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, get_args

Action = Literal["latency", "status", "drop_watch", "commit_then_timeout", "reset"]
"""latency: wait, then serve the request. status: answer `code` without serving it. drop_watch: end a watch after its
next event. commit_then_timeout: serve the request, wait `seconds` and cut the connection without an answer. reset: cut
the connection without serving the request."""
ACTIONS: Final = get_args(Action)

_REASONS = {
    403: "Forbidden",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


@dataclass
class Fault:
    """One rule.

    Args:
        action: What happens to the request, see `Action`.
        verb: ``get``, ``list``, ``watch``, ``create``, ``update``, ``patch``, ``delete``, ``deletecollection``;
            empty for any.
        resource: Plural and, after a slash, the subresource (``pods/binding``); empty for any.
        name: The object's name; empty for any.
        agent: Part of the caller's User-Agent; empty for any.
        count: Number of requests that the rule hits; None for all.
        seconds: Time to wait for ``latency`` and ``commit_then_timeout``.
        code: HTTP status for ``status``.
    """

    action: Action
    verb: str = ""
    resource: str = ""
    name: str = ""
    agent: str = ""
    count: int | None = 1
    seconds: float = 0.0
    code: int = 500
    hits: int = 0

    def matches(self, verb: str, resource: str, name: str, agent: str) -> bool:
        """Whether this rule hits the request."""
        wanted = ((self.verb, verb), (self.resource, resource), (self.name, name))
        return (
            (self.count is None or self.hits < self.count)
            and (self.action != "drop_watch" or verb == "watch")
            and all(not rule or rule == found for rule, found in wanted)
            and self.agent in agent
        )

    @property
    def reason(self) -> str:
        """`Status.reason` that goes with the code."""
        return _REASONS.get(self.code, "InternalError")


class Faults:
    """The rules in force, in the order they were set."""

    def __init__(self) -> None:
        self._rules: list[Fault] = []

    def add(self, fields: dict[str, Any]) -> None:
        """Adds a rule.

        Raises:
            ValueError: A field or the action is unknown.
        """
        try:
            fault = Fault(**fields)
        except TypeError as error:
            raise ValueError(f"fault: {error}") from error
        if fault.action not in ACTIONS:
            raise ValueError(f"fault: action: {fault.action!r} is none of {', '.join(ACTIONS)}")
        self._rules.append(fault)

    def clear(self) -> None:
        """Removes all rules."""
        self._rules.clear()

    def listing(self) -> list[dict[str, Any]]:
        """The rules with their hits."""
        return [asdict(rule) for rule in self._rules]

    def hit(self, verb: str, resource: str, name: str, agent: str) -> Fault | None:
        """The first rule that matches, after counting the hit; None if no rule matches."""
        for rule in self._rules:
            if rule.matches(verb, resource, name, agent):
                rule.hits += 1
                return rule
        return None
