"""Serial mode, for runtimes without CDI: Allocate fixes the devices of a container, PreStartContainer its limits.

The scheduler binds one pod at a time to such a node. So at Allocate there is only one pod whose containers still lack
devices. Allocate answers with the devices of its next container, and mounts a fresh and empty limits folder. The
folder's random path is the container's identity: the checkpoint later says which container really got it. The limits
are written before PreStartContainer succeeds; while the folder is empty, the interposer denies every allocation. If the
answer does not match the container that got it, the container's pod is evicted.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from hami_core.agent import files
from hami_core.agent.proto import deviceplugin_pb2 as api
from hami_core.wire import env, keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from hami_core.agent.identity import Entry
    from hami_core.kube.objects import Container, Pod
    from hami_core.model import ContainerEdits, Mount

CANDIDATE_WAIT_S: Final = 2.0
"""How long Allocate waits for the agent to see the pod: the kubelet may see it first."""
LIMITS: Final = "limits"
REGION: Final = "region"


class SerialFolders:
    """The folders that Allocate mounts: limits and region for each fresh name."""

    def __init__(self, state_dir: Path) -> None:
        self.path = state_dir / "serial"
        self._mounted = re.compile(re.escape(str(self.path)) + r"/([0-9a-f]{32})/limits")

    def make(self, name: str) -> None:
        """Make the empty folders of a name."""
        self.path.mkdir(mode=0o755, parents=True, exist_ok=True)
        with files.folder(self.path) as fd:
            files.make_folder(name, 0o755, inside=fd)
            with files.folder(name, inside=fd) as inside:
                files.make_folder(LIMITS, 0o755, inside=inside)
                files.make_folder(REGION, 0o755, inside=inside)

    def name_of(self, entry: Entry) -> str | None:
        """The fresh name in the path of a checkpoint entry's limits mount, or None."""
        found = [m.group(1) for _, host in entry.mounts if (m := self._mounted.fullmatch(host))]
        return found[0] if len(found) == 1 else None

    def names(self) -> frozenset[str]:
        """Names that have folders."""
        try:
            with files.folder(self.path) as fd:
                return frozenset(files.names(inside=fd))
        except FileNotFoundError:
            return frozenset()

    def remove(self, name: str) -> None:
        """Remove a name's folders."""
        try:
            with files.folder(self.path) as fd:
                files.remove_tree(name, inside=fd)
        except FileNotFoundError:
            return

    def own_mounts(self, name: str, edits: ContainerEdits | None) -> dict[str, tuple[str, bool]]:
        """Container path → (host path, read-only) of a name's folders.

        A container may have answers of several vendors, and the kubelet keeps the first of two mounts at one path. So a
        vendor without limits gets a path of its own, by which the container is still identified.
        """
        limits, region = env.LIMITS_DIR, env.REGION_DIR
        if edits is not None:
            limits, region = edits.limits_path or f"{env.MARKS_DIR}/{name}", edits.region_path
        mounts = {limits: (str(self.path / name / LIMITS), True)}
        return mounts | ({region: (str(self.path / name / REGION), False)} if region else {})

    def response(
        self, name: str, edits: ContainerEdits | None, default_env: Mapping[str, str]
    ) -> api.ContainerAllocateResponse:
        """Allocate's answer. Without edits the container sees no device and can allocate nothing."""
        answer = api.ContainerAllocateResponse(envs={**default_env, **(edits.env if edits else {})})
        for path, (host, read_only) in self.own_mounts(name, edits).items():
            answer.mounts.add(container_path=path, host_path=host, read_only=read_only)
        for mount in _mounts(edits):
            answer.mounts.add(container_path=mount.container_path, host_path=mount.host_path, read_only=mount.read_only)
        for node in edits.device_nodes if edits else ():
            answer.devices.add(
                container_path=node.path, host_path=node.host_path or node.path, permissions=node.permissions
            )
        return answer

    def mismatch(self, entry: Entry, name: str, edits: ContainerEdits) -> str:
        """How the stored answer differs from what the container should have received; empty if it does not."""
        wanted = {node.path for node in edits.device_nodes}
        if set(entry.devices) != wanted:
            return f"it was given {_listed(entry.devices)} and holds {_listed(wanted)}"
        mounts = {m.container_path: m.host_path for m in edits.mounts}
        mounts |= {path: host for path, (host, _) in self.own_mounts(name, edits).items()}
        if dict(entry.mounts) != mounts:
            return "it was given other mounts than it should have"
        return ""


class NoCdiMarker:
    """A file that says that CDI does not work on this node. It is valid until the next boot.

    Args:
        state_dir: The agent's folder.
        boot_id: Identity of this boot.
    """

    def __init__(self, state_dir: Path, boot_id: str) -> None:
        self._path = state_dir / "no-cdi"
        self._boot_id = boot_id

    @property
    def is_set(self) -> bool:
        """Whether the file was written in this boot."""
        try:
            return self._path.read_text(errors="replace").strip() == self._boot_id
        except OSError:
            return False

    def set(self) -> None:
        """Write the file."""
        with files.folder(self._path.parent) as fd:
            files.write(self._path.name, f"{self._boot_id}\n".encode(), 0o644, inside=fd)


def _mounts(edits: ContainerEdits | None) -> tuple[Mount, ...]:
    return edits.mounts if edits else ()


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"


def overriding_variables(container: Container, default_env: Mapping[str, str]) -> list[str]:
    """Variables of a container that would override Allocate's, which hide the node's other devices.

    The kubelet puts Allocate's variables before the pod's, and the last one of a name wins. The webhook removes such
    variables; this check is for pods that bypassed it. Variables from ``envFrom`` are not visible here.
    """
    wrong = {entry.name for entry in container.env if entry.value != default_env.get(entry.name, entry.value)}
    return sorted(wrong & default_env.keys())


def bound_at(pod: Pod) -> tuple[int, str]:
    """Sort key: the order in which pods were bound."""
    text = pod.metadata.annotations.get(keys.BIND_TIME, "")
    return (int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0), pod.uid
