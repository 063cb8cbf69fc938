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
SLOTS_IN_USE = 2008896  # of the v1 layout
TOP = [sys.executable, "-m", "hami_interpose", "top"]
RECORD = {"namespace": "team", "pod": "train-0", "container": "main", "name": "ab" * 16}
FIGURES_OFFSETS = (
    '#include "compute_abi.h"\n#include <stdio.h>\n#define AT(part) ((size_t)HAMI_COMPUTE_OFFSET + '
    "offsetof(struct hami_compute, devices) + offsetof(struct hami_compute_device, part))\n"
    'int main(void) { printf("%zu %zu", AT(charged), AT(waited)); }'
)


def readable(file: int, seconds: float) -> bool:
    """Whether there is something to read; select(2) takes no descriptor from 1,024 on, which a long run may reach."""
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def add_record(state, name="pod-uid_main_abababab", record=RECORD, limits=LIMITS):
    """A container's folder as the agent makes it; returns its region's path."""
    folder = state / "containers" / name
    (folder / "region").mkdir(parents=True)
    (folder / "record.json").write_text(json.dumps(record))
    (folder / "region" / "vgpu.cache").write_bytes(region.initial(limits))
    return folder / "region" / "vgpu.cache"


def put(path, offset, content):
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


class Watching:
    """A running `top --json`."""

    def __init__(self, *arguments, environment=None):
        command = [*TOP, "--json", "--interval", "0.05", *map(str, arguments)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.kill()
        self.process.communicate()

    def frame(self):
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        return json.loads(line)

    def until(self, condition):
        """The first frame for which this holds."""
        deadline = time.monotonic() + 60
        while True:
            frame = self.frame()
            if condition(frame):
                return frame
            assert time.monotonic() < deadline, frame


def names(frame):
    return [container["name"] for container in frame["containers"]]


# ---- figures ----


def test_once_shows_a_containers_slice(started):
    container, shell = started(4000, 3000)
    assert shell.status("alloc", 100 * MIB) == 0
    assert shell.status("alloc", 9000 * MIB) == 2
    reserve = container.region().devices[0].context_bytes
    done = subprocess.run(
        [*TOP, "--once", "--interval", "0.05", "--json", "--root", str(container.root)],
        capture_output=True,
        text=True,
        check=True,
    )
    [found] = json.loads(done.stdout)["containers"]
    assert found["error"] is None
    assert [device["used_bytes"] for device in found["devices"]] == [reserve + 100 * MIB, 0]
    assert [device["limit_bytes"] for device in found["devices"]] == [4000 * MIB, 3000 * MIB]
    assert found["devices"][0]["rates"]["denied"] == 0
    assert found["devices"][0]["denied"] == 1
    [process] = found["processes"]
    assert (process["pid"], process["seen_pid"]) == (shell.process.pid, shell.process.pid)
    assert process["name"] == Path(shell.process.args[0]).name[:15]


def test_shares_are_those_of_the_interval(tmp_path, run_c):
    charged_at, waited_at = map(int, run_c(FIGURES_OFFSETS).split())
    path = add_record(tmp_path)
    put(path, charged_at, struct.pack("<Q", 5 * 10**9))
    with Watching(tmp_path) as top:
        assert top.frame()["containers"][0]["devices"][0]["rates"] is None
        top.until(lambda frame: frame["containers"][0]["devices"][0]["rates"])
        put(path, charged_at, struct.pack("<Q", 5 * 10**9 + 3 * 10**7))
        put(path, waited_at, struct.pack("<Q", 10**7))
        charged = waited = 0.0
        while round(charged) < 3 * 10**7 or round(waited) < 10**7:
            rates = top.frame()["containers"][0]["devices"][0]["rates"]
            charged += rates["compute_percent"] / 100 * rates["seconds"] * 1e9
            waited += rates["waiting_percent"] / 100 * rates["seconds"] * 1e9
        assert (round(charged), round(waited)) == (3 * 10**7, 10**7)
        put(path, charged_at, struct.pack("<Q", 0))  # as if it began anew: no negative share, and then it goes on
        top.until(lambda frame: frame["containers"][0]["devices"][0]["rates"] is None)
        top.until(lambda frame: frame["containers"][0]["devices"][0]["rates"])


def test_a_process_of_another_pid_namespace_is_found_by_its_own_number(make_container, programs, shells):
    container = make_container(4000)
    rootless = [] if os.getuid() == 0 else ["--user", "--map-root-user"]
    inside = ["--pid", "--fork", "--mount-proc", "--kill-child", *rootless]
    process = container.start("unshare", *inside, programs("shell"))
    assert process.stdout.readline() == "ready\n"
    process.stdin.write("use 0\n")
    process.stdin.flush()
    assert process.stdout.readline().split()[0] == "0"
    [found] = container.region().processes
    assert found.pid == 1
    with Watching(container.region_path) as top:
        [seen] = top.frame()["containers"][0]["processes"]
    assert seen["name"] == programs("shell").name[:15]
    assert [seen["seen_pid"]] == children_of(process.pid)


def children_of(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_number_that_is_another_program_here_gets_no_name(tmp_path):
    """A region copied from elsewhere: pid 1 of that container is not this machine's."""
    path = add_record(tmp_path)
    own_first_slot(path, pid=1, start=2**39)
    with Watching(tmp_path) as top:
        [process] = top.frame()["containers"][0]["processes"]
    assert (process["pid"], process["name"], process["seen_pid"]) == (1, None, None)


def own_first_slot(path, pid, start):
    """Not locked, so that nobody asks whether the owner lives."""
    put(path, SLOTS_IN_USE, struct.pack("<i", 1))
    put(path, at.BLOCK_OFFSET + at.Block.owners.offset, struct.pack("<Q", at.SLOT_COUNTED << 62 | start << 22 | pid))


# ---- what may be named ----


@pytest.mark.parametrize("part", ["", "containers", "containers/pod-uid_main_abababab"], ids=str)
def test_an_agents_state_a_folder_of_records_and_a_record_may_be_named(tmp_path, part):
    add_record(tmp_path)
    with Watching(tmp_path / part) as top:
        assert names(top.frame()) == ["team/train-0/main"]


def test_a_record_without_cdi_has_its_region_elsewhere(tmp_path):
    region_path = add_record(tmp_path, record=RECORD | {"serial": True})
    folder = tmp_path / "serial" / RECORD["name"] / "region"
    folder.mkdir(parents=True)
    region_path.rename(folder / "vgpu.cache")
    with Watching(tmp_path) as top:
        [container] = top.frame()["containers"]
    assert (container["name"], container["error"]) == ("team/train-0/main", None)


def test_containers_without_limits_are_left_out(tmp_path):
    add_record(tmp_path).unlink()
    add_record(tmp_path, "other_main_cdcdcdcd", RECORD | {"pod": "other"})
    with Watching(tmp_path) as top:
        assert names(top.frame()) == ["team/other/main"]


def test_a_region_named_twice_is_shown_once(tmp_path):
    path = add_record(tmp_path)
    with Watching(tmp_path, path) as top:
        assert names(top.frame()) == ["team/train-0/main"]


# ---- what it survives ----


def test_containers_come_go_and_break_while_it_watches(tmp_path):
    (tmp_path / "containers").mkdir()
    with Watching(tmp_path) as top:
        assert top.frame()["containers"] == []
        path = add_record(tmp_path)
        top.until(lambda frame: names(frame) == ["team/train-0/main"])
        add_record(tmp_path, "zz", RECORD | {"pod": "late"})
        top.until(lambda frame: names(frame) == ["team/train-0/main", "team/late/main"])
        os.truncate(path, 4000)
        broken = top.until(lambda frame: frame["containers"][0]["error"])
        assert broken["containers"][0]["error"].startswith("at offset 4000: a region has")
        assert broken["containers"][1]["error"] is None
        path.write_bytes(region.initial(LIMITS))
        top.until(lambda frame: not frame["containers"][0]["error"])
        path.unlink()
        os.mkfifo(path)
        top.until(lambda frame: frame["containers"][0]["error"] == "at offset 0: not a regular file")
        path.unlink()
        path.symlink_to("/etc/passwd")
        top.until(lambda frame: "symbolic links" in (frame["containers"][0]["error"] or ""))
        (path.parent.parent / "record.json").write_bytes(b"\xff{")
        top.until(lambda frame: names(frame) == [str(path.parent.parent), "team/late/main"])
        shutil.rmtree(path.parent.parent)
        top.until(lambda frame: names(frame) == ["team/late/main"])
        shutil.rmtree(tmp_path / "containers")
        top.until(lambda frame: frame["containers"] == [])


def test_a_region_that_is_not_there_yet_is_waited_for(tmp_path):
    with Watching(tmp_path / "vgpu.cache") as top:
        assert top.frame()["containers"][0]["error"] == "no such file"
        (tmp_path / "new").write_bytes(region.initial(LIMITS))
        (tmp_path / "new").rename(tmp_path / "vgpu.cache")
        top.until(lambda frame: not frame["containers"][0]["error"])


def test_once_fails_when_something_cannot_be_read(tmp_path):
    command = [*TOP, "--once", "--interval", "0.05", str(tmp_path / "nothing")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.rstrip().endswith(f"{tmp_path}/nothing error: no such file")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_without_a_word(tmp_path, number):
    add_record(tmp_path)
    with Watching(tmp_path) as top:
        top.frame()
        top.process.send_signal(number)
        out, err = top.process.communicate(timeout=60)
        assert (top.process.returncode, err) == (0, "")
        assert all(json.loads(line) for line in out.splitlines())


def test_a_reader_that_has_had_enough_ends_it_without_a_word(tmp_path):
    add_record(tmp_path)
    with Watching(tmp_path) as top:
        top.frame()
        top.process.stdout.close()
        assert top.process.wait(timeout=60) == 1
        assert top.process.stderr.read() == ""
        top.process.stdout = None


def test_plain_lines_when_piped(tmp_path):
    own_first_slot(add_record(tmp_path), pid=77, start=1)
    top = subprocess.Popen([*TOP, "--interval", "0.05", str(tmp_path)], stdout=subprocess.PIPE, text=True)
    lines = [top.stdout.readline() for _ in range(2)]
    top.terminate()
    top.communicate()
    assert top.returncode == 0
    moment = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    rest = rf"team/train-0/main device 0 {UUID} memory 0 of 1,000 MiB compute (-|0 %) of 40 % waiting (-|0 %) refused 0"
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
            [*wrapper, *TOP, "--interval", "0.05", *map(str, arguments)],
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

    def read_until(self, condition):
        """Reads until this holds of a whole screen; returns the screen's lines as written."""
        deadline = time.monotonic() + 60
        while True:
            frames = self.seen.split("\x1b[H")[1:-1]  # the last may be half written
            # The terminal itself makes "\\r\\n" of our "\\n".
            found = [frame.removesuffix("\x1b[J").replace("\x1b[K", "").split("\r\r\n") for frame in frames]
            for lines in found:
                if condition(lines):
                    return lines
            assert time.monotonic() < deadline, self.seen
            if readable(self.primary, 1):
                self.seen += os.read(self.primary, 65536).decode()

    def end(self):
        """Waits for its end, which leaves the terminal as it was."""
        deadline = time.monotonic() + 60
        while self.process.poll() is None or readable(self.primary, 0):
            assert time.monotonic() < deadline, self.seen
            if readable(self.primary, 0.05):
                self.seen += os.read(self.primary, 65536).decode()
        assert (self.process.returncode, self.process.stderr.read()) == (0, b"")
        assert self.restored()

    def restored(self):
        return self.seen.endswith("\x1b[?25h\x1b[?1049l") and termios.tcgetattr(self.terminal) == self.before


def shown(lines):
    return [re.sub(r"\x1b\[\d*m", "", line) for line in lines]


def test_a_terminal_is_redrawn_in_place(tmp_path):
    add_record(tmp_path)
    with Screen(tmp_path) as screen:
        lines = shown(screen.read_until(lambda lines: len(lines) > 3))
        assert screen.seen.startswith("\x1b[?1049h\x1b[?25l\x1b[H")
        assert lines[2:4] == ["team/train-0/main", f"  0 {UUID}"]
        assert re.fullmatch(r" +memory  \[\.+\] +0 of +1,000 MiB  0 refused", lines[4]), lines
        assert re.fullmatch(r" +compute \[\.+\] +(-|0 %) of +40 %  waiting (-|0 %)", lines[5]), lines
        assert "\x1b[1m" in screen.seen
        path = tmp_path / "containers/pod-uid_main_abababab/region/vgpu.cache"
        os.truncate(path, 10)
        screen.read_until(lambda lines: any("at offset 10: a region has" in line for line in lines))
        os.write(screen.primary, b"q")
        screen.end()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_restores_the_terminal(tmp_path, number):
    add_record(tmp_path)
    with Screen(tmp_path) as screen:
        screen.read_until(lambda lines: len(lines) > 3)
        assert termios.tcgetattr(screen.terminal) != screen.before  # no echo meanwhile
        if number == signal.SIGINT:
            os.write(screen.primary, b"\x03")  # Ctrl-C, by the terminal
        else:
            screen.process.send_signal(number)
        screen.end()


SHELL = """
import os, subprocess, sys
child = subprocess.Popen(sys.argv[1:], process_group=0)
os.tcsetpgrp(0, child.pid)
raise SystemExit(child.wait())
"""


def state_of(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_it_stops_and_goes_on(tmp_path):
    """Only a job of a shell stops: one that nobody could continue does not."""
    add_record(tmp_path)
    with Screen(tmp_path, wrapper=[sys.executable, "-c", SHELL]) as screen:
        screen.read_until(lambda lines: len(lines) > 3)
        [child] = children_of(screen.process.pid)
        os.write(screen.primary, b"\x1a")  # Ctrl-Z
        deadline = time.monotonic() + 60
        while state_of(child) != "T":
            assert time.monotonic() < deadline, state_of(child)
            time.sleep(0.02)
        while readable(screen.primary, 0):
            screen.seen += os.read(screen.primary, 65536).decode()
        assert screen.restored()
        screen.seen = ""
        os.kill(child, signal.SIGCONT)
        screen.read_until(lambda lines: len(lines) > 3)
        assert screen.seen.startswith("\x1b[?1049h")
        os.write(screen.primary, b"q")
        screen.end()


def test_no_color_is_respected(tmp_path):
    os.truncate(add_record(tmp_path), 10)
    with Screen(tmp_path, NO_COLOR="1") as screen:
        screen.read_until(lambda lines: any("at offset 10" in line for line in lines))
        assert re.search(r"\x1b\[\d*m", screen.seen) is None


@pytest.mark.parametrize("columns", [20, 60, 80, 200])
def test_lines_fit_the_window(tmp_path, columns):
    for number in range(12):
        add_record(tmp_path, f"record{number:02}", RECORD | {"pod": f"train-{number}-" + "x" * 50})
    with Screen(tmp_path, columns=columns, lines=15) as screen:
        lines = shown(screen.read_until(lambda lines: len(lines) > 1))
        assert len(lines) == 15
        assert max(map(len, lines)) <= columns
        assert lines[-1] == "47 more lines: make the window taller"[:columns]
        screen.size(columns, 100)
        lines = shown(screen.read_until(lambda lines: len(lines) > 15))
        assert len(lines) == 1 + 12 * 5
        assert max(map(len, lines)) <= columns
        wide = any("[....." in line for line in lines)
        assert wide == (columns > 60)


def test_a_dumb_terminal_gets_plain_lines(tmp_path):
    add_record(tmp_path)
    with Screen(tmp_path, TERM="dumb") as screen:
        while screen.seen.count("\n") < 2:
            screen.seen += os.read(screen.primary, 65536).decode()
        assert "\x1b" not in screen.seen


def test_what_a_container_writes_moves_no_cursor(tmp_path):
    path = add_record(tmp_path, record=RECORD | {"pod": "evil\x1b[2J\npod"})
    put(path, 64, b"GPU-\x1b[31m\r\n\x07\xff\0")
    with Screen(tmp_path, NO_COLOR="1") as screen:
        lines = screen.read_until(lambda lines: len(lines) > 3)
        assert lines[2:4] == ["team/evil?[2J?pod/main", "  0 GPU-?[31m????"]
    done = subprocess.run([*TOP, "--once", "--interval", "0.05", str(tmp_path)], capture_output=True, check=True)
    assert b"\x1b" not in done.stdout
    done = subprocess.run([sys.executable, "-m", "hami_interpose", "dump", path], capture_output=True, check=True)
    assert b"\x1b" not in done.stdout


# ---- the command line ----


def test_the_command_line_explains_itself():
    done = subprocess.run([*TOP, "--help"], capture_output=True, text=True, check=True)
    assert "python -m hami_interpose top /var/lib/hami" in done.stdout
    for wrong in ("0", "-1", "x", "nan", "1e9"):
        done = subprocess.run([*TOP, "--interval", wrong], capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert "--interval" in done.stderr
