#!/usr/bin/env python3
"""Make container images as OCI archives, without a container engine or a registry."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

if __package__ in {None, ""}:  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from contrib.images import sbom, wheels
from contrib.images.errors import BuildError, MissingTool
from contrib.images.recipes import RECIPES, make, node_sides
from contrib.images.workshop import Workshop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from contrib.images.oci import Image


def default_cache() -> Path:
    """Default folder for finished layers."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hami-images"


def publish(image: Image, archive: Path) -> str:
    """Write an image's archive and its SBOM beside it; return the image's digest."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    digest = image.digest()
    components = [c for layer in image.layers for c in layer.components]
    archive.with_suffix(".spdx.json").write_bytes(sbom.document(image.names[0], digest, components))
    image.write(archive)
    return digest


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="Images: " + "; ".join(f"{k} ({r.title})" for k, r in RECIPES.items())
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for archives and SBOMs")
    parser.add_argument("--only", nargs="+", choices=sorted(RECIPES), metavar="NAME", help="only these images")
    parser.add_argument("--registry", default="localhost", help="registry in the images' names (default: localhost)")
    parser.add_argument("--tag", default="dev", help="tag of the images (default: dev)")
    parser.add_argument("--unpack", action="store_true", help="also unpack each image into DIR/NAME")
    parser.add_argument(
        "--vendor-wheel",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="wheel of another vendor, for the images scheduler and agent-vendor; repeatable",
    )
    parser.add_argument("--kube-scheduler", type=Path, metavar="PATH", help="program of the kube-scheduler image")
    parser.add_argument("--cache", type=Path, default=default_cache(), metavar="DIR", help="default: %(default)s")
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """Run; returns the exit status."""
    options = _parser().parse_args(words)
    try:
        vendors = tuple(wheels.given(path) for path in options.vendor_wheel)
    except BuildError as error:
        sys.stderr.write(f"--vendor-wheel: {error}\n")
        return 1
    shop = Workshop(options.cache.resolve(), kube_scheduler=options.kube_scheduler, vendors=vendors)
    absent = {"kube-scheduler": not options.kube_scheduler, "agent-vendor": not node_sides(shop)}
    names = options.only or [name for name in RECIPES if not absent.get(name)]
    for name in names:
        began = time.monotonic()
        try:
            archive = options.out / f"{name}.tar"
            image = make(name, shop, options.registry, options.tag)
            digest = publish(image, archive)
            if options.unpack:
                image.unpack(options.out / name)
        except (MissingTool, BuildError) as error:
            sys.stderr.write(f"{name}: {error}\n")
            return 1
        size = archive.stat().st_size / 1e6
        print(f"{name}: {digest} {size:.1f} MB in {time.monotonic() - began:.1f} s: {archive}")
    if "kube-scheduler" not in names and not options.only:
        print("kube-scheduler: left out; to build it, name the program with --kube-scheduler PATH")
    return 0


if __name__ == "__main__":
    sys.exit(main())
