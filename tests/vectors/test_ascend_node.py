"""Ascend's node side, against the vectors: network groups, metrics' labels, and the counters of a soft split."""

from __future__ import annotations

import pytest
from hami_ascend import shmem
from hami_ascend.node import METRICS, network_id

from .cases import value

pytestmark = pytest.mark.vectors


def test_network_groups_are_hamis():
    assert value("vendors/ascend.networkId") == {"910x": "1 if index>3 else 0", "910C": 0}
    assert [network_id("Ascend910B4", index) for index in range(8)] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert {network_id("Ascend910C", index) for index in range(16)} == {0}


def test_counters_of_a_soft_split_are_where_hami_writes_them(tmp_path):
    layout = value("vendors/ascend.localShmem")
    slot = layout["slot"]
    content = bytearray(layout["procsOffset"] + layout["procSlots"] * layout["procSlotSize"])
    for process, active in ((0, 1), (1, 0), (layout["procSlots"] - 1, 1)):
        start = layout["procsOffset"] + process * layout["procSlotSize"]
        begin, size = start + slot["hbmUsed"][0], slot["hbmUsed"][1] // shmem.DEVICES
        for device in range(shmem.DEVICES):
            content[begin + device * size : begin + (device + 1) * size] = (1000 + device).to_bytes(size, "little")
        content[start + slot["active"][0]] = active
    file = tmp_path / shmem.NAME
    file.write_bytes(content)
    assert shmem.memory_used(file, 1 << 30) == tuple(2 * (1000 + device) for device in range(shmem.DEVICES))


def test_metrics_have_hamis_labels():
    theirs = {**value("vendors/metrics.host"), **value("vendors/metrics.container")}
    for spec in METRICS:
        if spec.name in theirs:
            assert (set(spec.labels), spec.zoned) == (set(theirs[spec.name]), True)
