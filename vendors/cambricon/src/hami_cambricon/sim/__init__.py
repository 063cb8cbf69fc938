"""Simulated MLUs: a libcndev.so whose cards are a folder of small text files, for tests and for people without cards.

`create` makes the folder. Write its files to change a card, such as ``card0/health``; `cndev.c` lists them.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("cndev.c")
SHARED_AT_START: Final = (1, 2, 4)
"""The driver's own sMLU profiles: the whole card, a half and a quarter."""
_STATE: Final = {"health": 1, "driver": 4, "compute": 0, "mim": 0, "used_mib": 0, "percent": 0}


def create(
    folder: Path,
    *,
    cards: int = 2,
    model: str = "MLU370-X8",
    memory_mib: int = 49152,
    smlu: bool = True,
    library: Path | None = None,
) -> dict[str, str]:
    """Make simulated cards.

    Args:
        folder: A new folder for the cards, their device nodes and the library.
        cards: Number of cards.
        model: Their model, as CNDev names it.
        memory_mib: Memory of each card in MiB.
        smlu: Whether sMLU mode is on.
        library: The simulated library, if it is already built.

    Returns:
        Environment for `hami agent --vendor cambricon`.

    Raises:
        ConfigError: The library can't be compiled.
        FileExistsError: The folder has cards already.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     env = create(Path(folder), cards=1, library=Path("libcndev.so"))
        ...     (Path(folder) / "card0" / "model").read_text()
        'MLU370-X8'
    """
    from hami_core.testing import build_library  # noqa: PLC0415 - the node side imports this package without it

    dev = folder / "dev"
    (dev / "cambricon-caps").mkdir(parents=True)
    (dev / "cambricon_ctl").touch()
    for index in range(cards):
        card = folder / f"card{index}"
        for part in ("profiles", "instances", "usage"):
            (card / part).mkdir(parents=True)
        facts = _STATE | {
            "uuid": f"{zlib.crc32(str(card).encode()):08x}-1916-0000-0000-000000000000",
            "model": model,
            "memory_mib": memory_mib,
            "numa": index % 2,
            "smlu": int(smlu),
        }
        for name, value in facts.items():
            (card / name).write_text(str(value))
        for number, share in enumerate(SHARED_AT_START):
            (card / "profiles" / str(number)).write_text(f"{100 // share} {(memory_mib << 20) // share}\n")
        for node in ("cambricon_dev", "cambricon_ipcm"):
            (dev / f"{node}{index}").touch()
    return {
        "HAMI_CNDEV_SIM": str(folder),
        "HAMI_CAMBRICON_LIBRARY": str(library or build_library(SOURCE, folder / "libcndev.so")),
        "HAMI_CAMBRICON_DEV_ROOT": str(dev),
    }
