"""How the bed's programs are built: only from modules that go.mod and go.sum in ``build/`` pin."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

MODULES = Path(__file__).parent / "build"


@dataclass(frozen=True)
class Recipe:
    """Programs built from one pinned module.

    Attributes:
        name: Name of the folder in ``build/`` and of the programs' folder in the cache.
        packages: Go packages. Each makes one program, with the last word of the package as its name.
        stamp: Go package whose version variables the linker sets ("" = none). Without it, Kubernetes built as a
            module has the version v0.0.0, and its parts refuse to work.
    """

    name: str
    packages: tuple[str, ...]
    stamp: str = ""

    @property
    def folder(self) -> Path:
        """Folder of go.mod and go.sum."""
        return MODULES / self.name

    @property
    def programs(self) -> tuple[str, ...]:
        """Names of the programs."""
        return tuple(package.rsplit("/", 1)[1] for package in self.packages)

    @property
    def version(self) -> str:
        """The version that go.mod requires, such as v1.36.3."""
        text = (self.folder / "go.mod").read_text()
        match = re.search(r"^require \S+ (v\S+)$", text, re.MULTILINE)
        if match is None:
            raise ValueError(f"{self.folder / 'go.mod'}: no line 'require MODULE VERSION'")
        return match[1]

    @property
    def linker_flags(self) -> str:
        """Argument of ``go build -ldflags``."""
        if not self.stamp:
            return "-s -w"
        major, minor, _ = self.version.removeprefix("v").split(".", 2)
        values = {
            "gitVersion": self.version,
            "gitMajor": major,
            "gitMinor": minor,
            "gitTreeState": "clean",
            "gitCommit": "module",
        }
        return "-s -w " + " ".join(f"-X {self.stamp}.{name}={value}" for name, value in values.items())

    def key(self, go: str) -> str:
        """Cache key of 16 hex digits, from the pinned modules, the Go version and this recipe."""
        digest = hashlib.sha256()
        for name in ("go.mod", "go.sum"):
            digest.update((self.folder / name).read_bytes() + b"\0")
        digest.update(repr((go, self.packages, self.linker_flags)).encode())
        return digest.hexdigest()[:16]


def _commands(module: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{module}/cmd/{name}" for name in names)


def _kubernetes(minor: str) -> Recipe:
    names = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")
    return Recipe(f"kubernetes-{minor}", _commands("k8s.io/kubernetes", *names), "k8s.io/component-base/version")


_CONTAINERD = ("containerd", "containerd-shim-runc-v2", "ctr")
_CNI = "github.com/containernetworking/plugins/plugins"

RECIPES = {
    recipe.name: recipe
    for recipe in (
        _kubernetes("1.36"),
        _kubernetes("1.30"),
        Recipe("containerd-2", _commands("github.com/containerd/containerd/v2", *_CONTAINERD)),
        Recipe("containerd-1.7", _commands("github.com/containerd/containerd", *_CONTAINERD)),
        Recipe("cni", (f"{_CNI}/main/bridge", f"{_CNI}/main/loopback", f"{_CNI}/ipam/host-local")),
        Recipe("helm-4", _commands("helm.sh/helm/v4", "helm")),
        Recipe("helm-3", _commands("helm.sh/helm/v3", "helm")),
    )
}
