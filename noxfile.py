# /// script
# requires-python = ">=3.11"
# dependencies = ["nox>=2025.5"]
# ///
"""Every job of this repository, each in an environment of its own.

``nox -l`` lists them. A newcomer needs two: ``nox -s demo`` and ``nox -s tests``. Arguments after ``--`` go to the
program that a session runs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nox

nox.needs_version = ">=2025.5"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.sessions = ["lint", "tests"]
nox.options.reuse_existing_virtualenvs = True

# Sessions start hundreds of Python processes. Without bytecode files, each would compile its imports, for seconds.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

ROOT = Path(__file__).parent
# Vendor → its folder, as contrib/vendor_folders.py finds them
VENDORS = {
    path.parent.name: str(path.parent.relative_to(ROOT))
    for path in sorted([*ROOT.glob("vendors/*/pyproject.toml"), *ROOT.glob("contrib/vendors/*/pyproject.toml")])
}
PROJECT = nox.project.load_toml(ROOT / "pyproject.toml")

# Distributions with compiled libraries: libvgpu.so, the simulated driver
NATIVE = ["./interpose", "./interpose/gpusim"]

# The others are installed editable where they can be, so that tests run the code in the tree.
LOCAL = ["-e", ".[testing]", *(part for folder in VENDORS.values() for part in ("-e", f"./{folder}")), *NATIVE]

# Their tests, and folders of interpose/ with C that people write
INTERPOSE = ["interpose/tests", "interpose/gpusim/tests"]
C_SOURCES = ["src", "gpusim/src", "gpusim/include"]

# Versions for development and CI; `nox -s lock` updates them. Users get the lower bounds of pyproject.toml.
LOCK = ["--constraint", "constraints.txt"]


# Tests with these markers have sessions of their own.
NO_CLUSTER = "not soak and not gpu and not e2e and not qemu"
# Each worker gets whole files, so that fixtures shared within a file are made once. Files with long tests come first.
# Tests spend much time waiting, so there are two workers for each core.
WORKERS = 2 * len(os.sched_getaffinity(0))
PARALLEL = ["-n", str(WORKERS), "--dist", "loadfile", "--no-loadscope-reorder"]
# The newest and the oldest supported Kubernetes, each with a containerd of its time.
E2E = {"1.36": "2", "1.30": "1.7"}
# How a generated page of docs/reference names its command.
GENERATED = re.compile(r"^Generated from .*?\sby\s`python -m (.+?)`", re.MULTILINE | re.DOTALL)

# Published schema → files of ours that it describes. GitHub and other services read these files.
SCHEMAS = {
    "github-workflows": [".github/workflows/*.yml"],
    "github-issue-forms": [".github/ISSUE_TEMPLATE/[!c]*.yml"],
    "github-issue-config": [".github/ISSUE_TEMPLATE/config.yml"],
    "dependabot": [".github/dependabot.yml"],
    "readthedocs": [".readthedocs.yaml"],
    "citation-file-format": ["CITATION.cff"],
}


def group(*names: str) -> list[str]:
    """Requirements of the dependency groups."""
    return list(nox.project.dependency_groups(PROJECT, *names))


def install(session: nox.Session, *groups: str) -> None:
    """Install all local distributions and dependency groups in one call, so that they satisfy each other."""
    session.install(*LOCK, *LOCAL, *group(*groups))


def posargs(session: nox.Session, *default: str) -> list[str]:
    """The arguments after ``--``, or the default."""
    return list(session.posargs or default)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, types, import direction, GitHub's files and the format of C."""
    install(session, "lint")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run(
        "mypy",
        "hami_core",
        *(f"{folder}/src" for folder in VENDORS.values()),
        "interpose/python",
        "interpose/gpusim/python",
        "contrib/template/src",
    )
    bed = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("tests/e2e/bed/*.py"))
    ours = ["contrib/images", *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("contrib/*.py"))]
    session.run("mypy", "--explicit-package-bases", *ours, *bed)
    for schema, patterns in SCHEMAS.items():
        files = sorted(str(path.relative_to(ROOT)) for pattern in patterns for path in ROOT.glob(pattern))
        session.run("check-jsonschema", "--builtin-schema", f"vendor.{schema}", *files, silent=True)
    session.run("zizmor", "--offline", "--quiet", "--no-progress", "--min-severity", "medium", ".github", silent=True)
    session.run("python", "contrib/lint_imports.py", "--no-cache")
    sources = [str(path) for folder in C_SOURCES for path in (ROOT / "interpose" / folder).rglob("*.[ch]")]
    written_by_hand = sorted(path for path in sources if "/generated/" not in path)
    session.run("clang-format", "--dry-run", "--Werror", *written_by_hand, silent=True)


@nox.session
def tests(session: nox.Session) -> None:
    """Run all tests that need no cluster: core, vendors, interposer, vectors, integration on simulated GPUs."""
    install(session, "test")
    everything = [*PARALLEL, "--durations", "10", "tests", *INTERPOSE, "vendors", "contrib/vendors", "hami_core"]
    session.run("pytest", "-m", NO_CLUSTER, *posargs(session, *everything))


@nox.session
def core(session: nox.Session) -> None:
    """Tests of the framework alone."""
    install(session, "test")
    session.run("pytest", "-m", NO_CLUSTER, "hami_core", *posargs(session, *PARALLEL))


@nox.session(tags=["vendors"])
@nox.parametrize("vendor", [nox.param(name, id=name, tags=[name]) for name in VENDORS])
def vendor(session: nox.Session, vendor: str) -> None:
    """Unit and conformance tests of one vendor distribution."""
    install(session, "test")
    # Use this pyproject.toml: pytest would otherwise prefer a vendor's own.
    session.run("pytest", "-c", "pyproject.toml", "-m", NO_CLUSTER, VENDORS[vendor], *session.posargs)


@nox.session
def vectors(session: nox.Session) -> None:
    """The conformance vectors alone, from tests/vectors or the folder named by HAMI_VECTORS."""
    install(session, "test")
    session.run("pytest", "-m", "vectors", "tests/vectors", "vendors", "contrib/vendors", *session.posargs)


@nox.session
def interpose(session: nox.Session) -> None:
    """Test the interposer and the simulated driver, with sanitizers, without the long forms."""
    install(session, "test")
    sanitize = {"HAMI_INTERPOSE_SANITIZE": "1"}
    command = ["pytest", "-m", NO_CLUSTER]
    if session.posargs:
        session.run(*command, *INTERPOSE, *session.posargs, env=sanitize)
        return
    # These tests run in virtual time and hardly load the machine. They run beside the others, without sanitizers.
    names = ("share", "cost", "fair", "faults", "hostile", "controls")
    cells = [f"interpose/tests/compute/test_{name}.py" for name in names]
    beside = [str(Path(session.bin) / "pytest"), *command[1:], *cells]
    with tempfile.TemporaryFile("w+") as said, subprocess.Popen(beside, stdout=said, stderr=said) as running:
        try:
            ignored = [f"--ignore={path}" for path in cells]
            session.run(*command, *INTERPOSE, *ignored, env=sanitize)
        finally:
            failed = running.wait()
            said.seek(0)
            session.log(f"{', '.join(cells)}, run beside it:\n{said.read()}")
    if failed:
        session.error(f"{', '.join(cells)}: failed")


@nox.session
def minimums(session: nox.Session) -> None:
    """Tests of core and vendors with the oldest release of every library that our distributions accept."""
    if session.venv_backend == "uv":
        oldest = ["--resolution", "lowest-direct"]
    else:
        session.error("needs uv, which chooses the oldest releases: pip install uv")
    session.install(*oldest, *LOCAL, *group("test"))
    session.run("pytest", "-m", NO_CLUSTER, *posargs(session, *PARALLEL, "hami_core", "vendors", "contrib/vendors"))


@nox.session
def aarch64(session: nox.Session) -> None:
    """The interposer built for aarch64 and run by qemu-user; needs Debian's qemu-user and libc6-arm64-cross."""
    install(session, "test")
    session.run("pytest", "-m", "qemu and not soak", *INTERPOSE, *session.posargs)


@nox.session
def gpu(session: nox.Session) -> None:
    """Run the tests of tests/gpu on this machine's NVIDIA card; fails if there is none.

    It looks for PyTorch and other libraries in the Python on your path; `-- --python PATH` names another Python.
    """
    install(session, "test")
    python = shutil.which("python3") or sys.executable
    session.run("python", "-m", "tests.gpu", "--python", python, *session.posargs)


@nox.session
def demo(session: nox.Session) -> None:
    """Run the demo: a whole cluster on simulated GPUs, from manifest to enforced limit."""
    install(session, "demo")
    session.run("hami", "demo", *session.posargs)


@nox.session
def pictures(session: nox.Session) -> None:
    """Write the pictures of README and docs from a run of the demo, into docs/_static/."""
    install(session, "demo")
    session.run("python", "contrib/pictures.py")


@nox.session
def bench(session: nox.Session) -> None:
    """Measure; prints tables and stores JSON under .bench/. `-- --real` measures on real Kubernetes."""
    install(session, "test", "bench", "e2e")
    session.run("python", "-m", "tests.bench", *session.posargs)


@nox.session
def e2e(session: nox.Session) -> None:
    """Test the whole system on real Kubernetes: etcd, API server, kubelets, containerd; `-- --smoke` is the short form.

    `-- --kubernetes 1.30` runs one version only. `-- --if-possible` passes and prints the reason if the machine lacks
    something that the tests need. All other arguments go to pytest.
    """
    install(session, "test", "e2e")
    words = list(session.posargs)
    versions = list(E2E)
    if "--smoke" in words:
        versions = versions[:1]
    if "--kubernetes" in words:
        at = words.index("--kubernetes")
        versions = [words[at + 1]]
        del words[at : at + 2]
    if not any(not word.startswith("-") and Path(word.split("::")[0]).exists() for word in words):
        words.append("tests/e2e")
    for version in versions:
        containerd = [] if "--containerd" in words else ["--containerd", E2E.get(version, "2")]
        session.run("pytest", "-m", "e2e and not soak", "--kubernetes", version, *containerd, *words)


@nox.session
def soak(session: nox.Session) -> None:
    """Run the long forms of the random tests; with `-- e2e`, those on real Kubernetes, with faults under load."""
    words = list(session.posargs)
    if "e2e" in words:
        words.remove("e2e")
        install(session, "test", "e2e")
        session.run("pytest", "-m", "soak and e2e", "--timeout", "7200", *(words or ["tests/e2e"]))
        return
    install(session, "test")
    folders = words or ["hami_core", "vendors", "contrib/vendors", *INTERPOSE, "tests"]
    session.run("pytest", "-m", "soak and not e2e", "--timeout", "7200", *folders)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation; a warning is an error."""
    session.install(*LOCK, "-e", ".[testing]", *group("docs"))
    session.run("sphinx-build", "-W", "--keep-going", "-b", "html", "docs", "docs/_build/html", *session.posargs)


@nox.session(tags=["gen"])
def gen(session: nox.Session) -> None:
    """Write all generated files: C tables, stubs, Python structures, the chart schema, copies of version, pages."""
    install(session, "test")
    scripts = (
        "interpose/gen/emit.py",
        "interpose/gen/layouts.py",
        "interpose/gpusim/gen_stubs.py",
        "contrib/helm/generate.py",
        "contrib/distributions.py",
    )
    for script in scripts:
        session.run("python", script)
    session.run("python", "-m", "tests.gpu", "--page")
    for page in sorted(ROOT.glob("docs/reference/*.md")):
        command = GENERATED.search(page.read_text("utf-8"))
        if command:
            text = session.run("python", "-m", *command[1].split(), silent=True, log=False)
            page.write_text(str(text), "utf-8")
            session.log(f"python -m {command[1]} > {page.relative_to(ROOT)}")


@nox.session(tags=["gen"])
def protos(session: nox.Session) -> None:
    """Generate the Python code of the kubelet's gRPC interfaces and of the embedded cluster's protobuf messages."""
    # Generated code needs the protobuf and grpcio that made it, or later ones: use the oldest that `hami` accepts.
    session.install("grpcio-tools==1.74.0", "mypy-protobuf==5.1.0")
    kinds = ("--python_out=.", "--grpc_python_out=.", "--mypy_out=quiet:.", "--mypy_grpc_out=quiet:.")
    files = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("hami_core/agent/proto/*.proto"))
    session.run("python", "-m", "grpc_tools.protoc", "-I.", *kinds, *files)
    session.run("python", "-m", "grpc_tools.protoc", "-I.", "--python_out=.", "hami_core/sim/proto/kubernetes.proto")


@nox.session
def version(session: nox.Session) -> None:
    """Set the version of all distributions: `-- 0.2.0`. contrib/distributions.py says which files it writes."""
    if len(session.posargs) != 1:
        session.error("write one version: nox -s version -- 0.2.0")
    session.run("python", "contrib/distributions.py", *session.posargs)


@nox.session
def changelog(session: nox.Session) -> None:
    """Print what docs/changes adds to CHANGELOG.md; `-- --yes` writes it there and removes the fragments."""
    session.install(*LOCK, *group("changelog"))
    number = str(session.run("python", "contrib/distributions.py", "--version", silent=True)).strip()
    session.run("towncrier", "build", "--version", number, *posargs(session, "--draft"))


@nox.session
def build(session: nox.Session) -> None:
    """Build wheels and sdists, install the wheels into an empty environment, import each."""
    out = ROOT / "dist"
    shutil.rmtree(out, ignore_errors=True)
    session.install("build")
    for folder in (".", *NATIVE, *VENDORS.values()):
        session.run("python", "-m", "build", "--outdir", str(out), folder, silent=True)
    fresh = Path(session.create_tmp()).resolve() / "empty"
    session.run(sys.executable, "-m", "venv", "--clear", str(fresh), external=True)
    wheels = [str(path) for path in sorted(out.glob("*.whl"))]
    python = str(fresh / "bin" / "python")
    # Wheels are named by path, so that none of ours comes from an index. The extra proves that they fit each other.
    session.run(python, "-m", "pip", "install", "-q", *wheels, "hami[all]", external=True)
    names = ["hami_core", "hami_interpose", "hami_gpusim", *(f"hami_{v}" for v in VENDORS)]
    script = "; ".join(f"import {name}" for name in names) + "; print('imported', " + ", ".join(map(repr, names)) + ")"
    with session.chdir(str(fresh)):
        session.run(python, "-c", script, external=True)
        session.run(str(fresh / "bin" / "hami"), "plugins", external=True, env={"PATH": os.environ["PATH"]})


@nox.session
def wheels(session: nox.Session) -> None:
    """Build wheels with C for x86_64 and aarch64, glibc 2.17 and newer, into dist/; `-- --help` says more."""
    session.install(*LOCK, *group("wheels"))
    session.run("python", "interpose/gen/wheels.py", *session.posargs)


@nox.session
def lock(session: nox.Session) -> None:
    """Write constraints.txt: the newest release of each dependency, for every Python that we support."""
    session.install("uv")
    wanted = set(group("test", "e2e", "demo", "bench", "lint", "docs", "changelog"))
    wanted.update(*PROJECT["tool"]["hatch"]["metadata"]["hooks"]["custom"]["optional-dependencies"].values())
    for folder in (".", *NATIVE, *VENDORS.values()):
        project = nox.project.load_toml(ROOT / folder / "pyproject.toml")["project"]
        wanted.update(project["dependencies"], *project.get("optional-dependencies", {}).values())
    source = Path(session.create_tmp()).resolve() / "wanted.txt"
    source.write_text("".join(f"{line}\n" for line in sorted(wanted) if not line.startswith("hami")))
    options = [
        "--universal",
        "--python-version",
        "3.11",
        "--no-annotate",
        "--no-header",
        "--no-emit-index-url",
        "--quiet",
    ]
    session.run("uv", "pip", "compile", *options, "--upgrade", "--output-file", "constraints.txt", str(source))
