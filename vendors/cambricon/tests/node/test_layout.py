"""The layouts of the structures in Python are those that a C compiler gives them."""

from __future__ import annotations

import ctypes
import subprocess

import pytest
from hami_cambricon import cndev, sim

STRUCTURES = {
    "cndevCardInfo_t": cndev.CardInfo,
    "cndevUUID_t": cndev.UuidInfo,
    "cndevMemoryInfoV2_t": cndev.MemoryInfo,
    "cndevUtilizationInfo_t": cndev.UtilizationInfo,
    "cndevCardHealthState_t": cndev.HealthState,
    "cndevNUMANodeId_t": cndev.NumaNode,
    "cndevSMLUMode_t": cndev.Mode,
    "cndevMimMode_t": cndev.Mode,
    "cndevComputeMode_t": cndev.Mode,
    "cndevSMluSet_t": cndev.SmluSet,
    "cndevSMluInfo_t": cndev.SmluInfo,
    "cndevSMluProfileIdInfo_t": cndev.SmluProfileIds,
    "cndevSMluProfileInfo_t": cndev.SmluProfileInfo,
}
RENAMED = {"cndevSMLUMode_t": "smluMode", "cndevMimMode_t": "mimMode"}
"""C's name of the field ``mode``, where it differs."""


@pytest.fixture(scope="module")
def printed(tmp_path_factory) -> list[str]:
    """What a C program prints: ``<structure> <size>`` and ``<structure>.<field> <offset>``."""
    lines = []
    for name, structure in STRUCTURES.items():
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        for field, _ in structure._fields_:
            written = RENAMED.get(name, field) if field == "mode" else field
            lines.append(f'printf("{name}.{field} %zu\\n", offsetof({name}, {written}));')
    folder = tmp_path_factory.mktemp("layout")
    program = folder / "layout.c"
    program.write_text(
        f'#include "{sim.SOURCE}"\n#include <stddef.h>\nint main(void) {{ {" ".join(lines)} return 0; }}\n'
    )
    subprocess.run(["cc", "-std=c11", str(program), "-o", str(folder / "layout")], check=True)
    return subprocess.run([str(folder / "layout")], check=True, capture_output=True, text=True).stdout.splitlines()


def test_sizes_and_offsets_are_those_of_the_c_compiler(printed):
    ours = []
    for name, structure in STRUCTURES.items():
        ours.append(f"{name} {ctypes.sizeof(structure)}")
        ours += [f"{name}.{field} {getattr(structure, field).offset}" for field, _ in structure._fields_]
    assert ours == printed


def test_sizes_are_those_of_the_public_header(printed):
    """Sizes computed by hand from the header's fields, so that a field missing on both sides is noticed."""
    assert {"cndevUUID_t 56", "cndevMemoryInfoV2_t 176", "cndevUtilizationInfo_t 328"} <= set(printed)
    assert {"cndevSMluInfo_t 904", "cndevSMluProfileIdInfo_t 520", "cndevSMluProfileInfo_t 144"} <= set(printed)
