"""The scenarios by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.edges.scenarios import api, plugin, scheduler, webhook

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.edges.scene import Scenario

SCENARIOS: Mapping[str, Scenario] = {
    f"{module.__name__.rsplit('.', 1)[1]}-{name.replace('_', '-')}": found
    for module in (webhook, scheduler, plugin, api)
    for name, found in module.SCENARIOS.items()
}
"""Name → coroutine function that takes a `Scene` and returns its observation as JSON."""
