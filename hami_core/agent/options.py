"""Reads what the agent's settings name: signing keys, boot id and metrics token."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from hami_core.agent import selinux
from hami_core.agent.authority import Mode, Policy
from hami_core.agent.keyfiles import KeyFiles
from hami_core.agent.mounted import mounted_paths
from hami_core.http.token import TokenFile, no_token
from hami_core.model import NodeContext

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hami_core.settings import AgentSettings

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Options:
    """The agent's settings, and what was read from the files that they name.

    Attributes:
        settings: The settings themselves.
        policy: Which allocations are accepted.
        signing_keys: Public keys that verify allocations.
        boot_id: Identity of this boot.
        token: Returns the bearer token that a metrics scrape needs; empty: no token is needed.
        lease_namespace: Namespace of the liveness Lease; empty: no Lease is kept.
        selinux_type: SELinux type of the files that containers mount; empty: none is set, as on a node without SELinux.
    """

    settings: AgentSettings
    policy: Policy
    signing_keys: KeyFiles
    boot_id: str
    token: Callable[[], str]
    lease_namespace: str
    selinux_type: str = ""


def from_settings(settings: AgentSettings) -> Options:
    """Read what the settings name: keys, boot id and token.

    Raises:
        ConfigError: A file is missing or invalid.
    """
    before = settings.adopt_before
    if before is not None and before.tzinfo is None:
        before = before.replace(tzinfo=UTC)
    return Options(
        settings=settings,
        policy=Policy(Mode(settings.mode), before, frozenset(settings.trust_schedulers)),
        signing_keys=KeyFiles(settings.signing_keys),
        boot_id=_boot_id(settings.proc_dir),
        token=TokenFile(token, "metrics_token_file") if (token := settings.metrics_token_file) else no_token,
        lease_namespace=os.environ.get("POD_NAMESPACE", "kube-system"),
        selinux_type=_selinux_type(settings),
    )


class NodeLabels:
    """The labels of this node's object, for vendors. They are loaded before the agent reads the object.

    Attributes:
        read: Returns the labels, or None while they are not known. The agent sets it.
    """

    def __init__(self) -> None:
        self.read: Callable[[], Mapping[str, str] | None] = lambda: None

    def __call__(self) -> Mapping[str, str] | None:
        """The labels now; None: not known yet."""
        return self.read()


def node_context(settings: AgentSettings, labels: NodeLabels) -> NodeContext:
    """The description of this node that vendors receive."""
    return NodeContext(
        name=settings.node_name,
        state_dir=settings.state_dir,
        cdi_dirs=tuple(Path(folder) for folder in settings.cdi_search_dirs),
        config_file=settings.node_config_file,
        enforcement=settings.enforcement,
        legacy_metrics=settings.legacy_metrics,
        mounted=partial(mounted_paths, settings.cdi_dir, settings.kubelet_plugin_dir),
        serial=settings.serial,
        labels=labels,
    )


def _selinux_type(settings: AgentSettings) -> str:
    if not selinux.is_on(settings.proc_dir):
        return ""
    if not settings.selinux_type:
        fix = "label the folder on the node, or set --selinux-type (chart: selinux.enabled)"
        log.warning("SELinux is on, and files of the state folder may be closed to containers", fix=fix)
    return settings.selinux_type


def _boot_id(proc: Path) -> str:
    try:
        return (proc / "sys/kernel/random/boot_id").read_text().strip()
    except OSError as error:
        log.warning("the boot id can't be read; all specs are written again", error=str(error))
        return f"{socket.gethostname()}-{os.getpid()}"
