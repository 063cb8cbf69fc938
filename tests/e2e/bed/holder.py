"""Pid 1 of a machine: it reports that the machine is ready, then collects ended processes until it is killed.

An interpreter without site packages runs this file, so it imports only the standard library.
"""

from __future__ import annotations

import os
import signal


def main() -> None:
    """Block all signals that could end this process, report, and collect children for ever."""
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
