"""Archives that contrib/images makes: their content, and that the same inputs make the same image."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

from contrib.images import wheels
from contrib.images.build import main
from contrib.images.errors import BuildError
from contrib.images.oci import Files, Image, Layer
from contrib.images.recipes import RECIPES
from contrib.images.sbom import Component

ROOT = Path(__file__).parents[2]
PROGRAMS = ["pause", "client-static"]


class Archive:
    """An OCI archive, whose blobs are read by digest, as a runtime reads them."""

    def __init__(self, path: Path) -> None:
        with tarfile.open(path) as archive:
            self.members = archive.getmembers()
            self.files = {m.name: archive.extractfile(m).read() for m in self.members}
        self.index = json.loads(self.files["index.json"])
        self.digest = self.index["manifests"][0]["digest"]
        self.manifest = json.loads(self.blob(self.digest))
        self.config = json.loads(self.blob(self.manifest["config"]["digest"]))

    def blob(self, digest: str) -> bytes:
        data = self.files[f"blobs/sha256/{digest.removeprefix('sha256:')}"]
        assert f"sha256:{hashlib.sha256(data).hexdigest()}" == digest
        return data

    def unpack(self, into: Path) -> Path:
        for described, diff_id in zip(self.manifest["layers"], self.config["rootfs"]["diff_ids"], strict=True):
            data = self.blob(described["digest"])
            assert len(data) == described["size"]
            with tarfile.open(fileobj=io.BytesIO(data)) as layer:
                layer.extraction_filter = getattr(tarfile, "tar_filter", None)
                layer.extractall(into)
            raw = subprocess.run(["gzip", "-dc"], input=data, capture_output=True, check=True).stdout
            assert f"sha256:{hashlib.sha256(raw).hexdigest()}" == diff_id
        return into


def names_below(root: Path) -> set[Path]:
    return {path.relative_to(root) for path in root.rglob("*")}


def build(folder: Path, *names: str) -> dict[str, Archive]:
    words = ["--out", str(folder / "out"), "--cache", str(folder / "cache"), "--unpack", "--only", *names]
    assert main(words) == 0
    return {name: Archive(folder / "out" / f"{name}.tar") for name in names}


@pytest.fixture(scope="module")
def programs(tmp_path_factory) -> tuple[Path, dict[str, Archive]]:
    if not shutil.which("apt-cache"):
        pytest.skip("apt is missing: images take their files from Debian packages")
    folder = tmp_path_factory.mktemp("images")
    return folder, build(folder, *PROGRAMS)


def sample(source: Path) -> Files:
    files = Files()
    files.tree(source, "/opt/x")
    files.folder("/tmp", 0o1777)
    return files


def test_layer_depends_only_on_names_and_content(tmp_path):
    layers = []
    for number, order in enumerate([["b", "a/c", "a/d"], ["a/d", "b", "a/c"]]):
        source = tmp_path / f"source{number}"
        for name in order:
            path = source / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name)
            path.chmod(0o4755 if name == "b" else [0o600, 0o664][number])
            os.utime(path, (number, number))
        (source / "link").symlink_to("b")
        out = tmp_path / f"layer{number}"
        out.mkdir()
        layers.append(Layer.write(out, sample(source), [Component("generic", "x", "1", "0" * 64)]))
        assert Layer.read(out) == layers[-1]
    assert (layers[0].digest, layers[0].diff_id) == (layers[1].digest, layers[1].diff_id)
    with tarfile.open(layers[0].path) as archive:
        members = {m.name: m for m in archive}
    assert list(members) == ["opt", "opt/x", "opt/x/a", "opt/x/a/c", "opt/x/a/d", "opt/x/b", "opt/x/link", "tmp"]
    assert {(m.uid, m.gid, m.mtime, m.uname) for m in members.values()} == {(0, 0, 0, "")}
    assert oct(members["opt/x/b"].mode) == "0o755", "set-id bits must be dropped"
    assert oct(members["tmp"].mode) == "0o1777"
    assert members["opt/x/link"].linkname == "b"


def test_image_has_its_command_and_its_names(tmp_path):
    files = Files()
    files.file("/x", "x")
    layer = Layer.write(tmp_path, files, [])
    names = ("localhost/a/b:dev", "localhost:5000/c:1")
    image = Image(names, (layer,), ("/x",), ("--help",), {"A": "b"}, "65532:65532", {"k": "v"})
    image.write(tmp_path / "image.tar")
    read = Archive(tmp_path / "image.tar")
    assert read.digest == image.digest()
    found = [m["annotations"] for m in read.index["manifests"]]
    assert [a["io.containerd.image.name"] for a in found] == list(names)
    assert [a["org.opencontainers.image.ref.name"] for a in found] == ["dev", "1"]
    config = read.config["config"]
    assert (config["Entrypoint"], config["Cmd"], config["User"]) == (["/x"], ["--help"], "65532:65532")
    assert config["Env"][0].startswith("PATH=/usr/local/sbin:")
    assert config["Env"][1:] == ["A=b"]
    assert [p.name for p in tmp_path.glob(".*")] == [], "a partial file is left"


def test_same_sources_make_the_same_image_in_another_cache(programs, tmp_path):
    _, first = programs
    again = build(tmp_path, *PROGRAMS)
    assert {n: a.digest for n, a in first.items()} == {n: a.digest for n, a in again.items()}
    for name in PROGRAMS:
        assert (programs[0] / f"out/{name}.tar").read_bytes() == (tmp_path / f"out/{name}.tar").read_bytes()


def test_bill_of_materials_names_the_content(programs, tmp_path):
    folder, archives = programs
    for name, archive in archives.items():
        root = folder / "out" / name
        assert names_below(root) == names_below(archive.unpack(tmp_path / name))
        document = json.loads((folder / f"out/{name}.spdx.json").read_text())
        assert document["spdxVersion"] == "SPDX-2.3"
        image, program = document["packages"]
        assert image["checksums"][0]["checksumValue"] == archive.digest.removeprefix("sha256:")
        (entry,) = archive.config["config"]["Entrypoint"]
        assert program["checksums"][0]["checksumValue"] == hashlib.sha256((root / entry[1:]).read_bytes()).hexdigest()
        assert program["licenseDeclared"] == "Apache-2.0"
        assert {r["relatedSpdxElement"] for r in document["relationships"]} >= {image["SPDXID"], program["SPDXID"]}


def test_program_images_have_no_shell_and_no_root(programs, tmp_path):
    for name, archive in programs[1].items():
        root = archive.unpack(tmp_path / name)
        assert archive.config["config"]["User"] == "65532:65532"
        assert "x:65532:" in (root / "etc/passwd").read_text()
        assert not list(root.rglob("sh")) + list(root.rglob("bash"))


def test_static_client_prints_its_view_and_ends_on_a_signal(programs, tmp_path):
    program = programs[1]["client-static"].unpack(tmp_path) / "client"
    with subprocess.Popen([program], stdout=subprocess.PIPE, text=True) as running:
        said = json.loads(running.stdout.readline())
        assert (said["linked"], said["pid"], said["interposed"]) == ("static", running.pid, False)
        running.send_signal(signal.SIGTERM)
        assert running.wait(30) == 0


def test_sandbox_process_reaps_children_and_ends_on_a_signal(programs, tmp_path):
    program = programs[1]["pause"].unpack(tmp_path) / "pause"
    # The shell starts a child that ends later, then becomes the program by exec.
    script = f"sleep 0.3 & echo $!; exec {program}"
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True) as running:
        orphan = Path("/proc") / running.stdout.readline().strip()
        deadline = time.monotonic() + 60
        while orphan.exists():
            assert time.monotonic() < deadline, "an ended child remains a zombie"
            time.sleep(0.02)
        assert running.poll() is None
        running.terminate()
        assert running.wait(30) == 128 + signal.SIGTERM


def test_missing_tool_is_reported_with_its_package(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    out = ["--out", str(tmp_path / "out"), "--cache", str(tmp_path / "cache"), "--only"]
    assert main([*out, "scheduler"]) == 1
    assert "apt-cache is missing" in capsys.readouterr().err
    assert main([*out, "pause"]) == 1
    assert "gcc is missing: install gcc" in capsys.readouterr().err
    assert main([*out, "kube-scheduler"]) == 1
    assert "--kube-scheduler PATH" in capsys.readouterr().err
    assert list((tmp_path / "out").glob("*")) == []


def wheel(path: Path, **members: str) -> Path:
    info = {"METADATA": "Metadata-Version: 2.4\nName: hami-x\nVersion: 1.0\nLicense-Expression: MIT\n"}
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in ({f"hami_x-1.0.dist-info/{k}": v for k, v in info.items()} | members).items():
            archive.writestr(name, text)
    return path


def test_wheel_becomes_modules_and_commands(tmp_path):
    points = "[console_scripts]\nx = hami_x.cli:main\n\n[hami.vendors]\nx = hami_x\n"
    members = {
        "hami_x/__init__.py": "",
        "hami_x-1.0.data/purelib/more.py": "1",
        "hami_x-1.0.data/scripts/tool": "#!python",
        "hami_x-1.0.dist-info/entry_points.txt": points,
    }
    files = Files()
    found = wheels.unpack(wheel(tmp_path / "hami_x-1.0-py3-none-any.whl", **members), files, tmp_path / "site")
    assert (found.name, found.version, found.license) == ("hami-x", "1.0", "MIT")
    assert {p.name for p in (tmp_path / "site").iterdir()} == {"hami_x", "hami_x-1.0.dist-info", "more.py"}
    assert "/usr/local/bin/x" in files.names()
    assert "/usr/local/bin/tool" not in files.names()


def test_wheel_with_a_path_outside_its_folder_is_refused(tmp_path):
    bad = wheel(tmp_path / "hami_x-1.0-py3-none-any.whl", **{"../outside.py": "1"})
    with pytest.raises(BuildError, match="outside"):
        wheels.unpack(bad, Files(), tmp_path / "site")
    assert not (tmp_path / "outside.py").exists()


def test_containerfile_agrees_with_the_recipe_of_each_image():
    text = (ROOT / "contrib/images/Containerfile").read_text()
    stages = re.findall(r"^FROM scratch AS (\S+)\n((?:.+\n)+)", text, re.MULTILINE)
    assert [name for name, _ in stages] == ["scheduler", "agent"]
    agents = [name for name in RECIPES if name.startswith("agent-") and name != "agent-vendor"]
    assert "agent-nvidia" in agents
    for name, body in [stages[0], *((name, stages[1][1].replace("/agent/", f"/{name}/")) for name in agents)]:
        recipe = RECIPES[name]
        said = dict(line.split(" ", 1) for line in body.splitlines())
        assert json.loads(said["ENTRYPOINT"]) == list(recipe.entrypoint)
        assert json.loads(said["CMD"]) == list(recipe.cmd)
        assert said["USER"] == recipe.user
        assert dict(word.split("=") for word in said["ENV"].split()) == dict(recipe.env)
        assert said["COPY"] == f"--from=build /out/{name}/ /"


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_scheduler_and_agent_are_reproducible_and_start(tmp_path):
    if os.getuid() != 0:
        pytest.skip("entering the image's root needs root")
    first, again = (build(tmp_path / n, "scheduler", "agent-nvidia", "client") for n in ("one", "two"))
    for name in first:
        assert first[name].digest == again[name].digest, name
    for name, words in (("scheduler", ["scheduler"]), ("agent-nvidia", ["agent"])):
        root = first[name].unpack(tmp_path / name)
        uid = first[name].config["config"]["User"]
        done = subprocess.run(
            ["chroot", f"--userspec={uid}", root, *first[name].config["config"]["Entrypoint"], *words, "--help"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.startswith(f"Usage: hami {words[0]}")
        assert not list(root.glob("**/bin/*sh")), "no shell"
        assert not list(root.glob("**/libcuda*")), "nothing simulated"


def vendor_wheel(
    folder: Path, name: str = "hami_acme-0.1.0-py3-none-any.whl", points: str = "", needs: str = ""
) -> Path:
    """A minimal wheel of a vendor."""
    info = "hami_acme-0.1.0.dist-info"
    with zipfile.ZipFile(folder / name, "w") as archive:
        archive.writestr("hami_acme/__init__.py", "class Acme: ...\n")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: hami-acme\nVersion: 0.1.0\n{needs}")
        archive.writestr(f"{info}/entry_points.txt", points or "[hami.node]\nacme = hami_acme:Acme\n")
    return folder / name


def test_vendor_wheel_has_its_requirements_and_entry_points(tmp_path):
    needs = "Requires-Dist: hami<0.2,>=0.1\nRequires-Dist: acme-driver>=2\nRequires-Dist: pytest; extra == 'test'\n"
    found = wheels.given(vendor_wheel(tmp_path, needs=needs))
    assert (found.name, found.node_sides) == ("hami-acme", ("acme",))
    assert [wheels.distribution_of(need) for need in found.needs] == ["hami", "acme-driver"]
    only_scheduler = wheels.given(vendor_wheel(tmp_path, points="[hami.vendors]\nacme = hami_acme:Acme\n"))
    assert only_scheduler.node_sides == ()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.whl", b"no zip", "is not a readable wheel"),
        ("absent.whl", None, "No such file"),
        ("hami_acme-0.1.0-cp311-cp311-macosx_11_0_arm64.whl", b"", "not for the image's machine"),
        ("hami_acme-0.1.0-cp311-cp311-manylinux_2_17_aarch64.whl", b"", "not for the image's machine"),
    ],
)
def test_file_that_is_no_wheel_for_the_image_is_refused(tmp_path, capsys, name, content, words):
    path = tmp_path / name
    if content == b"":
        vendor_wheel(tmp_path, name)
    elif content:
        path.write_bytes(content)
    assert main(["--out", str(tmp_path / "out"), "--vendor-wheel", str(path)]) == 1
    assert words in capsys.readouterr().err


def test_agent_image_without_a_node_side_is_refused(tmp_path, capsys):
    words = ["--out", str(tmp_path / "out"), "--cache", str(tmp_path / "cache"), "--only", "agent-vendor"]
    assert main(words) == 1
    assert "--vendor-wheel FILE" in capsys.readouterr().err


def test_no_image_holds_a_simulated_driver():
    """Neither as a distribution that one of ours needs, nor among the sources that the interposer is built from."""
    ours = wheels.with_ours(ROOT, [name for name in wheels.DISTRIBUTIONS if name != "hami-gpusim"])
    assert "hami-gpusim" not in ours
    built = [path.relative_to(ROOT).as_posix() for path in wheels.sources(ROOT, "hami-interpose")]
    assert "interpose/src/CMakeLists.txt" in built
    assert [path for path in built if path.startswith("interpose/gpusim/")] == []


@pytest.mark.parametrize(("distribution", "has_command"), [("hami", True), ("hami_acme", True), ("other", False)])
def test_commands_of_our_own_wheels_are_in_the_image(tmp_path, distribution, has_command):
    points = "[console_scripts]\nhami = hami_core.cli.main:main\n[hami.node]\nacme = hami_acme:Acme\n"
    files, wheel = Files(), vendor_wheel(tmp_path, f"{distribution}-1-py3-none-any.whl", points=points)
    wheels.unpack(wheel, files, tmp_path / "site")
    out = tmp_path / "layer"
    out.mkdir()
    with tarfile.open(Layer.write(out, files, []).path) as layer:
        assert ("usr/local/bin/hami" in layer.getnames()) is has_command
