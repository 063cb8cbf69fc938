"""The images a bed runs, made by contrib/images where they are not in the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contrib.images import errors, wheels
from contrib.images.build import publish
from contrib.images.recipes import RECIPES, make
from contrib.images.workshop import Workshop
from tests.e2e.bed.errors import MissingTool
from tests.e2e.bed.golang import cache as bed_cache

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.e2e.bed.tools import Tools

REGISTRY = "localhost"
TAG = "dev"
PAUSE = "pause"


def ensure(
    tools: Tools, names: Iterable[str] = (), cache: Path | None = None, vendors: Iterable[Path] = ()
) -> list[Path]:
    """Archives of images, made from the sources as they are now unless the same were made before.

    Args:
        tools: The bed's programs; kube-scheduler is one of them.
        names: Which, by their names in contrib/images; pods' sandbox image comes with them always.
        cache: Folder of layers and archives; by default below the bed's own.
        vendors: Wheels of further vendors, for the images of the scheduler and of their agent.

    Returns:
        One archive an image. Names are ``localhost/hami/<name>:dev``, and ``localhost/pause:1``.

    Raises:
        MissingTool: A part of an image can't be had on this machine; says which and how to get it.
        BuildError: A step failed.
    """
    folder = cache or bed_cache() / "images"
    further = tuple(wheels.given(path) for path in vendors)
    shop = Workshop(folder, kube_scheduler=tools.kubernetes_bin / "kube-scheduler", vendors=further)
    return [_archive(shop, name) for name in dict.fromkeys((*names, PAUSE))]


def _archive(shop: Workshop, name: str) -> Path:
    if name not in RECIPES:
        raise ValueError(f"{name!r}: no such image; there are {', '.join(RECIPES)}")
    try:
        image = make(name, shop, REGISTRY, TAG)
    except errors.MissingTool as error:
        raise MissingTool(f"image {name}: {error}") from error
    archive = shop.cache / "archives" / f"{name}-{image.digest().removeprefix('sha256:')[:16]}.tar"
    if not archive.exists():
        publish(image, archive)
    return archive
