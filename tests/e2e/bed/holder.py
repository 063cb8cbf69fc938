"""Pid 1 of a machine: says once that the machine is there, then only collects ended processes until it is killed.

Run as a file by an interpreter without site packages, so it may import nothing but the standard library.
"""

from __future__ import annotations

import os
import signal


def main() -> None:
    """Block every signal that could end us, report, and wait for children for ever."""
    wanted = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
    signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
    os.write(1, b"ready\n")
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    while True:
        signal.sigwait(wanted)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass


main()
