"""The vDCUs of HAMi's DCU plugin, as the replay in tests/foreign plays it, against the vectors."""

from __future__ import annotations

import pytest

from hami_core.plugins import load
from hami_core.tests.scheduler.hami_plugin import PluginError
from tests.foreign.hygon import ALL_CORES, SLOTS, Vdevs

from .cases import value

pytestmark = pytest.mark.vectors

VDEV = value("vendors/hygonVdev")


def test_vdcu_files_have_the_lines_of_the_real_plugin() -> None:
    made = Vdevs().create("uid", "main", card=1, memory_mib=4096, cores=25)
    assert [line.partition(":")[0] for line in made.text.splitlines()] == VDEV["lines"]
    masks = [line.partition("0x")[2] for line in made.text.splitlines() if line.startswith("cu_mask")]
    assert [len(mask) for mask in masks] == [VDEV["maskHexDigits"]] * 2
    facts = {
        "podUID": "uid", "ctr": "main", "dev": made.facts["device_id"], "pipe": made.facts["pipe_id"],
        "vdev": made.facts["vdev_id"], "mask1": masks[0], "mask2": masks[1],
    }  # fmt: skip
    wanted = VDEV["hostDir"]
    for name, text in facts.items():
        wanted = wanted.replace(f"<{name}>", text)
    assert made.folder == wanted


def test_a_card_has_as_many_vdcus_as_pipes() -> None:
    vdevs = Vdevs()
    for _ in range(VDEV["pipesPerDevice"]):
        vdevs.create("uid", "main", card=0, memory_mib=1, cores=1)
    with pytest.raises(PluginError, match="pipidx"):
        vdevs.create("uid", "main", card=0, memory_mib=1, cores=1)
    assert vdevs.create("uid", "main", card=1, memory_mib=1, cores=1).facts["pipe_id"] == "0"


def test_a_node_has_a_fixed_number_of_vdcus() -> None:
    vdevs = Vdevs()
    for number in range(VDEV["vidxMax"]):
        vdevs.create("uid", "main", card=number // VDEV["pipesPerDevice"], memory_mib=1, cores=1)
    with pytest.raises(PluginError, match="vidx"):
        vdevs.create("uid", "main", card=15, memory_mib=1, cores=1)


def test_cards_are_shared_and_divided_as_by_the_real_plugin() -> None:
    assert (VDEV["count"], VDEV["devcore"]) == (SLOTS, ALL_CORES)


def test_memory_is_in_units_of_the_configured_factor() -> None:
    for factor in (1, 4):
        families = load({"hygon": {"memoryFactor": factor}}, only=["hygon"]).families
        assert {family.memory_factor for family in families.values()} == {factor}
