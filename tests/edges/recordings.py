"""The recordings: a file for each scenario and Kubernetes version, written by ``tests/e2e/test_record.py --record``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "recorded"


def versions() -> list[str]:
    """Recorded Kubernetes versions, oldest first."""
    return sorted((p.name for p in FOLDER.iterdir() if p.is_dir()), key=lambda v: [int(n) for n in v.split(".")])


def names(version: str) -> list[str]:
    """Names of the scenarios recorded on a version."""
    return sorted(p.stem for p in (FOLDER / version).glob("*.json"))


def load(version: str, scenario: str) -> Any:
    """Read a recording. None if it does not exist."""
    path = FOLDER / version / f"{scenario}.json"
    return json.loads(path.read_text()) if path.exists() else None


def save(version: str, scenario: str, seen: Any) -> None:
    """Write a recording."""
    folder = FOLDER / version
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{scenario}.json").write_text(json.dumps(seen, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
