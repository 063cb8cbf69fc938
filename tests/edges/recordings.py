"""The recordings: one file a scenario and version of Kubernetes, made by ``tests/e2e/test_record.py --record``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "recorded"


def versions() -> list[str]:
    """Versions there are recordings of, oldest first."""
    return sorted((p.name for p in FOLDER.iterdir() if p.is_dir()), key=lambda v: [int(n) for n in v.split(".")])


def names(version: str) -> list[str]:
    """Scenarios recorded on a version."""
    return sorted(p.stem for p in (FOLDER / version).glob("*.json"))


def load(version: str, scenario: str) -> Any:
    """What was seen; None when there is no recording."""
    path = FOLDER / version / f"{scenario}.json"
    return json.loads(path.read_text()) if path.exists() else None


def save(version: str, scenario: str, seen: Any) -> None:
    """Keeps what was seen."""
    folder = FOLDER / version
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{scenario}.json").write_text(json.dumps(seen, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
