"""Wrong files are refused with file, row, key and fix, and hostile names reach no terminal."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys

import pytest
import structlog
from click.testing import CliRunner

from hami_core.cli.main import root
from hami_core.documents import MAX_BYTES, load_mapping
from hami_core.errors import ConfigError, HamiError
from hami_core.policies import PolicyDefaults
from hami_core.simulate.clusterfile import described_world
from hami_core.simulate.run import policies_of
from hami_core.simulate.workload import admitted, jobs_of
from hami_core.tests.simulate.cases import vendors, world

ROW = "{name: n, family: NVIDIA, cards: 2, memoryMiB: 1000%s}"
JSON_POD = '{"spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}'
POD = "{spec: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 1}}}]}}"


def cluster(text):
    return described_world(load_mapping(text, "c.yaml"), vendors(), "c.yaml")


def pods(text, name="w.yaml"):
    jobs, _ = jobs_of(text, name)
    return admitted(world().open(PolicyDefaults()), jobs)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "c.yaml: nodes: is required"),
        ("nodes: []", "c.yaml: nodes: must be of a length of at least 1"),
        ("nodes: 3", "c.yaml: nodes: expected a list, got 3"),
        (f"nodes: [{ROW % ', crads: 2'}]", "c.yaml: nodes[0].crads: is not a known key (did you mean cards?)"),
        (f"nodes: [{ROW % ', slots: -1'}]", "c.yaml: nodes[0].slots: must be at least 1, got -1"),
        (f"nodes: [{ROW % ', cores: 1000000'}]", "c.yaml: nodes[0].cores: must be at most 10000, got 1000000"),
        (f"nodes: [{ROW % ', count: 1e30'}]", "c.yaml: nodes[0].count: expected a whole number"),
        (f"nodes: [{ROW % ', count: true'}]", "c.yaml: nodes[0].count: expected a whole number, got True"),
        (f"nodes: [{ROW % ', slots: two'}]", "c.yaml: nodes[0].slots: expected a whole number, got 'two'"),
        (f"nodes: [{ROW % ', slots: .nan'}]", "c.yaml, line 1, column 69: .nan is not a number in JSON"),
        (f"nodes: [{ROW % ', labels: {a: 1}'}]", "c.yaml: nodes[0].labels.a: expected text; quote it, got 1"),
        (f"nodes: [{ROW % ', numaNodes: 3'}]", "c.yaml: nodes[0].numaNodes: 3 for 2 cards (write at most one a card)"),
        (f"nodes: [{ROW % ', count: 2'}]", "c.yaml: nodes[0].name: 'n' names 2 nodes alike (write {} where"),
        (f"nodes: [{ROW % ''}, {ROW % ''}]", "c.yaml: nodes[1].name: 'n' is the name of a node in nodes[0] too"),
        ('nodes: [{name: "\\e[31m", family: NVIDIA, cards: 1, memoryMiB: 1}]', "has control characters"),
        ("nodes: [{name: n, family: NVIDA, cards: 1, memoryMiB: 1}]", "c.yaml: nodes[0].family: 'NVIDA' is none of"),
        (f"nodes: [{', '.join([ROW % ', count: 200000'] * 2)}]", "400000 nodes, at most 200000 can be simulated"),
        *(
            (f"quotas: [{{namespace: a, hard: {{}}}}, {{namespace: b, hard: {{{hard}}}}}]\nnodes: [{ROW % ''}]", said)
            for hard, said in (
                (
                    "limits.nvidia.com/gpumme: 5",
                    "c.yaml: quotas[1].hard[limits.nvidia.com/gpumme]: nobody enforces it (did",
                ),
                (
                    "nvidia.com/gpumem: 5",
                    "quotas[1].hard[nvidia.com/gpumem]: nobody enforces it (write limits.nvidia.com",
                ),
                ("limits.nvidia.com/gpumem: lots", "quotas[1].hard[limits.nvidia.com/gpumem]: 'lots' is no"),
                ("limits.nvidia.com/gpu: -1", "quotas[1].hard[limits.nvidia.com/gpu]: "),
                (
                    "limits.nvidia.con/gpumem: 5",
                    "'limits.nvidia.con/gpumem' limits no devices, and is not simulated (did",
                ),
                (
                    "requests.nvidia.com/gpu: 5",
                    "'requests.nvidia.com/gpu' limits no devices, and is not simulated (did",
                ),
                ("requests.cpu: 5", "c.yaml: quotas[1].hard: 'requests.cpu' limits no devices, and is not simulated"),
                ('"\\e[31m": 5', "c.yaml: quotas[1].hard: '\\x1b[31m' limits no devices"),
            )
        ),
        ("quotas: [{namespace: '', hard: {}}]\nnodes: [" + ROW % "" + "]", "c.yaml: quotas[0].namespace"),
    ],
)
def test_wrong_cluster_file_is_refused_with_row_and_fix(text, said):
    with pytest.raises(ConfigError) as refused:
        cluster(text)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "w.yaml: has neither jobs nor generate"),
        ("job: []", "w.yaml: job: is not a known key (did you mean jobs?)"),
        ("jobs: [{arrival: 1}]", "w.yaml: jobs[0].pod: is required"),
        (f"jobs: [{{pod: {POD}, arival: 1}}]", "w.yaml: jobs[0].arival: is not a known key (did you mean arrival?)"),
        (f"jobs: [{{pod: {POD}, arrival: -1}}]", "w.yaml: jobs[0].arrival: -1.0 is out of range (write 0 to"),
        (f"jobs: [{{pod: {POD}, duration: 1.0e+300}}]", "w.yaml: jobs[0].duration: 1e+300 is out of range"),
        (f"jobs: [{{pod: {POD}, duration: 2 weeks}}]", "w.yaml: jobs[0].duration: '2 weeks' is not a time (write"),
        (f"jobs: [{{pod: {POD}, arrival: .nan}}]", ".nan is not a number in JSON"),
        (f"jobs: [{{pod: {POD}, arrival: nan}}]", "w.yaml: jobs[0].arrival: 'nan' is not a time"),
        (f"jobs: [{{pod: {POD}, count: 0}}]", "w.yaml: jobs[0].count: must be at least 1, got 0"),
        (f"jobs: [{{pod: {POD}}}, {{pod: {POD}, count: 5000000}}]", "w.yaml: jobs[1].count: more than 5000000 pods"),
        (f"jobs: [{{pod: {POD}, count: 3, every: 9.0e+8}}]", "w.yaml: jobs[0].every: the last pod arrives after"),
        ("jobs: [{pod: {}}]", "w.yaml: jobs[0].pod: has no spec with containers"),
        ("jobs: [{pod: {spec: {containers: 1}}}]", "w.yaml: jobs[0].pod: admission refuses it"),
        ("jobs: [{pod: {spec: {containers: [{name: a}]}}}]", "w.yaml: jobs[0].pod: no container asks for devices"),
        (f"jobs: [{{pod: {POD.replace(': 1}', ': -1}')}}}]", "w.yaml: jobs[0].pod: admission refuses it"),
        ("generate: {pods: 1, load: .inf}", ".inf is not a number in JSON"),
        ("generate: {pods: 1, load: 0}", "w.yaml: generate.load: must be more than 0.0, got 0"),
        ("generate: {pods: 10000000}", "w.yaml: generate.pods: must be at most 5000000"),
    ],
)
def test_wrong_workload_file_is_refused_with_job_and_fix(text, said):
    with pytest.raises(HamiError) as refused:
        pods(text)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"arrival": NaN, "pod": {}}', "w.jsonl: line 2: is not JSON: NaN is not a number in JSON"),
        ('{"arrival": 1e999, "pod": {"spec": {}}}', "w.jsonl: line 2.arrival: inf is out of range"),
        ("[]", "w.jsonl: line 2: expected a mapping"),
        ("{", "w.jsonl: line 2, line 1, column 2: is not JSON"),
    ],
)
def test_wrong_line_is_refused_with_its_number(line, said):
    with pytest.raises(ConfigError) as refused:
        pods(
            json.dumps({"pod": {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 1}}}]}}})
            + "\n"
            + line,
            "w.jsonl",
        )
    assert said in str(refused.value)


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85"])
def test_line_ends_only_where_json_lines_do(separator):
    job = json.dumps({"name": f"a{separator}b", "pod": json.loads(JSON_POD)}, ensure_ascii=False)
    assert len(pods(f"{job}\r\n\n{job}\n", "w.jsonl")) == 2


@pytest.mark.parametrize("text", ["binpack", "bin/spread", "spread/binpak", "spread/mutex,numa", "", "spread/"])
def test_wrong_policies_are_refused(text):
    with pytest.raises(ConfigError, match="--policies"):
        policies_of(text)


# --- through the command line ------------------------------------------------------------------------------------


@pytest.fixture
def simulate(tmp_path, monkeypatch):
    """Runs `hami simulate` in a folder with a cluster and a workload."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HAMI_PLUGINS", "nvidia")
    (tmp_path / "c.yaml").write_text(f"nodes: [{ROW % ''}]")
    (tmp_path / "w.yaml").write_text(f"jobs: [{{name: small, duration: 5, count: 3, pod: {POD}}}]")

    def run(*arguments):
        return CliRunner().invoke(root, ["simulate", *arguments])

    logging = structlog.get_config()
    yield run
    structlog.configure(**logging)


def test_table_has_a_row_for_each_policy(simulate):
    done = simulate("c.yaml", "w.yaml")
    assert done.exit_code == 0, done.output
    about, titles, *rows = done.stdout.splitlines()
    assert about == "1 node, 2 cards, 2000 MiB; 3 pods of 1 shape arrive within 0 s"
    assert titles.split()[:4] == ["policy", "memory-%", "cores-%", "cards-%"]
    assert [row.split()[0] for row in rows] == ["binpack/binpack", "binpack/spread", "spread/binpack", "spread/spread"]
    assert all(len(row.split()) == len(titles.split()) for row in rows)


def test_json_names_units_and_has_the_series(simulate):
    done = simulate("c.yaml", "w.yaml", "--policies", "spread/numa,binpack", "-o", "json")
    found = json.loads(done.stdout)
    assert found["cluster"] == {"nodes": 1, "cards": 2, "memoryMiB": 2000}
    [policy] = found["policies"]
    assert (policy["node"], policy["device"], policy["placed"]) == ("spread", "numa,binpack", 3)
    assert policy["waitSeconds"]["max"] == 5
    assert len(policy["series"]["timeSeconds"]) == len(policy["series"]["memory"])


def test_hostile_name_of_a_job_reaches_no_terminal(simulate, tmp_path):
    hostile = "\x1b[31m[red]evil\x07\u202e\n"
    pod = {"spec": {"containers": [{"name": "\x1b]0;x\x07", "resources": {"limits": {"nvidia.com/gpu": 50}}}]}}
    (tmp_path / "w.yaml").write_text(json.dumps({"jobs": [{"name": hostile, "pod": pod}]}))
    done = simulate("c.yaml", "w.yaml")
    assert done.exit_code == 0, done.output
    assert "never placed: 1 pod like [31m[red]evil" in done.output
    assert all(character.isprintable() or character == "\n" for character in done.output)


@pytest.mark.parametrize("limits", [{"nvidia.com/gpu": -1}, {"nvidia.com/gpu": 1, "nvidia.com/gpucores": "x"}])
def test_hostile_name_of_a_refused_container_is_one_plain_line(limits):
    pod = {"spec": {"containers": [{"name": "\x1b[31mevil\n\u202e", "resources": {"limits": limits}}]}}
    with pytest.raises(ConfigError) as refused:
        pods(json.dumps({"jobs": [{"pod": pod}]}))
    assert "w.yaml: jobs[0].pod: admission refuses it: " in str(refused.value)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("wrong", ["missing.yaml", "."])
def test_file_that_cant_be_read_is_named(simulate, wrong):
    done = simulate(wrong, "w.yaml")
    assert isinstance(done.exception, ConfigError)
    assert f"{wrong}: can't be read" in str(done.exception)


def test_document_that_is_too_long_is_named_with_the_way_out(simulate, tmp_path):
    (tmp_path / "w.yaml").write_text("#" * (MAX_BYTES + 1))
    assert str(simulate("c.yaml", "w.yaml").exception) == (
        f"w.yaml: is longer than {MAX_BYTES >> 20} MiB (write one job a line, in a file *.jsonl)"
    )
    (tmp_path / "w.jsonl").write_text(" " * MAX_BYTES + f'\n{{"duration": 1, "pod": {JSON_POD}}}\n')
    assert simulate("c.yaml", "w.jsonl").exit_code == 0


def test_generated_workload_is_the_same_for_the_same_seed(simulate, tmp_path):
    for name in ("a.jsonl", "b.jsonl"):
        assert simulate("generate", "c.yaml", "--pods", "50", "--seed", "7", "-o", name).exit_code == 0
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    (tmp_path / "g.yaml").write_text("generate: {pods: 50, seed: 7}")
    kept, drawn = simulate("c.yaml", "a.jsonl", "-o", "json"), simulate("c.yaml", "g.yaml", "-o", "json")
    first, second = json.loads(kept.stdout), json.loads(drawn.stdout)
    for policy in (*first["policies"], *second["policies"]):
        del policy["filterMilliseconds"]
    assert first == second


def test_workload_is_written_to_a_file_of_lines_only(simulate):
    done = simulate("generate", "c.yaml", "-o", "w2.yaml")
    assert "does not end in .jsonl (write w2.jsonl)" in str(done.exception)


def test_plots_are_svg_and_png(simulate, tmp_path):
    done = simulate("c.yaml", "w.yaml", "--plots", "out/plots")
    assert done.exit_code == 0, done.output
    for name in ("utilisation", "fragmentation", "waiting"):
        svg, png = tmp_path / f"out/plots/{name}.svg", tmp_path / f"out/plots/{name}.png"
        assert png.read_bytes().startswith(b"\x89PNG")
        assert "binpack/spread" in svg.read_text()
        assert "%" in svg.read_text()


@pytest.mark.parametrize("memory", [500, 5000], ids=["one job fits", "nothing fits"])
def test_workload_that_fits_nowhere_is_drawn_too(simulate, tmp_path, memory):
    wrong = POD.replace("nvidia.com/gpu: 1", "nvidia.com/gpu: 1, nvidia.com/gpumem: 5000")
    fits = POD.replace("nvidia.com/gpu: 1", f"nvidia.com/gpu: 1, nvidia.com/gpumem: {memory}")
    (tmp_path / "w.yaml").write_text(f"jobs: [{{pod: {wrong}}}, {{pod: {fits}}}]")
    done = simulate("c.yaml", "w.yaml", "--plots", "plots")
    assert done.exit_code == 0, done.output
    assert "never placed: " in done.output
    assert (tmp_path / "plots/waiting.png").read_bytes().startswith(b"\x89PNG")


def test_table_is_printed_before_plots_are_drawn(simulate, tmp_path):
    (tmp_path / "plots/waiting.png").mkdir(parents=True)
    done = simulate("c.yaml", "w.yaml", "--plots", "plots")
    assert "plots/waiting.png: can't be written" in str(done.exception)
    assert "binpack/spread" in done.stdout


def test_missing_library_names_the_extra_before_the_work(simulate, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    monkeypatch.delitem(__import__("sys").modules, "hami_core.simulate.plots", raising=False)
    done = simulate("c.yaml", "w.yaml", "--plots", "plots")
    assert str(done.exception) == "--plots: needs matplotlib (pip install 'hami[simulate]')"


def test_interrupt_ends_the_command_without_a_traceback(tmp_path):
    (tmp_path / "c.yaml").write_text(f"nodes: [{ROW % ''}]")
    # a shell starts jobs in the background, and what they start, with this signal ignored
    program = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    program += "; from hami_core.cli.main import main; main()"
    argv = [sys.executable, "-c", program, "simulate", "c.yaml", "w.jsonl"]
    # Python reads the workload through a pipe, so the test knows when the command is at work
    os.mkfifo(tmp_path / "w.jsonl")
    process = subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with process, (tmp_path / "w.jsonl").open("w"):  # opens once the command reads, and holds it there
        while process.poll() is None:  # a signal right before the command waits for the pipe does not wake it
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
        out, err = process.communicate()
    assert (process.returncode, out, err.strip()) == (1, "", "Aborted!")
