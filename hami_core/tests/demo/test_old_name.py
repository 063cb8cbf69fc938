from __future__ import annotations

import pytest
from hami_nvidia.demo.stage import GpuNode, GpuStage

from hami_core.plugins import discovery


def test_stage_is_found_under_its_old_name_with_a_warning():
    import hami_core.demo.stage as old

    with pytest.warns(DeprecationWarning, match="import GpuStage from hami_nvidia.demo.stage"):
        assert old.GpuStage is GpuStage
    with pytest.warns(DeprecationWarning, match="import GpuNode from"):
        from hami_core.demo.stage import GpuNode as FromOld
    assert FromOld is GpuNode


def test_old_name_says_what_to_install_without_a_vendor(monkeypatch):
    import hami_core.demo.stage as old

    monkeypatch.setattr(old, "installed", lambda group: [] if group == discovery.DEMO else discovery.installed(group))
    with pytest.raises(ImportError, match=r"no demo of an installed vendor has GpuStage: pip install 'hami\[demo\]'"):
        _ = old.GpuStage
