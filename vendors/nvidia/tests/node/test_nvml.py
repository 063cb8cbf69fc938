"""NVML through the simulated driver: the same library calls as on real cards."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hami_interpose import sim
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
