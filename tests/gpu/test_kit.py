"""The kit on the simulated driver: it finds no fault there, and finds each fault that a test adds."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import hami_gpusim as sim
import hami_interpose
import pytest
from hami_interpose.limits import CorePolicy, Mode

from tests.gpu import __main__ as kit
from tests.gpu import compute, cost, doors, facts, memory, page, priority
from tests.gpu.bed import ROOT, Bed, Container, Process, run_compiler
from tests.gpu.report import RESULTS, SIMULATED, Part, State, read

BRIEF = compute.Times(bare=0.5, short=2.2, long=2.2, pair=2.2)


@pytest.fixture
def bed(tmp_path):
    sim.create(tmp_path / "gpus", "h100", seed="kit")
    with Bed(tmp_path, library=hami_interpose.library(), simulated=tmp_path / "gpus") as made:
        yield made


def ran(part: Part) -> dict[str, State]:
    print(*(f"{row.state} {row.name}: {row.says}" for row in part.rows), sep="\n")
    return {row.name: row.state for row in part.rows}


def broken(part: Part) -> set[str]:
    return {name for name, state in ran(part).items() if state is State.BROKEN}


@pytest.mark.parametrize("run", [doors.run, memory.run, facts.run], ids=lambda run: run.__module__.rpartition(".")[2])
def test_promises_hold_on_the_simulated_driver(bed, run):
    part = Part()
    run(bed, part)
    found = ran(part)
    assert State.BROKEN not in found.values()
    assert State.HOLDS in found.values()


def test_shares_calls_and_priorities_are_measured(bed):
    """The figures depend on how busy this machine is. interpose/tests/compute has exact tests in virtual time."""
    parts = [Part() for _ in range(3)]
    compute.run(bed, parts[0], BRIEF, kinds=("100 us", "1 ms"), limits=(25, 50), pairs=((30, 70),))
    cost.run(bed, parts[1], rounds=50)
    priority.run(bed, parts[2], seconds=1.0)
    shares = {row.name: row.figures.get("share_percent", 0) for row in parts[0].rows}
    assert abs(shares["100 us at 25 %"] - 25) < 15, ran(parts[0])
    assert abs(shares["1 ms at 50 %"] - 50) < 15, ran(parts[0])
    assert len(shares) == 4 + 2 * 2
    assert "a launch" in ran(parts[1])
    assert set(ran(parts[2])) == {"alone", "bare sharing", "with our priority"}


@pytest.fixture
def containers(bed, monkeypatch):
    """Change the arguments of every container, or the container itself."""

    def change(how=None, **changed):
        made = Bed.container

        def container(self, **asked):
            found = made(self, **{**asked, **changed})
            return how(found) if how else found

        monkeypatch.setattr(Bed, "container", container)

    return change


def test_doors_report_a_program_without_limits(bed, containers):
    containers(lambda container: replace(container, root=None))
    part = Part()
    doors.run(bed, part)
    wrong = broken(part)
    assert {"driver API and NVML, from C", "cuGetProcAddress, every version", "cuda-bindings", "nvidia-ml-py"} <= wrong


def test_doors_report_a_library_that_prints(bed, tmp_path):
    source, loud = tmp_path / "loud.c", tmp_path / "loud.so"
    source.write_text(
        '#include <stdio.h>\n__attribute__((constructor)) static void f(void) { fputs("vgpu\\n", stderr); }\n'
    )
    run_compiler(["gcc", "-shared", "-fPIC", str(source), "-o", str(loud), "-Wl,--no-as-needed", str(bed.library)])
    bed.library = loud
    part = Part()
    doors.run(bed, part)
    assert {"driver API and NVML, from C", "cuda-bindings", "nvidia-ml-py"} <= broken(part)


def test_memory_reports_a_limit_that_is_not_enforced(bed, containers):
    containers(mode=Mode.OBSERVE)
    part = Part()
    memory.run(bed, part)
    filled = {name for name, _, _ in memory.KINDS}
    assert filled | {"two processes together", "cuda-bindings", "numba-cuda"} <= broken(part)


def test_memory_reports_a_slice_that_is_too_small(bed, containers):
    containers(memory_mib=memory.LIMIT_MIB // 2)
    part = Part()
    memory.run(bed, part)
    assert {name for name, _, _ in memory.KINDS} <= broken(part)


def test_memory_reports_shared_memory_that_is_not_counted(bed, containers):
    containers(mode=Mode.OFF)
    part = Part()
    memory.run(bed, part)
    assert "memory shared by IPC" in broken(part)


def test_memory_reports_memory_that_is_not_freed(bed, monkeypatch):
    monkeypatch.setattr(Process, "end", lambda self, *, kill=False: 0)
    monkeypatch.setattr(Bed, "__exit__", lambda self, *_: [p.process.kill() for p in self._processes])
    part = Part()
    memory.run(bed, part)
    assert {"after exit", "after SIGKILL", "after all of it"} <= broken(part)


def test_compute_reports_a_share_that_is_not_enforced(bed, containers):
    containers(policy=CorePolicy.DISABLE)
    part = Part()
    limits = Bed.limits
    bed.limits = lambda *words, **more: limits(bed, *words, **{**more, "policy": CorePolicy.DISABLE})
    compute.run(bed, part, BRIEF, kinds=("1 ms",), limits=(25, 50), pairs=((20, 80),))
    assert {"1 ms at 25 %", "1 ms at 50 %", "1 ms at 20 % beside 80 %"} <= broken(part)


def test_cost_reports_a_slow_library(bed, tmp_path):
    run_compiler(
        ["gcc", "-shared", "-fPIC", "-O1", str(ROOT / "tests/gpu/programs/slow.c"), "-o", f"{tmp_path}/slow.so"]
    )
    bed.library = tmp_path / "slow.so"
    part = Part()
    cost.run(bed, part, rounds=50)
    assert broken(part) == {"a launch"}


def test_priority_reports_an_agent_that_stops_nobody(bed, monkeypatch):
    rule = priority.agent_rule()
    rule.feedback = lambda tenants, words: words
    monkeypatch.setattr(priority, "agent_rule", lambda: rule)
    part = Part()
    priority.run(bed, part, seconds=2.0)
    assert broken(part) == {"with our priority"}


def test_facts_report_a_driver_with_other_answers(bed, monkeypatch):
    monkeypatch.setenv("HAMI_SIM_POOL_STEP_MIB", "2")
    part = Part()
    facts.run(bed, part)
    assert "a pool's reserve with 1 MiB" in broken(part)


UNEXPLAINED = {"taken by 1 MiB"}
"""One figure does not show a driver's rule. The simulated driver, and our count, keep to the larger figure."""


def test_simulated_driver_answers_as_recorded_cards(bed):
    answers = facts.ask(bed)
    for path in sorted(RESULTS.glob("*.json")):
        card = {row.name: row.figures["answer"] for row in read(path).parts["facts"].rows}
        left_out = set() if path == SIMULATED else UNEXPLAINED
        expected = {question: answer for question, answer in card.items() if question not in left_out}
        assert {question: answers[question] for question in expected} == expected, path.stem
        assert answers.keys() - left_out == expected.keys(), path.stem


@pytest.mark.gpu
@pytest.mark.timeout(600)
def test_promises_hold_on_this_machines_card():
    assert kit.main([]) == 0


def call(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.gpu", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=env or None)


def test_run_builds_the_library_and_writes_json(tmp_path):
    done = call("--simulated", "--parts", "doors,facts", "--json", str(tmp_path / "found.json"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok     driver API and NVML, from C: sees 3000 MiB" in done.stdout
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["machine"]["library"] == "built by the kit with gcc"
    assert found["parts"]["doors"]["rows"][0]["figures"] == {"total_mib": 3000}
    assert read(tmp_path / "found.json").command.startswith("python -m tests.gpu --simulated")


def test_run_without_a_card_fails():
    done = call("--library", str(hami_interpose.library()))
    assert done.returncode == 2
    assert "can't find NVIDIA card 0: libnvidia-ml.so.1" in done.stderr
    assert done.stdout == ""


def test_unknown_part_is_refused_by_name():
    done = call("--simulated", "--parts", "memroy")
    assert done.returncode == 2
    assert "unknown part 'memroy'; choose from doors, memory, facts, compute, priority, cost" in done.stderr


def test_part_beyond_its_time_limit_ends_with_a_row(bed):
    part = Part()
    kit.run_part(bed, part, 1, compute.run)
    assert "did not end within 1 s" in part.rows[-1].says
    assert bed.watch() >= 0, "the observer must still run"


def test_exception_in_a_part_becomes_a_row(bed, monkeypatch):
    monkeypatch.setattr(Container, "shell", lambda self: self.start("/nonexistent"))
    part = Part()
    kit.run_part(bed, part, 30, memory.run)
    assert "FileNotFoundError" in part.rows[-1].says


@pytest.mark.parametrize(
    ("changed", "notice"),
    [
        ({"processes": 2}, "2 other processes use the card"),
        ({"processes": 0, "used": 1 << 40}, "1048576 MiB of the card are in use by processes that NVML does not show"),
        ({"processes": None}, "NVML does not report memory by process"),
        ({"utilization": False}, "NVML does not report utilization"),
        ({"mig": True}, "the card is in MIG mode"),
    ],
)
def test_unreliable_machine_gets_a_notice(bed, changed, notice):
    bed.card |= changed
    assert any(found.startswith(notice) for found in kit.notices(bed))


def test_page_is_up_to_date_with_the_kept_runs():
    assert page.PAGE.read_text() == page.render(), "run `python -m tests.gpu --page`"
