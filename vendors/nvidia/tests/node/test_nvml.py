"""NVML through the simulated driver: the same library calls as on real cards."""

from __future__ import annotations

import shutil
import subprocess
import sys

import hami_gpusim as sim
import pytest
from hami_nvidia.modes import ALL_ALLOWED
from hami_nvidia.nvml import Nvml, NvmlError


def test_cards(nvml):
    cards, errors = nvml.cards()
    assert not errors
    assert [c.index for c in cards] == [0, 1]
    assert all(c.uuid.startswith("GPU-") and c.memory_bytes > 2**30 and c.modes == ALL_ALLOWED for c in cards)
    assert [c.minor for c in cards] == [0, 1]
    assert nvml.usage(cards[0].uuid).memory_used_bytes == 0
    assert nvml.processes(cards[0].uuid) == {}
    assert nvml.driver_version()


def test_one_lost_card_does_not_hide_the_others(nvml, state):
    state.lose(0)
    cards, errors = nvml.cards()
    assert [c.index for c in cards] == [1]
    assert len(errors) == 1
    assert "card 0" in str(errors[0]) or "GPU-" in str(errors[0])
    state.restore(0)
    assert len(nvml.cards()[0]) == 2


def test_a_failing_call_names_call_and_card(nvml, state):
    cards, _ = nvml.cards()
    state.inject(sim.Fault("nvmlDeviceGetUtilizationRates", error=999))
    with pytest.raises(NvmlError) as caught:
        nvml.usage(cards[1].uuid)
    assert caught.value.code == 999
    assert cards[1].uuid in str(caught.value)
    assert "nvmlDeviceGetUtilizationRates" in str(caught.value)


def test_a_missing_library_says_where_it_was_searched():
    with pytest.raises(NvmlError, match="no/such/libnvidia-ml"):
        Nvml(lambda: "/no/such/libnvidia-ml.so.1").cards()


def test_importing_the_node_side_loads_no_driver():
    code = "import sys, hami_nvidia.nvml; sys.exit('pynvml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_driver_that_was_replaced_is_used_through_its_new_library(tmp_path, monkeypatch):
    """As when the GPU Operator installs another version of the driver below the same root."""
    places = []
    for name in ("old", "new"):
        sim.create(tmp_path / name, "a100")
        places.append(shutil.copy(sim.library_dir() / "libnvidia-ml.so.1", tmp_path / f"libnvidia-ml.so.{name}"))
    now = [places[0]]
    nvml = Nvml(lambda: now[0])
    monkeypatch.setenv("HAMI_SIM_STATE", str(tmp_path / "old"))
    (before,), _ = nvml.cards()
    nvml.close()
    now[0] = str(tmp_path / "gone")
    with pytest.raises(NvmlError, match="gone"):
        nvml.cards()
    now[0] = places[1]
    monkeypatch.setenv("HAMI_SIM_STATE", str(tmp_path / "new"))
    (after,), _ = nvml.cards()
    nvml.close()
    assert after.uuid != before.uuid
    assert nvml.usage(after.uuid).memory_used_bytes == 0
    with sim.State(tmp_path / "new") as state:
        assert after.uuid == state.devices[0].uuid


@pytest.mark.parametrize("code", [1, 9, 12, 18, 27, 999])
def test_nvml_is_opened_again_after_it_failed_as_a_whole(node, state, code):
    made = node()
    before = made.discover()
    assert all(change.healthy for change in made.health(before))
    for call in ("nvmlInitWithFlags", "nvmlDeviceGetCount_v2", "nvmlDeviceGetMemoryInfo", "nvmlEventSetWait_v2"):
        state.inject(sim.Fault(call, code))
    for _ in range(2):
        assert not any(change.healthy for change in made.health(before))
        with pytest.raises(NvmlError, match=f"NVML error {code}"):
            made.discover()
    assert made.metrics({}, {})
    state.clear()
    assert made.discover() == before
    assert all(change.healthy for change in made.health(before))
