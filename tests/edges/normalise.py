"""Makes observations of two runs comparable: replaces uids, times, versions and addresses by placeholders."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
NO_UID = "00000000-0000-0000-0000-000000000000"
"""A uid that no object has. Scenarios use it where a uid must not match."""
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_VERSION = re.compile(r"(too old resource version: |ResourceVersion in (?:precondition|object meta): )\d+( \(\d+\))?")
_ADDRESS = re.compile(r"127\.0\.0\.1:\d+")
_POINTERS = re.compile(r"endpoint &\{.*?\} has been stopped")
_CREDENTIAL = re.compile(r"X509SHA256=[0-9a-f]{64}")
_DROPPED = ("managedFields",)
"""Keys that are left out. `managedFields` is longer than the rest of an object, and HAMi does not read it."""


class Normaliser:
    """Normalises one scenario's observation.

    Args:
        observation: The value to normalise. A uid that occurs more than once gets a numbered name, so that equal uids
        stay equal. All others become ``<uid>``.
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
        """Normalise one string."""
        # go-cmp inserts no-break spaces at random, so that no program relies on its output.
        text = text.replace("\N{NO-BREAK SPACE}", " ")
        text = _UUID.sub(self._name, text)
        text = _CREDENTIAL.sub("X509SHA256=<hash>", text)
        text = _TIME.sub("<time>", text)
        text = _ADDRESS.sub("<address>", text)
        text = _POINTERS.sub("endpoint <pointers> has been stopped", text)
        return _VERSION.sub(lambda m: f"{m[1]}<version>{' (<version>)' if m[2] else ''}", text)

    def value(self, value: Any, key: str = "") -> Any:
        """Normalise any JSON value."""
        if isinstance(value, dict):
            return {self.text(k): self.value(value[k], k) for k in sorted(value) if k not in _DROPPED}
        if isinstance(value, list | tuple):
            found = [self.value(v) for v in value]
            # The server may validate more than once and repeat a cause. The number of repetitions does not matter.
            return [v for i, v in enumerate(found) if v not in found[:i]] if key == "causes" else found
        if key == "resourceVersion" and isinstance(value, str) and value.isdigit():
            return "<version>"
        return self.text(value) if isinstance(value, str) else value


def normalised(observation: Any) -> Any:
    """Normalise an observation for comparison and storage."""
    return Normaliser(observation).value(observation)
