"""libFuzzer on the readers of files that others write: promises of fuzz/*.c, which hold for whatever the bytes are.

The short form is so many runs from known seeds and the same on every machine; the long form, `soak`, starts from
another number each time and prints it.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hami_interpose import region
from hami_interpose.limits import DeviceLimit, Limits

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parent
SHORT_FORM = pytest.param(1, marks=pytest.mark.timeout(900))
LONG_FORM = pytest.param(50, marks=[pytest.mark.soak, pytest.mark.timeout(7200)])
FLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-g", "-O1", "-fno-omit-frame-pointer"]
# A target leaves functions that it never calls, and whatever they need, unresolved.
PARTIAL = ["-no-pie", "-Wl,--unresolved-symbols=ignore-all"]
SANITIZE = ["-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all"]


@cache
def clang() -> tuple[str, str]:
    """A clang that links fuzz targets, or "" and why there is none."""
    program = "#include <stdint.h>\n#include <stddef.h>\nint LLVMFuzzerTestOneInput(const uint8_t *d, size_t s);\n"
    program += "int LLVMFuzzerTestOneInput(const uint8_t *d, size_t s) { return s > 0 && d[0] == 1 ? 0 : 0; }\n"
    why = "no clang"
    for name in ["clang", *(f"clang-{version}" for version in range(30, 13, -1))]:
        if shutil.which(name) is None:
            continue
        command = [name, *SANITIZE, "-x", "c", "-", "-o", os.devnull]
        done = subprocess.run(command, input=program, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return name, ""
        why = f"{name} does not link a fuzzer: {done.stderr.strip().splitlines()[0]}"
    return "", f"{why}; on Debian: apt install clang libclang-rt-dev"


def limits_seeds() -> dict[str, bytes]:
    """The samples of the format."""
    return {f"{path.parent.name}-{path.name}": path.read_bytes() for path in (HERE / "data/limits").glob("*/*")}


# As fuzz/region.c reads its input: kinds of damage, places and values by number.
WORD, OWNER, HELD, SLOT, OUT, CORES, SHARE, SHARES_USED = 0, 2, 3, 4, 5, 6, 7, 8
PROCESS_NUM, DEAD, PARENT, VALUES = 24, 15, 16, 17
CHARGE, RELEASE, SHARING, SUSPENDING = 0, 1, 5, 6


def region_seeds() -> dict[str, bytes]:
    """Damages around which arithmetic turns: what a dead process left, and what living ones hold."""

    def seed(*damages: tuple[int, ...], use: tuple[int, ...] = ()) -> bytes:
        return bytes([0, len(damages), *itertools.chain(*damages), *use])

    seeds = {"whole": seed(), "shorter": bytes([210, 1, 2, 3]), "longer": bytes([230, 0, 0, 0])}
    seeds |= {f"word{i}": seed((WORD, i, 1)) for i in range(PROCESS_NUM + 1)}
    seeds |= {f"other{i}": bytes([240 + i]) for i in range(4)}
    left = ((WORD, PROCESS_NUM, 2), (OWNER, 0, DEAD))
    alive = ((WORD, PROCESS_NUM, 2), (OWNER, 0, PARENT))
    for value in range(VALUES):
        seeds[f"left{value}"] = seed(*left, (HELD, 0, 0, value), use=(CHARGE, 1, 6, 0, CHARGE, 3, 6, 0))
        seeds[f"held{value}"] = seed(*alive, (HELD, 0, 0, value), use=(CHARGE, 1, 6, 0, CHARGE, 4, 6, 0, RELEASE, 3, 0))
        seeds[f"out{value}"] = seed(*left, (OUT, 0, value), (CORES, 0, 1))
        seeds[f"owner{value}"] = seed((WORD, PROCESS_NUM, 2), (OWNER, 0, value), (SLOT, 0, 0, value))
        seeds[f"share{value}"] = seed(
            *alive, (SHARE, 0, 0, value), (SHARE, 0, 2, 1), (SHARES_USED, value), use=(SHARING, 1, 3, 1, 2)
        )
        seeds[f"suspended{value}"] = seed(*alive, use=(SUSPENDING, 0, value % 8))
    return seeds


def turn_seeds() -> dict[str, bytes]:
    """Pages on which somebody has the turn, alive or not, or claims long launches, or two give it to and fro.

    Then what this container does.
    """
    deeds = bytes([0, 1, 2, 3, 4, 5, 0])
    busy = bytes([2, 0, *(4, 250, 15, 3, 0, 0, 0) * 3])  # work is under way, and completes just after a look
    boast = bytes([0, 4, 1, 4, 1, 1, 6, 9, 1, 7, 17, 1, 1, 19, 2, *(3, *[0] * 12) * 3])  # slot 1 lives and has the turn
    pages = {"free": (0, 0), "restless": (1, 0), "held": (0, 1, 0, 10, 1), "silent": (0, 2, 0, 10, 1, 1, 6, 0)}
    return {name: bytes(page) + deeds for name, page in pages.items()} | {"busy": busy, "boast": boast}


@dataclass(frozen=True)
class Target:
    """A program of fuzz/, with what it is linked with besides."""

    runs: int
    seeds: Callable[[], dict[str, bytes]]
    longest: int = 512
    options: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


TARGETS = {
    "limits": Target(150_000, limits_seeds, 66_000, (f"-dict={HERE / 'fuzz/limits.dict'}",)),
    "region": Target(30_000, region_seeds, 256, sources=("ledger/ledger.c", "ledger/process.c", "compute/balance.c")),
    "turn": Target(60_000, turn_seeds),
}


@pytest.fixture
def fuzz(tmp_path):
    """Builds a target of a tree and runs it so often, or fewer times until the first finding."""
    compiler, why = clang()
    if not compiler:
        pytest.skip(why)
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # the targets write thousands of files a second
    with tempfile.TemporaryDirectory(prefix="hami-fuzz-", dir=memory) as scratch:

        def run(name: str, runs: int, seed: int, tree: Path = HERE.parent) -> subprocess.CompletedProcess[str]:
            target, program = TARGETS[name], tmp_path / name
            files = [tree / "tests/fuzz" / f"{name}.c", *(tree / "src" / source for source in target.sources)]
            command = [compiler, *FLAGS, *SANITIZE, *PARTIAL, f"-I{tree / 'src'}", f"-I{tree / 'generated'}", *files]
            subprocess.run([*map(str, command), "-o", program], check=True)
            for folder in ("corpus", "seeds"):
                (tmp_path / folder).mkdir()
            for seed_name, content in target.seeds().items():
                (tmp_path / "seeds" / seed_name).write_bytes(content)
            limits = Limits((DeviceLimit("GPU-1", 100 << 20, 50 << 20, 30), DeviceLimit("GPU-2", 0, 0)), generation=9)
            (tmp_path / "initial").write_bytes(region.initial(limits))
            env = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
            env |= {"HAMI_FUZZ_DIR": scratch, "HAMI_FUZZ_REGION": str(tmp_path / "initial")}
            options = [f"-runs={runs}", f"-seed={seed}", f"-max_len={target.longest}", "-timeout=120"]
            options += ["-print_final_stats=1", f"-artifact_prefix={tmp_path}/", *target.options, "corpus", "seeds"]
            return subprocess.run(
                [program, *options], env=env, cwd=tmp_path, capture_output=True, text=True, check=False
            )

        yield run


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("times", [SHORT_FORM, LONG_FORM])
def test_no_input_breaks_a_promise(fuzz, name, times):
    seed = 1 if times == 1 else int.from_bytes(os.urandom(3)) + 1
    runs = TARGETS[name].runs * times
    done = fuzz(name, runs, seed)
    lines = [line for line in done.stderr.splitlines() if not re.search("NEW|REDUCE|pulse", line)]
    report = "\n".join([*lines[-60:], f"seed {seed}"])
    assert done.returncode == 0, report
    [executed] = re.findall(r"stat::number_of_executed_units: *(\d+)", done.stderr)
    assert int(executed) >= runs, report
    print(next(line for line in lines if "DONE" in line), f"seed {seed}")


DEFECTS = {  # target and source: what stands there, what a careless hand would have written
    ("limits", "ledger/limits.c"): {
        "a number that wraps": ("strncmp(*at, line, (size_t)length) == 0", "strchr(*at, '\\n') != NULL"),
        "a cut UUID": ("device %95s", "device %96s"),
        "twice the same device": ("ok = strcmp(", "ok = true || strcmp("),
        "one device too many": ("device_count < HAMI_DEVICES", "device_count <= HAMI_DEVICES"),
        "something behind the end": ('strcmp(text, "end\\n") == 0', 'strncmp(text, "end\\n", 4) == 0'),
    },
    ("region", "ledger/region.c"): {
        "another block version": ("memcmp(&region->block, &block_head, HEAD_BYTES) == 0", "true"),
        "a shorter file": (" == (off_t)HAMI_REGION_SIZE", " <= (off_t)HAMI_REGION_SIZE"),
        "a link": ("O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK", "O_RDWR | O_CLOEXEC | O_NONBLOCK"),
        "a descriptor left open": ("(void)close(low);", ""),
    },
    ("region", "ledger/ledger.c"): {
        "a sum that wraps": ("return pages < HAMI_PAGES_MAX ? pages : HAMI_PAGES_MAX;", "return pages;"),
        "more slots than there are": (
            "number < 0 || number > HAMI_PROCESSES ? HAMI_PROCESSES : (unsigned)number",
            "(unsigned)number & 0xffffff",
        ),
        "words that are not cleared": ("ledger_store(&block->held[counter][slot], 0);", ""),
        "more shares than there are": ("return used < HAMI_SHARES ? used : HAMI_SHARES;", "return used;"),
    },
    ("turn", "compute/turn.c"): {
        "a holder beyond the page": ("holder != 0 && holder <= HAMI_TURN_SLOTS", "holder != 0"),
        "others' work believed for ever": ("seen.frontier <= end && seen.frontier <= last", "true"),
        "a launch as long as somebody says": (
            "earlier(slot->life.longest_launch, LAUNCH_BELIEVED_NS)",
            "slot->life.longest_launch",
        ),
    },
    ("turn", "compute/gate.c"): {
        "turns to and fro for ever": (" || s->now - w->turns_began >= TURNS_MOST_NS", ""),
        "a completion overlooked": ("w->looked, EVERY_BIT", "atomic_load(&d->shared->completions), EVERY_BIT"),
    },
}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("defect", [defect for defects in DEFECTS.values() for defect in defects])
def test_defect_in_the_source_is_found(fuzz, tmp_path, defect):
    [((name, source), right, wrong)] = [(at, *all_[defect]) for at, all_ in DEFECTS.items() if defect in all_]
    tree = tmp_path / "tree"
    for folder in ("src", "generated", "tests/fuzz"):
        shutil.copytree(HERE.parent / folder, tree / folder)
    text = (tree / "src" / source).read_text()
    assert text.count(right) == 1, f"{source} has changed: {right}"
    (tree / "src" / source).write_text(text.replace(right, wrong))
    done = fuzz(name, TARGETS[name].runs, 1, tree)
    assert done.returncode != 0
    assert "broken promise" in done.stderr or "SUMMARY" in done.stderr, done.stderr[-4000:]
