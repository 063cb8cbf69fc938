"""Foreign vectors run like our own, and unknown parts in them fail by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.vectors

HERE = Path(__file__).parent
SOUND = {
    "policy_contains": {"src": "x", "cases": [{"policy": "mutex,spread", "token": "mutex", "out": True, "note": "n"}]},
    "reason_string": {"cases": [{"op": "parse", "in": "1/2 A", "out": {"A": 1}}]},
}


def outcome(folder: Path, vectors: dict[str, object]) -> tuple[int, str]:
    """Exit status and output of the vector tests on a folder with one file."""
    (folder / "control-plane.json").write_text(json.dumps(vectors))
    modules = [str(HERE / name) for name in ("test_codec_pod.py", "test_claims.py")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "vectors", "-p", "no:cacheprovider", *modules],
        env={**os.environ, "HAMI_VECTORS": str(folder)},
        cwd=HERE.parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def test_foreign_cases_of_known_groups_pass(tmp_path: Path) -> None:
    status, output = outcome(tmp_path, SOUND)
    assert status == 0, output


def test_wrong_or_unknown_parts_fail_by_name(tmp_path: Path) -> None:
    status, output = outcome(
        tmp_path,
        {
            "policy_contains": {
                "cases": [
                    {"policy": "a", "token": "b", "out": False, "surprise": 1},
                    {"policy": "mutex", "token": "mutex", "out": False},
                ]
            },
            "reason_string": {"cases": [{"op": "translate", "in": "x"}]},
            "brand_new": {"cases": [{"a": 1}]},
        },
    )
    assert status == 1
    assert "policy_contains[0]: keys unknown to the runner: ['surprise']" in output
    assert "test_policy_words_match_hami[policy_contains[1]]" in output
    assert "reason_string[0]: op 'translate' is unknown to the runner" in output
    assert "vectors that no module runs: ['brand_new']" in output
