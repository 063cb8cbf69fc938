"""The images of a bed. contrib/images makes those that are not in the cache."""

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
    """Archives of images, made from the current sources or taken from the cache.

    Args:
        tools: The bed's programs. One image contains their kube-scheduler.
        names: Names of images in contrib/images. The sandbox image of pods is always added.
        cache: Folder of layers and archives. By default it is in the bed's cache.
        vendors: Wheels of other vendors, for the images of the scheduler and of their agent.

    Returns:
        One archive for each image. The images are named ``localhost/hami/<name>:dev`` and ``localhost/pause:1``.

    Raises:
        MissingTool: A program or package for an image is missing. The text says which and how to get it.
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
