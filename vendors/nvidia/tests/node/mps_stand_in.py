"""Stands in for NVIDIA's ``nvidia-cuda-mps-control``: the same options, folders and commands, and faults on demand.

Written from NVIDIA's "Multi-Process Service" guide, "Tools and Interface Reference". ``-f`` runs the control daemon in
the foreground and ``-d`` in the background; without options, lines of stdin go to the daemon behind
``CUDA_MPS_PIPE_DIRECTORY``. The file ``fault`` beside that folder holds a word that makes it fail. It is read anew for
each command:

    fails     the daemon ends at once; deaf      the daemon starts and never listens
    hang      no answer;               rubbish   an answer that is none
    refuse    the daemon turns every client away
    die       the daemon ends when it is asked; stuck  it never follows ``quit``
    busy      clients are connected, so ``quit`` waits for them unless it has a time limit
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import sys
import time
from pathlib import Path

PIPE = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"))
NO_DAEMON = "Cannot find MPS control daemon process"


def fault() -> str:
    try:
        return (PIPE.parent / "fault").read_text().strip()
    except OSError:
        return ""


def log(text: str) -> None:
    with Path(os.environ["CUDA_MPS_LOG_DIRECTORY"], "control.log").open("a") as file:
        file.write(f"[{time.time():.3f} Control {os.getpid()}] {text}\n")


class Daemon:
    def __init__(self) -> None:
        self.percentage = float(os.environ.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "100"))
        self.limits: dict[str, str] = {}

    def answer(self, line: str) -> str:
        command, *words = line.split()
        if command == "get_default_active_thread_percentage":
            return f"{self.percentage:.1f}"
        if command == "set_default_active_thread_percentage" and words:
            self.percentage = float(words[0])
            return f"{self.percentage:.1f}"
        if command == "set_default_device_pinned_mem_limit" and len(words) == 2:
            self.limits[words[0]] = words[1]
            return ""
        if command == "get_default_device_pinned_mem_limit" and words:
            return self.limits.get(words[0], "")
        if command in {"get_server_list", "get_client_list", "ps", "shutdown_server", "terminate_client"}:
            return ""
        return f"Invalid command: {line}"

    def quit(self, words: list[str]) -> None:
        if fault() == "stuck":
            return
        if fault() == "busy":
            if "-t" not in words:
                return
            time.sleep(min(float(words[words.index("-t") + 1]), 0.2))
        log("Exit")
        (PIPE / "control").unlink(missing_ok=True)
        os._exit(0)

    def run(self) -> int:
        lock = (PIPE / "control_lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            print("An instance of this daemon is already running", file=sys.stderr)
            return 1
        if fault() == "fails":
            print("Failed to start", file=sys.stderr)
            return 1
        (PIPE / "nvidia-cuda-mps-control.pid").write_text(f"{os.getpid()}\n")
        if fault() == "deaf":
            signal.pause()
        (PIPE / "control").unlink(missing_ok=True)
        server = socket.socket(socket.AF_UNIX)
        server.bind(str(PIPE / "control"))
        server.listen()
        log("Start")
        held = []
        while True:
            client, _ = server.accept()
            word = fault()
            if word == "refuse":
                client.close()
                continue
            line = client.makefile().readline().strip()
            if word == "die":
                return 9
            if word == "hang":
                held.append(client)
                continue
            if line.startswith("quit"):
                client.close()
                self.quit(line.split())
                continue
            text = "\x00\xff???\n" if word == "rubbish" else self.answer(line) + "\n"
            client.sendall(text.encode("latin-1"))
            client.close()


def ask(line: str) -> int:
    client = socket.socket(socket.AF_UNIX)
    try:
        client.connect(str(PIPE / "control"))
        client.sendall(f"{line}\n".encode())
        answer = client.makefile("rb").read()
    except OSError:
        print(NO_DAEMON)
        return 1
    if not answer and fault() == "refuse":
        print("MPS control daemon refused the connection")
        return 1
    sys.stdout.buffer.write(answer.strip() and answer)
    return 0


def main() -> int:
    if sys.argv[1:] == ["-d"]:
        if os.fork():
            return 0
        os.setsid()
    if sys.argv[1:] in (["-d"], ["-f"], ["-f", "--multiuser-server"]):
        log(f"Options {' '.join(sys.argv[1:])}")
        return Daemon().run()
    if sys.argv[1:] == ["-v"]:
        print("stand-in")
        return 0
    return max((ask(line) for line in map(str.strip, sys.stdin) if line), default=0)


if __name__ == "__main__":
    sys.exit(main())
