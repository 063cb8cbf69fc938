"""Recipes: the content and settings of each image."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from contrib import vendor_folders
from contrib.images import native, wheels
from contrib.images.command import run
from contrib.images.errors import MissingTool
from contrib.images.oci import Image
from contrib.images.workshop import SOURCES, Workshop

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from contrib.images.oci import Layer

NOBODY: Final = "65532:65532"
_ENV: Final = {"LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
_CUDA_ENV: Final = {
    # NVIDIA's CUDA images set the same variables.
    "LD_LIBRARY_PATH": "/usr/local/nvidia/lib:/usr/local/nvidia/lib64",
    "NVIDIA_VISIBLE_DEVICES": "all",
    "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
}
_VENDORS: Final = vendor_folders.in_tree()
_SCHEDULER: Final = wheels.with_ours(vendor_folders.ROOT, ("hami", *(vendor.distribution for vendor in _VENDORS)))
_CLIENT: Final = ("cuda-bindings>=13", "nvidia-ml-py>=13")
_APPLETS: Final = ("sh", "cat", "env", "find", "grep", "head", "ls", "ps", "sleep", "stat", "true", "wget")


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one image is made.

    Attributes:
        repositories: Names of the image in the registry.
        make: Function that makes the layers.
        entrypoint: Program and first arguments.
        cmd: Arguments if the container sets none.
        env: Environment variables.
        user: ``uid:gid``.
        title: Title of the image.
        tag: Tag of the image; empty: the common tag of all images.
    """

    repositories: tuple[str, ...]
    make: Callable[[Workshop], tuple[Layer, ...]]
    entrypoint: tuple[str, ...]
    title: str
    cmd: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    user: str = NOBODY
    tag: str = ""


def _scheduler(shop: Workshop) -> tuple[Layer, ...]:
    return shop.python(), shop.dependencies(_SCHEDULER), shop.own(_SCHEDULER), *shop.further()


def _agent(vendor: vendor_folders.Vendor) -> Recipe:
    def layers(shop: Workshop) -> tuple[Layer, ...]:
        packages = (shop.packages(vendor.debian_packages),) if vendor.debian_packages else ()
        ours = wheels.with_ours(shop.root, ("hami", vendor.distribution))
        # Use the scheduler's dependencies, so that a node with both images stores the layer once.
        return shop.python(), *packages, shop.dependencies(_SCHEDULER), shop.own(ours)

    name = f"agent-{vendor.name}"
    title = f"HAMi's agent for {vendor.name}"
    # The agent runs as root, because it writes to the kubelet's socket folder and to that of CDI specs.
    return Recipe((f"hami/{name}",), layers, ("/usr/local/bin/hami",), title, ("--help",), _ENV, "0:0")


def _agent_vendor(shop: Workshop) -> tuple[Layer, ...]:
    if not node_sides(shop):
        raise MissingTool("a vendor's node side", "name wheels with an entry point in hami.node: --vendor-wheel FILE")
    needed = (wheels.distribution_of(need) for vendor in shop.vendors for need in vendor.needs)
    ours = wheels.with_ours(shop.root, ("hami", *needed))
    return shop.python(), shop.dependencies(_SCHEDULER), shop.own(ours), *shop.further()


def node_sides(shop: Workshop) -> tuple[str, ...]:
    """Vendors whose node sides are in the given wheels."""
    return tuple(side for vendor in shop.vendors for side in vendor.node_sides)


def _kube_scheduler(shop: Workshop) -> tuple[Layer, ...]:
    if shop.kube_scheduler is None:
        raise MissingTool("kube-scheduler", "name the program with --kube-scheduler PATH")
    return (shop.program("/usr/local/bin/kube-scheduler", shop.kube_scheduler, kind="golang"),)


def _pause(shop: Workshop) -> tuple[Layer, ...]:
    return (shop.compiled("/pause", SOURCES / "pause.c", native.static),)


def _client(shop: Workshop) -> tuple[Layer, ...]:
    return shop.python(), shop.wheels(_CLIENT), shop.clients(_APPLETS)


def _client_static(shop: Workshop) -> tuple[Layer, ...]:
    return (shop.compiled("/client", SOURCES / "still.c", native.static),)


def _client_musl(shop: Workshop) -> tuple[Layer, ...]:
    return (shop.musl("/client", SOURCES / "still.c"),)


RECIPES: Final[Mapping[str, Recipe]] = {
    "scheduler": Recipe(
        ("hami/scheduler",), _scheduler, ("/usr/local/bin/hami",), "HAMi's scheduler side", ("--help",), _ENV
    ),
    **{f"agent-{vendor.name}": _agent(vendor) for vendor in _VENDORS if vendor.target(vendor_folders.NODE)},
    "agent-vendor": Recipe(
        *(("hami/agent-vendor",), _agent_vendor, ("/usr/local/bin/hami",), "HAMi's agent for further vendors"),
        *(("--help",), _ENV),
        user="0:0",
    ),
    "kube-scheduler": Recipe(
        ("kube-scheduler", "hami/kube-scheduler"),
        _kube_scheduler,
        ("/usr/local/bin/kube-scheduler",),
        "Kubernetes' scheduler",
    ),
    "pause": Recipe(("pause",), _pause, ("/pause",), "first process of a pod", tag="1"),
    "client": Recipe(
        ("hami/client",), _client, (), "CUDA and NVML programs for tests", ("cuda-probe",), _ENV | _CUDA_ENV, "0:0"
    ),
    "client-static": Recipe(("hami/client-static",), _client_static, ("/client",), "a static program for tests"),
    "client-musl": Recipe(
        *(("hami/client-musl",), _client_musl, ("/client",), "a program on musl for tests"),
        env={"LD_LIBRARY_PATH": _CUDA_ENV["LD_LIBRARY_PATH"]},
    ),
}


def make(name: str, shop: Workshop, registry: str, tag: str) -> Image:
    """Make one image.

    Raises:
        MissingTool: A program or package is missing on this machine.
        BuildError: A step failed.
    """
    recipe = RECIPES[name]
    layers = recipe.make(shop)
    tags = [recipe.tag or tag]
    if name == "kube-scheduler":
        tags.append(version(shop.kube_scheduler) if shop.kube_scheduler else "")
    labels = {"org.opencontainers.image.title": recipe.title, "org.opencontainers.image.licenses": "Apache-2.0"}
    return Image(
        names=tuple(f"{registry}/{repository}:{t}" for repository in recipe.repositories for t in tags),
        layers=layers,
        entrypoint=recipe.entrypoint,
        cmd=recipe.cmd,
        env=recipe.env,
        user=recipe.user,
        labels=labels,
    )


def version(program: Path) -> str:
    """Version of a Kubernetes program, such as ``v1.36.3``."""
    said = run([program, "--version"], needs="name the program with --kube-scheduler PATH")
    found = re.search(r"v\d+\.\d+\.\d+", said)
    return found[0] if found else "unknown"
