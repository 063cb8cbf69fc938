"""Check the subjects of commits: ``area: imperative summary``, at most 72 characters.

    python contrib/subjects.py

It checks the commits after the one that added this file. Older commits and merges are not checked. A clone without
history passes, with a message that says so.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

LONGEST: Final = 72
_AREA: Final = r"[A-Za-z0-9][\w./-]*"
FORM: Final = re.compile(rf"{_AREA}(, {_AREA})*: \S.*")
_ROOT: Final = Path(__file__).resolve().parents[1]
_SELF: Final = "contrib/subjects.py"


def fault(subject: str) -> str:
    """Name the rule that a subject breaks. Empty: it breaks none.

    Example:
        >>> fault("agent: retry a refused write"), fault("Fixed it")
        ('', "begin with the area, such as 'agent: ' or 'docs, chart: '")
    """
    if len(subject) > LONGEST:
        return f"{len(subject)} characters; at most {LONGEST}"
    return "" if FORM.fullmatch(subject) else "begin with the area, such as 'agent: ' or 'docs, chart: '"


def main(root: Path = _ROOT) -> int:
    """Run; returns the exit status."""
    try:
        shallow = _git(root, "rev-parse", "--is-shallow-repository") == ["true"]
    except (OSError, subprocess.CalledProcessError):
        print("subjects: not checked: this is no git repository")
        return 0
    added = [] if shallow else _git(root, "log", "--diff-filter=A", "--format=%H", "HEAD", "--", _SELF)
    if not added:
        why = "this clone is shallow" if shallow else f"{_SELF} is not committed"
        print(f"subjects: not checked: {why}")
        return 0
    commits = _git(root, "log", "--no-merges", "--ancestry-path", "--format=%h %s", f"{added[-1]}..HEAD")
    faults = [(commit, text) for commit in commits if (text := fault(commit.partition(" ")[2]))]
    for commit, text in faults:
        print(f"{commit}\n  {text}", file=sys.stderr)
    print(f"subjects: {len(commits)} commits checked, {len(faults)} refused")
    return 1 if faults else 0


def _git(root: Path, *words: str) -> list[str]:
    command = ["git", *words]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.splitlines()


if __name__ == "__main__":
    sys.exit(main())
