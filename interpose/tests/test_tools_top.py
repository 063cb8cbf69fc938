"""`python -m hami_interpose top`: what it shows, what it survives, and how it leaves the terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from hami_interpose import _region_layout as at
from hami_interpose import region
from hami_interpose.limits import DeviceLimit, Limits

MIB = 1 << 20
UUID = "GPU-11111111-2222-3333-4444-555555555555"
LIMITS = Limits((DeviceLimit(UUID, 1000 * MIB, 1000 * MIB, 40),))
TOP = [sys.executable, "-m", "hami_interpose", "top"]
FAST = ["--interval", "0.05"]
RECORD = {"namespace": "team", "pod": "train-0", "container": "main", "name": "ab" * 16}
NAME = "team/train-0/main"
CHARGED_AT, WAITED_AT = (
    at.COMPUTE_OFFSET + at.Compute.devices.offset + field.offset
    for field in (at.ComputeDevice.charged, at.ComputeDevice.waited)
)


def run_top(*arguments, check=True) -> subprocess.CompletedProcess[str]:
    command = [*TOP, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=check)


def await_(condition, what):
    """Asks until this holds, for at most a minute; returns what it answered."""
    deadline = time.monotonic() + 60
    while not (found := condition()):
        assert time.monotonic() < deadline, what()
        time.sleep(0.02)
    return found


def add_record(state, name="pod-uid_main_abababab", record=RECORD, limits=LIMITS):
    """A container's folder as the agent makes it; returns its region's path."""
    folder = state / "containers" / name
    (folder / "region").mkdir(parents=True)
    (folder / "record.json").write_text(json.dumps(record))
    (folder / "region" / "vgpu.cache").write_bytes(region.initial(limits))
    return folder / "region" / "vgpu.cache"


def put(path, offset, layout, *values):
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(struct.pack(layout, *values))


def own_first_slot(path, pid, start):
    """Writes a process that holds no lock, so that nobody asks whether it lives."""
    put(path, at.V1.process_num.offset, "<i", 1)
    put(
        path,
        at.BLOCK_OFFSET + at.Block.owners.offset,
        "<Q",
        at.SLOT_COUNTED << at.OWNER_STATE_SHIFT | start << 22 | pid,
    )


class Watching:
    """A running `top --json`."""

    def __init__(self, *arguments):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [*TOP, "--json", *FAST, *map(str, arguments)], stdout=pipe, stderr=pipe, text=True
        )

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.kill()
        self.process.communicate()

    def containers(self):
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        return json.loads(line)["containers"]

    def until(self, condition):
        """Reads on until this holds of the containers shown."""
        await_(lambda: condition(self.containers()), self.containers)

    def until_names(self, *expected):
        self.until(lambda containers: [one["name"] for one in containers] == list(expected))

    def until_error(self, text):
        self.until(lambda containers: text in (containers[0]["error"] or ""))


# ---- figures ----


def test_once_shows_figures_of_a_container(started):
    container, shell = started(4000, 3000)
    assert shell.status("alloc", 100 * MIB) == 0
    assert shell.status("alloc", 9000 * MIB) == 2
    used = container.region().devices[0].context_bytes + 100 * MIB
    [found] = json.loads(run_top("--once", *FAST, "--json", "--root", container.root).stdout)["containers"]
    assert found["error"] is None
    shown = [(device["used_bytes"], device["limit_bytes"], device["denied"]) for device in found["devices"]]
    assert shown == [(used, 4000 * MIB, 1), (0, 3000 * MIB, 0)]
    assert found["devices"][0]["rates"]["denied"] == 0
    [process] = found["processes"]
    assert (process["pid"], process["seen_pid"]) == (shell.process.pid, shell.process.pid)
    assert process["name"] == Path(shell.process.args[0]).name[:15]


def test_rates_are_those_of_the_interval(tmp_path):
    path = add_record(tmp_path)
    put(path, CHARGED_AT, "<Q", 5 * 10**9)
    with Watching(tmp_path) as top:
        assert top.containers()[0]["devices"][0]["rates"] is None
        top.until(lambda containers: containers[0]["devices"][0]["rates"])
        put(path, CHARGED_AT, "<Q", 5 * 10**9 + 3 * 10**7)
        put(path, WAITED_AT, "<Q", 10**7)
        charged = waited = 0.0
        while round(charged) < 3 * 10**7 or round(waited) < 10**7:
            rates = top.containers()[0]["devices"][0]["rates"]
            charged += rates["compute_percent"] / 100 * rates["seconds"] * 1e9
            waited += rates["waiting_percent"] / 100 * rates["seconds"] * 1e9
        assert (round(charged), round(waited)) == (3 * 10**7, 10**7)
        put(path, CHARGED_AT, "<Q", 0)  # as if it began anew: no negative share, and then it goes on
        top.until(lambda containers: containers[0]["devices"][0]["rates"] is None)
        top.until(lambda containers: containers[0]["devices"][0]["rates"])


def test_process_of_another_pid_namespace_is_found(make_container, in_pid_namespace):
    container = make_container(4000)
    pid, _ = in_pid_namespace(container)
    name = Path(f"/proc/{pid}/comm").read_text().strip()
    with Watching(container.region_path) as top:
        [seen] = top.containers()[0]["processes"]
    assert (seen["pid"], seen["seen_pid"], seen["name"]) == (1, pid, name)


def test_pid_of_another_program_gets_no_name(tmp_path):
    """A region copied from elsewhere: pid 1 of that container is not this machine's."""
    own_first_slot(add_record(tmp_path), pid=1, start=2**39)
    with Watching(tmp_path) as top:
        [process] = top.containers()[0]["processes"]
    assert (process["pid"], process["name"], process["seen_pid"]) == (1, None, None)


# ---- what may be named, and what it survives ----


@pytest.mark.parametrize("part", ["", "containers", "containers/pod-uid_main_abababab"], ids=str)
def test_state_folder_of_records_or_record_may_be_named(tmp_path, part):
    """A region that is named a second time is shown once; a container without limits is left out."""
    path = add_record(tmp_path)
    if part == "containers":
        add_record(tmp_path, "unlimited").unlink()
    with Watching(tmp_path / part, path) as top:
        top.until_names(NAME)


def test_record_without_cdi_has_its_region_elsewhere(tmp_path):
    region_path = add_record(tmp_path, record=RECORD | {"serial": True})
    folder = tmp_path / "serial" / RECORD["name"] / "region"
    folder.mkdir(parents=True)
    region_path.rename(folder / "vgpu.cache")
    with Watching(tmp_path) as top:
        [container] = top.containers()
    assert (container["name"], container["error"]) == (NAME, None)


def test_containers_come_go_and_break_while_it_watches(tmp_path):
    (tmp_path / "containers").mkdir()
    late = "team/late/main"
    with Watching(tmp_path) as top:
        top.until_names()
        path = add_record(tmp_path)
        top.until_names(NAME)
        add_record(tmp_path, "zz", RECORD | {"pod": "late"})
        top.until_names(NAME, late)
        os.truncate(path, 4000)
        top.until_error("at offset 4000: a region has")
        assert top.containers()[1]["error"] is None
        path.write_bytes(region.initial(LIMITS))
        top.until(lambda containers: not containers[0]["error"])
        path.unlink()
        os.mkfifo(path)
        top.until_error("at offset 0: not a regular file")
        path.unlink()
        path.symlink_to("/etc/passwd")
        top.until_error("symbolic links")
        (path.parent.parent / "record.json").write_bytes(b"\xff{")
        top.until_names(str(path.parent.parent), late)
        shutil.rmtree(path.parent.parent)
        top.until_names(late)
        shutil.rmtree(tmp_path / "containers")
        top.until_names()


def test_region_that_is_not_there_yet_is_waited_for(tmp_path):
    with Watching(tmp_path / "vgpu.cache") as top:
        top.until_error("no such file")
        (tmp_path / "new").write_bytes(region.initial(LIMITS))
        (tmp_path / "new").rename(tmp_path / "vgpu.cache")
        top.until(lambda containers: not containers[0]["error"])


def test_once_fails_when_something_cannot_be_read(tmp_path):
    done = run_top("--once", *FAST, tmp_path / "nothing", check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.rstrip().endswith(f"{tmp_path}/nothing error: no such file")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, None])
def test_signal_or_closed_pipe_ends_it_without_a_word(tmp_path, number):
    add_record(tmp_path)
    with Watching(tmp_path) as top:
        top.containers()
        if number is None:
            top.process.stdout.close()
            top.process.stdout = None
        else:
            top.process.send_signal(number)
        out, err = top.process.communicate(timeout=60)
        assert (top.process.returncode, err) == (1 if number is None else 0, "")
        assert all(json.loads(line) for line in (out or "").splitlines())


def test_lines_are_plain_when_piped(tmp_path):
    own_first_slot(add_record(tmp_path), pid=77, start=1)
    top = subprocess.Popen([*TOP, *FAST, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    lines = [top.stdout.readline() for _ in range(2)]
    top.terminate()
    top.communicate()
    assert top.returncode == 0
    moment = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    rest = rf"{NAME} device 0 {UUID} memory 0 of 1,000 MiB compute (-|0 %) of 40 % waiting (-|0 %) refused 0"
    for line in lines:
        assert re.fullmatch(f"{moment} {rest} processes -\n", line), line


# ---- a terminal ----


class Screen:
    """`top` on a terminal of its own."""

    def __init__(self, *arguments, columns=100, lines=30, wrapper=(), **variables):
        self.primary, self.terminal = pty.openpty()
        self.size(columns, lines)
        self.before = termios.tcgetattr(self.terminal)
        environment = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "COLUMNS", "LINES"}}
        self.process = subprocess.Popen(
            [*wrapper, *TOP, *FAST, *map(str, arguments)],
            stdin=self.terminal,
            stdout=self.terminal,
            stderr=subprocess.PIPE,
            env=environment | {"TERM": "xterm"} | variables,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - a controlling terminal
        )
        self.seen = ""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()
        os.close(self.primary)
        os.close(self.terminal)

    def size(self, columns, lines):
        fcntl.ioctl(self.primary, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read(self):
        """Reads what the terminal shows now. poll(2) takes every descriptor, unlike select(2)."""
        poll = select.poll()
        poll.register(self.primary, select.POLLIN)
        while poll.poll(0):
            self.seen += os.read(self.primary, 65536).decode()

    def frames(self):
        """The screens shown so far, as lists of lines. The terminal makes "\\r\\n" of "\\n"."""
        self.read()
        frames = self.seen.split("\x1b[H")[1:-1]  # the last may be half written
        return [frame.removesuffix("\x1b[J").replace("\x1b[K", "").split("\r\r\n") for frame in frames]

    def until(self, condition=lambda lines: len(lines) > 3):
        """The first screen of which this holds, without its colours."""
        lines = await_(lambda: next(filter(condition, self.frames()), None), lambda: self.seen)
        return [re.sub(r"\x1b\[\d*m", "", line) for line in lines]

    def until_shown(self, text):
        self.until(lambda lines: any(text in line for line in lines))

    def press(self, key):
        os.write(self.primary, key)

    def ended(self):
        self.read()
        return self.process.poll() is not None

    def end(self):
        """Waits for its end, which leaves the terminal as it was."""
        await_(self.ended, lambda: self.seen)
        self.read()
        assert (self.process.returncode, self.process.stderr.read()) == (0, b"")
        assert self.restored()

    def restored(self):
        return self.seen.endswith("\x1b[?25h\x1b[?1049l") and termios.tcgetattr(self.terminal) == self.before


def test_terminal_is_redrawn_in_place(tmp_path):
    path = add_record(tmp_path)
    with Screen(tmp_path) as screen:
        lines = screen.until()
        assert screen.seen.startswith("\x1b[?1049h\x1b[?25l\x1b[H")
        assert lines[2:4] == [NAME, f"  0 {UUID}"]
        assert re.fullmatch(r" +memory  \[\.+\] +0 of +1,000 MiB  0 refused", lines[4]), lines
        assert re.fullmatch(r" +compute \[\.+\] +(-|0 %) of +40 %  waiting (-|0 %)", lines[5]), lines
        assert "\x1b[1m" in screen.seen
        os.truncate(path, 10)
        screen.until_shown("at offset 10: a region has")
        screen.press(b"q")
        screen.end()


@pytest.mark.parametrize("ctrl_c", [True, False])
def test_signal_restores_the_terminal(tmp_path, ctrl_c):
    add_record(tmp_path)
    with Screen(tmp_path) as screen:
        screen.until()
        assert termios.tcgetattr(screen.terminal) != screen.before  # no echo meanwhile
        screen.press(b"\x03") if ctrl_c else screen.process.terminate()
        screen.end()


SHELL = """
import os, subprocess, sys
child = subprocess.Popen(sys.argv[1:], process_group=0)
os.tcsetpgrp(0, child.pid)
raise SystemExit(child.wait())
"""


def test_ctrl_z_stops_it_and_it_goes_on(tmp_path):
    """Only a job of a shell stops: one that nobody could continue does not."""
    add_record(tmp_path)
    with Screen(tmp_path, wrapper=[sys.executable, "-c", SHELL]) as screen:
        screen.until()
        shell = screen.process.pid
        child = Path(f"/proc/{shell}/task/{shell}/children").read_text().strip()
        screen.press(b"\x1a")
        await_(lambda: ") T " in Path(f"/proc/{child}/stat").read_text(), lambda: child)
        screen.read()
        assert screen.restored()
        screen.seen = ""
        os.kill(int(child), signal.SIGCONT)
        screen.until()
        assert screen.seen.startswith("\x1b[?1049h")
        screen.press(b"q")
        screen.end()


@pytest.mark.parametrize("columns", [20, 60, 80, 200])
def test_lines_fit_the_window(tmp_path, columns):
    for number in range(12):
        add_record(tmp_path, f"record{number:02}", RECORD | {"pod": f"train-{number}-" + "x" * 50})
    with Screen(tmp_path, columns=columns, lines=15) as screen:
        lines = screen.until()
        assert (len(lines), lines[-1]) == (15, "47 more lines: make the window taller"[:columns])
        assert max(map(len, lines)) <= columns
        screen.size(columns, 100)
        lines = screen.until(lambda lines: len(lines) > 15)
        assert len(lines) == 1 + 12 * 5
        assert max(map(len, lines)) <= columns
        assert any("[....." in line for line in lines) == (columns > 60)


def test_dumb_terminal_gets_plain_lines(tmp_path):
    add_record(tmp_path)
    with Screen(tmp_path, TERM="dumb") as screen:
        await_(lambda: screen.read() or screen.seen.count("\n") > 1, lambda: screen.seen)
        assert "\x1b" not in screen.seen


def test_text_of_a_container_moves_no_cursor_and_has_no_color(tmp_path):
    path = add_record(tmp_path, record=RECORD | {"pod": "evil\x1b[2J\npod"})
    put(path, at.V1.uuids.offset, "14s", b"GPU-\x1b[31m\r\n\x07\xff\0")
    with Screen(tmp_path, NO_COLOR="1") as screen:
        assert screen.until()[2:4] == ["team/evil?[2J?pod/main", "  0 GPU-?[31m????"]
        assert re.search(r"\x1b\[\d*m", screen.seen) is None
    for tool in (["top", "--once", *FAST, tmp_path], ["dump", path]):
        command = [*TOP[:-1], *map(str, tool)]
        assert b"\x1b" not in subprocess.run(command, capture_output=True, check=True).stdout


# ---- the command line ----


def test_top_explains_itself_and_refuses_bad_intervals():
    assert "python -m hami_interpose top /var/lib/hami" in run_top("--help").stdout
    for wrong in ("0", "-1", "x", "nan", "1e9"):
        done = run_top("--interval", wrong, check=False)
        assert done.returncode == 2
        assert "--interval" in done.stderr
