"""Two Acme devices for tests and demonstrations: files that look like what the driver and the kernel show.

``python -m hami_acme.simulated FOLDER`` makes them, and prints the variables that lead the node side to them.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path


def devices(folder: Path) -> dict[str, str]:
    """Make two devices below the folder. Returns the variables of the node side."""
    sysfs, dev = folder / "sys", folder / "dev"
    for index in range(2):
        device = sysfs / f"acme{index}"
        device.mkdir(parents=True, exist_ok=True)
        facts = {"uuid": f"ACME-000{index}", "memory_mib": "32768", "model": "Acme-X1", "numa_node": "0"}
        for name, value in facts.items():
            (device / name).write_text(value + "\n", "utf-8")
        dev.mkdir(exist_ok=True)
        (dev / device.name).touch()
    return {"HAMI_ACME_SYSFS": str(sysfs), "HAMI_ACME_DEV": str(dev)}


if __name__ == "__main__":
    for name, value in devices(Path(sys.argv[1]).resolve()).items():
        sys.stdout.write(f"export {name}={shlex.quote(value)}\n")
