"""``hami agent``: the node agent."""

from __future__ import annotations

from hami_core.cli.daemon import Daemon

command = Daemon(
    "agent",
    settings="AgentSettings",
    usage="hami agent --vendor VENDOR [FLAGS]",
    process="hami_core.agent.process",
    about="Run the node agent: device plugin, limits, metrics.",
)
