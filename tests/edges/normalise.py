"""What of an observation is compared: ids, times and addresses of a run become names in order of their appearance."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
NO_UID = "00000000-0000-0000-0000-000000000000"
"""What scenarios use where no object may have the uid."""
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_VERSION = re.compile(r"(too old resource version: |ResourceVersion in (?:precondition|object meta): )\d+( \(\d+\))?")
_ADDRESS = re.compile(r"127\.0\.0\.1:\d+")
_POINTERS = re.compile(r"endpoint &\{.*?\} has been stopped")
_CREDENTIAL = re.compile(r"X509SHA256=[0-9a-f]{64}")
_DROPPED = ("managedFields",)
"""Who wrote which field: nothing here reads it, and it is longer than the rest."""


class Normaliser:
    """Normalises one scenario's observation.

    Args:
        observation: What will be normalised: an id that occurs in it more than once gets a name of its own, so that
            equal ones stay equal; all others are alike.
    """

    def __init__(self, observation: Any) -> None:
        counted = Counter(_UUID.findall(json.dumps(observation, sort_keys=True)))
        counted.pop(NO_UID, None)
        self._names = {
            found: f"<uid {number}>" for number, found in enumerate((u for u, n in counted.items() if n > 1), start=1)
        }

    def _name(self, match: re.Match[str]) -> str:
        return NO_UID if match[0] == NO_UID else self._names.get(match[0], "<uid>")

    def text(self, text: str) -> str:
        """One string."""
        # go-cmp mixes them into what it prints, so that nobody relies on it.
        text = text.replace("\N{NO-BREAK SPACE}", " ")
        text = _UUID.sub(self._name, text)
        text = _CREDENTIAL.sub("X509SHA256=<hash>", text)
        text = _TIME.sub("<time>", text)
        text = _ADDRESS.sub("<address>", text)
        text = _POINTERS.sub("endpoint <pointers> has been stopped", text)
        return _VERSION.sub(lambda m: f"{m[1]}<version>{' (<version>)' if m[2] else ''}", text)

    def value(self, value: Any, key: str = "") -> Any:
        """Any JSON value."""
        if isinstance(value, dict):
            return {self.text(k): self.value(value[k], k) for k in sorted(value) if k not in _DROPPED}
        if isinstance(value, list | tuple):
            found = [self.value(v) for v in value]
            # How often the server validates, and so repeats itself, is nobody's business.
            return [v for i, v in enumerate(found) if v not in found[:i]] if key == "causes" else found
        if key == "resourceVersion" and isinstance(value, str) and value.isdigit():
            return "<version>"
        return self.text(value) if isinstance(value, str) else value


def normalised(observation: Any) -> Any:
    """An observation ready to be compared and kept."""
    return Normaliser(observation).value(observation)
