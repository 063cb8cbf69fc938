"""``python -m hami_ascend.sim FOLDER``: make two simulated NPUs, and print the environment of their agent."""

from __future__ import annotations

import sys
from pathlib import Path

from hami_ascend.sim import create

if __name__ == "__main__":
    for name, value in create(Path(sys.argv[1]).resolve(), cards=2).items():
        print(f"{name}={value}")
