"""The memory limit, exactly: the last block that fits, and the next that does not."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.each_machine

MIB = 1 << 20
OUT_OF_MEMORY = 2
DOORS = [("-DDIRECT",), (), ("-DGET_PROC_ADDRESS",)]


@pytest.mark.parametrize("door", DOORS, ids=["direct", "dlsym", "cuGetProcAddress"])
def test_last_block_fits_and_next_is_refused(make_container, programs, door):
    container = make_container(4000)
    seen = container.json(programs("fill", *door), 2)
    used = container.region().devices[0]
    assert seen["device_total"] == seen["total"] == seen["nvml_total"] == 4000 * MIB
    reserve = 4000 * MIB - seen["free"]
    assert reserve == used.context_bytes > 0
    assert seen["count"] == seen["free"] // (2 * MIB)
    assert seen["status"] == seen["again_status"] == OUT_OF_MEMORY
    assert seen["again"] == seen["count"]
    assert seen["left"] == seen["free"] % (2 * MIB)
    assert seen["nvml_used"] == 4000 * MIB - seen["left"]
    assert used.denied == 2
    assert used.peak_bytes <= 4000 * MIB
