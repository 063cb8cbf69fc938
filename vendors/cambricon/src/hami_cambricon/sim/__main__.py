"""``python -m hami_cambricon.sim FOLDER``: make two simulated cards, and print the environment of their agent."""

from __future__ import annotations

import sys
from pathlib import Path

from hami_cambricon.sim import create

if __name__ == "__main__":
    for name, value in create(Path(sys.argv[1]).resolve()).items():
        print(f"{name}={value}")
