"""`python -m hami_core.sim apiserver|scheduler|kubelet`."""

from __future__ import annotations

import argparse
import importlib
import sys

_PARTS = {
    "apiserver": "hami_core.sim.apiserver_main",
    "scheduler": "hami_core.sim.scheduler_main",
    "kubelet": "hami_core.sim.kubelet.main",
}


def main(argv: list[str] | None = None) -> None:
    """Runs one part of the embedded cluster."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(prog="python -m hami_core.sim", description="One part of the embedded cluster.")
    parser.add_argument("part", choices=_PARTS, help="the part to run; each has its own --help")
    part = parser.parse_args(argv[:1]).part
    importlib.import_module(_PARTS[part]).main(argv[1:])


if __name__ == "__main__":
    main()
