"""With JSON logs every line on stderr is JSON, also for warnings and uncaught exceptions."""

from __future__ import annotations

import json
import subprocess
import sys

SCRIPT = """
import logging, threading, warnings
from hami_core.observe import log

log.configure("info", "json", component="tried")
logging.getLogger("somebody").warning("of the %s", "standard library")
warnings.warn("an old call", RuntimeWarning)


class Bad:
    def __del__(self):
        raise ValueError("in a finalizer")


Bad()
thread = threading.Thread(target=lambda: 1 / 0, name="worker")
thread.start()
thread.join()
secret = "s3cr3t"
raise OSError("at the end")
"""


def test_warnings_and_uncaught_exceptions_are_log_lines():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["level"] for line in lines] == ["warning", "warning", "error", "error", "critical"]
    assert lines[0]["component"] == "tried"
    assert lines[0]["event"] == "of the standard library"
    assert "RuntimeWarning: an old call" in lines[1]["event"]
    problems = [line["exception"][0] for line in lines[2:]]
    assert [(one["exc_type"], one["exc_value"]) for one in problems] == [
        ("ValueError", "in a finalizer"),
        ("ZeroDivisionError", "division by zero"),
        ("OSError", "at the end"),
    ]
    assert "Bad.__del__" in lines[2]["at"]
    assert lines[3]["thread"] == "worker"
    assert "s3cr3t" not in done.stderr, "frames hold no local variables"


def test_console_tracebacks_hold_no_local_variables():
    script = SCRIPT.replace('"json"', '"console"')
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "OSError: at the end" in done.stderr
    assert "s3cr3t" not in done.stderr


def test_interrupt_is_not_logged_as_a_failure():
    script = "from hami_core.observe import log\nlog.configure('info', 'json')\nraise KeyboardInterrupt"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "the process ends" not in done.stderr
