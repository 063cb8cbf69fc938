"""A node with simulated Ascend NPUs: a library ``libdcmi.so`` over a folder of small text files.

The folder has ``card<k>/device<k>/`` for each chip, with one file for each fact, and one file for each vNPU. Change a
file to change the hardware: write ``1`` to ``health``, or a return code such as ``-8012`` to ``error``, or remove the
folder. The head of ``dcmi.c`` lists the files.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

SOURCE: Final = Path(__file__).with_name("dcmi.c")
EXIT_STATUS: Final = 86
"""Exit status of a process that ``HAMI_DCMI_SIM_EXIT`` ended."""


def create(
    folder: Path, cards: int = 8, model: str = "910B3", devices_in_card: int = 1, first_die: int = 1
) -> dict[str, str]:
    """Write a node's NPUs, and compile the library beside them.

    Args:
        folder: Folder to write to; it is made.
        cards: Number of boards.
        model: Chip name, such as ``910B3``, ``310P3`` or ``Ascend910`` (the 910C, with two chips on a board).
        devices_in_card: Number of chips on a board.
        first_die: First word of the first chip's die id, so that nodes have different ids.

    Returns:
        Environment for the agent, such as ``StageNode(env=…)``.

    Raises:
        ConfigError: There is no C compiler.
    """
    from hami_core.testing import build_library  # noqa: PLC0415 - needs hami[testing], which agents do not have

    hbm = not model.startswith("310")
    for card in range(cards):
        for device in range(devices_in_card):
            logic_id = card * devices_in_card + device
            facts = {
                "die_id": f"{first_die + logic_id:08X}-2000AAAA-00000003-00000004-{0xE0000000 + logic_id:08X}",
                "chip_name": model,
                "logic_id": str(logic_id),
                "phy_id": str(logic_id),
                "health": "0",
                "memory_mib": str(_MEMORY_MIB.get(model, 65536)),
                "memory_used_mib": "3072",
                "hbm": str(int(hbm)),
                "utilization": "0",
                "product_type": f"Atlas {model}",
                "aicore": str(_AICORES.get(model, 20)),
            }
            write(folder / f"card{card}" / f"device{device}", facts)
            (folder / f"card{card}" / f"device{device}" / "vnpu").mkdir(exist_ok=True)
    library = build_library(SOURCE, folder / "lib" / "libdcmi.so")
    return {"HAMI_DCMI_SIM": str(folder), "HAMI_ASCEND_DCMI_LIBRARY": str(library)}


def write(chip: Path, facts: Mapping[str, str]) -> None:
    """Write facts of one chip, each to its file."""
    chip.mkdir(parents=True, exist_ok=True)
    for name, value in facts.items():
        (chip / name).write_text(value + "\n", "utf-8")


_MEMORY_MIB: Final = {"910A": 32768, "910B4": 32768, "310P3": 24576}
_AICORES: Final = {"910A": 30, "910B2": 24, "310P3": 8}
