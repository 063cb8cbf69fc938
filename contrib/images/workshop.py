"""Make layers. A cache keeps them, so that the same inputs are built once."""

from __future__ import annotations

import fcntl
import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from contrib.images import bytecode, debian, native, oci, wheels
from contrib.images.command import run
from contrib.images.oci import Files, Layer
from contrib.images.sbom import Component

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[1]
SOURCES: Final = HERE / "src"
PYTHON: Final = (
    *("base-files", "libc6", "libgcc-s1", "libstdc++6", "zlib1g", "libbz2-1.0", "liblzma5", "libexpat1", "libffi8"),
    *("libssl3", "libuuid1", "python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib"),
)
"""Debian packages of a Python that can run servers. `_MODULES_LEFT_OUT` are modules that need more libraries."""
_LEFT_OUT: Final = (
    *("/bin/", "/boot/", "/home/", "/proc/", "/root/", "/run/", "/sbin/", "/sys/", "/usr/games/", "/usr/src/", "/var/"),
    *("/etc/default/", "/etc/dpkg/", "/etc/opt/", "/etc/profile.d/", "/etc/skel/", "/etc/update-motd.d/"),
    *(
        "/etc/issue/",
        "/etc/issue.net/",
        "/etc/motd/",
        "/usr/lib/python3.11/lib2to3/",
        "/usr/lib/python3.11/pydoc_data/",
    ),
    "/usr/lib/x86_64-linux-gnu/gconv/",
    *(f"/usr/share/{part}/" for part in ("applications", "apport", "base-files", "binfmts", "bug", "dict", "doc-base")),
    *(f"/usr/share/{part}/" for part in ("gcc", "gdb", "info", "lintian", "man", "misc", "pixmaps")),
)
_MODULES_LEFT_OUT: Final = ("_crypt", "_curses", "_curses_panel", "_dbm", "_gdbm", "_sqlite3", "nis", "readline")
_PASSWD: Final = "root:x:0:0:root:/:/nonexistent\nhami:x:65532:65532:hami:/:/nonexistent\n"  # noqa: S105 - user names
_GROUP: Final = "root:x:0:\nhami:x:65532:\n"


_MAKERS: Final = (bytecode, debian, native, oci, wheels)
"""Modules of ours that decide the content of layers. Their sources are part of each cache key."""


@dataclass
class Workshop:
    """Makes layers and keeps them in a cache.

    Attributes:
        cache: Folder of finished layers and fetched packages. It is safe to delete.
        root: The source tree.
        kube_scheduler: The program for the kube-scheduler image.
        vendors: Wheels of other vendors.
    """

    cache: Path
    root: Path = ROOT
    kube_scheduler: Path | None = None
    vendors: tuple[wheels.Given, ...] = ()

    def python(self) -> Layer:
        """Debian's Python without the rest of Debian."""
        packages = debian.candidates(PYTHON)
        key = self._key("python", *(p.sha256 for p in packages))

        def fill(files: Files, tree: Path) -> list[Component]:
            found = debian.unpack(packages, self.cache / "debs", tree)
            bytecode.compile_tree(tree, tree, ["/usr/lib/python3.11"])
            _installed(packages, files, tree)
            files.link("/usr/bin/python3", "python3.11")
            _skeleton(files)
            return found

        return self._layer(key, fill)

    def packages(self, names: Sequence[str]) -> Layer:
        """Further Debian packages. Their dependencies are not added, so the caller names each package."""
        packages = debian.candidates(names)
        key = self._key("packages", *(p.sha256 for p in packages))

        def fill(files: Files, tree: Path) -> list[Component]:
            found = debian.unpack(packages, self.cache / "debs", tree)
            _installed(packages, files, tree)
            return found

        return self._layer(key, fill)

    def runtime(self) -> Path:
        """A folder with the packages of `PYTHON`. Its Python can run outside an image."""
        packages = debian.candidates(PYTHON)
        key = self._key("runtime", *(p.sha256 for p in packages))

        def write(folder: Path) -> None:
            debian.unpack(packages, self.cache / "debs", folder)

        return self._made(key, write)

    def dependencies(self, distributions: Sequence[str]) -> Layer:
        """Third-party dependencies of distributions of this repository."""
        return self.wheels(wheels.requirements(self.root, distributions))

    def wheels(self, wanted: Sequence[str]) -> Layer:
        """Wheels of third parties and all their dependencies."""
        key = self._key("wheels", *wanted, (self.root / "constraints.txt").read_text())

        def fill(files: Files, tree: Path) -> list[Component]:
            out = tree.with_name("wheels")
            return self._unpacked(wheels.download(self.root, wanted, out), files, tree)

        return self._layer(key, fill)

    def own(self, distributions: Sequence[str]) -> Layer:
        """Distributions of this repository."""
        key = self._key("own", *(self._wheel_key(name) for name in distributions))

        def fill(files: Files, tree: Path) -> list[Component]:
            built = [self.wheel(name) for name in distributions]
            return self._unpacked(built, files, tree)

        return self._layer(key, fill)

    def further(self) -> tuple[Layer, ...]:
        """The wheels of other vendors and their third-party dependencies; no layers without such vendors."""
        if not self.vendors:
            return ()
        here = {*wheels.DISTRIBUTIONS, *(wheels.distribution_of(vendor.name) for vendor in self.vendors)}
        wanted = sorted({n for v in self.vendors for n in v.needs if wheels.distribution_of(n) not in here})
        checksums = [hashlib.sha256(vendor.path.read_bytes()).hexdigest() for vendor in self.vendors]

        def fill(files: Files, tree: Path) -> list[Component]:
            return self._unpacked([vendor.path for vendor in self.vendors], files, tree)

        needed = (self.wheels(wanted),) if wanted else ()
        return (*needed, self._layer(self._key("further", *checksums), fill))

    def wheel(self, distribution: str) -> Path:
        """A wheel of this repository."""

        def write(folder: Path) -> None:
            wheels.build(self.root, distribution, folder)

        return next(self._made(self._wheel_key(distribution), write).glob("*.whl"))

    def program(self, path: str, program: Path, kind: str = "generic") -> Layer:
        """A layer with one finished program."""
        content = program.read_bytes()
        checksum = hashlib.sha256(content).hexdigest()

        def fill(files: Files, tree: Path) -> list[Component]:
            del tree
            files.file(path, content, 0o755)
            _skeleton(files)
            said = run([program, "--version"]).split()
            return [Component(kind, program.name, said[-1] if said else "unknown", checksum, "Apache-2.0")]

        return self._layer(self._key("program", path, checksum), fill)

    def compiled(self, path: str, source: Path, compiler: Callable[[Path, Path], Path]) -> Layer:
        """A layer with one compiled C program."""

        def fill(files: Files, tree: Path) -> list[Component]:
            program = compiler(source, tree / "program")
            files.file(path, program, 0o755)
            _skeleton(files)
            return [self._ours(program, source)]

        return self._layer(self._key("compiled", path, source.read_text(), _compiler()), fill)

    def musl(self, path: str, source: Path) -> Layer:
        """A layer with one C program that uses musl, and musl itself."""
        packages = debian.candidates(["musl", "musl-dev"])
        key = self._key("musl", path, source.read_text(), _compiler(), *(p.sha256 for p in packages))

        def fill(files: Files, tree: Path) -> list[Component]:
            found = debian.unpack(packages, self.cache / "debs", tree)
            program = native.musl(source, tree, tree.with_name("program"))
            files.file(path, program, 0o755)
            files.file("/lib/x86_64-linux-musl/libc.so", tree / "lib/x86_64-linux-musl/libc.so", 0o755)
            files.link("/lib/ld-musl-x86_64.so.1", "x86_64-linux-musl/libc.so")
            files.file("/etc/ld-musl-x86_64.path", tree / "etc/ld-musl-x86_64.path")
            _skeleton(files)
            return [found[0], self._ours(program, source)]

        return self._layer(key, fill)

    def clients(self, applets: Sequence[str]) -> Layer:
        """The demo's client programs, and busybox with a shell for debugging."""
        programs = self.root / "vendors/nvidia/src/hami_nvidia/demo/programs"
        parts = sorted((*programs.glob("*.py"), *programs.glob("*.c")))
        busybox = debian.candidates(["busybox-static"])
        text = (part.read_text() for part in parts)
        key = self._key("clients", *text, *applets, _compiler(), busybox[0].sha256, self._wheel_key("hami-gpusim"))

        def fill(files: Files, tree: Path) -> list[Component]:
            found = debian.unpack(busybox, self.cache / "debs", tree)
            files.file("/bin/busybox", tree / "bin/busybox", 0o755)
            for applet in applets:
                files.link(f"/bin/{applet}", "busybox")
            driver = tree.with_name("driver")
            wheels.unpack(self.wheel("hami-gpusim"), Files(), driver)
            source = programs / "probe.c"
            probe = native.on_driver(source, driver / "hami_gpusim/lib", tree.with_name("cuda-probe"))
            files.file("/usr/local/bin/cuda-probe", probe, 0o755)
            for part in parts:
                if part.suffix == ".py":
                    files.file(f"/opt/programs/{part.name}", part, 0o644)
            return [*found, self._ours(probe, source)]

        return self._layer(key, fill)

    # --- the cache -------------------------------------------------------------------------------------------------

    def _unpacked(self, found: Sequence[Path], files: Files, tree: Path) -> list[Component]:
        site = tree / wheels.SITE.strip("/")
        components = [wheels.unpack(path, files, site) for path in found]
        bytecode.compile_tree(self.runtime(), tree, [wheels.SITE])
        files.tree(tree)
        return components

    def _ours(self, program: Path, source: Path) -> Component:
        checksum = hashlib.sha256(program.read_bytes()).hexdigest()
        return Component("generic", source.stem, checksum[:12], checksum, "Apache-2.0", source.name)

    def _wheel_key(self, distribution: str) -> str:
        parts = [distribution, (self.root / "constraints.txt").read_text(), _compiler()]
        for path in wheels.sources(self.root, distribution):
            parts += [path.relative_to(self.root).as_posix(), hashlib.sha256(path.read_bytes()).hexdigest()]
        return self._key("wheel", *parts)

    def _key(self, kind: str, *parts: str) -> str:
        """Cache key of the inputs and of the modules that make the layer."""
        total = hashlib.sha256()
        for part in (
            *parts,
            *(Path(str(module.__file__)).read_text() for module in _MAKERS),
            Path(__file__).read_text(),
        ):
            data = part.encode()
            total.update(len(data).to_bytes(8, "big") + data)
        return f"{kind}-{total.hexdigest()[:24]}"

    def _layer(self, key: str, fill: Callable[[Files, Path], list[Component]]) -> Layer:
        def write(folder: Path) -> None:
            with tempfile.TemporaryDirectory(dir=self.cache, prefix=".scratch-") as scratch:
                tree = Path(scratch) / "tree"
                tree.mkdir()
                files = Files()
                components = fill(files, tree)
                Layer.write(folder, files, components)

        return Layer.read(self._made(key, write))

    def _made(self, key: str, write: Callable[[Path], None]) -> Path:
        """A finished folder of the cache. Only one process makes it, and it appears only once it is complete."""
        folder = self.cache / key
        self.cache.mkdir(parents=True, exist_ok=True)
        if folder.is_dir():
            return folder
        with (self.cache / f".{key}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.is_dir():
                with tempfile.TemporaryDirectory(dir=self.cache, prefix=".making-") as scratch:
                    fresh = Path(scratch) / "made"
                    fresh.mkdir()
                    write(fresh)
                    fresh.rename(folder)
        return folder


def _installed(packages: Sequence[debian.Package], files: Files, tree: Path) -> None:
    """Add unpacked packages to a layer."""
    files.tree(tree, keep=_kept)
    for package in packages:
        # Scanners look here in images without dpkg.
        files.file(f"/var/lib/dpkg/status.d/{package.name}", package.control + "\n")


def _kept(path: str) -> bool:
    if f"{path}/".startswith(_LEFT_OUT) or (path.startswith("/usr/share/doc/") and not path.endswith("/copyright")):
        return False
    if "/lib-dynload/" in path:
        return path.rpartition("/")[2].partition(".")[0] not in _MODULES_LEFT_OUT
    return True


def _skeleton(files: Files) -> None:
    """Add the files of every image: users, groups, a folder for temporary files and /usr/local/bin."""
    files.file("/etc/passwd", _PASSWD)
    files.file("/etc/group", _GROUP)
    files.folder("/tmp", 0o1777)  # noqa: S108 - of the image
    files.folder("/usr/local/bin")


def _compiler() -> str:
    return run(["gcc", "--version"], needs=native.GCC).partition("\n")[0]
