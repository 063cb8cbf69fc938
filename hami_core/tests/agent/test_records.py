"""Records on disk, in folders to which a container may have written."""

from __future__ import annotations

import os
import stat

import msgspec
import pytest

from hami_core.agent import files
from hami_core.agent.records import RecordStore
from hami_core.tests.agent.test_cdi_check import RECORD


@pytest.fixture
def store(tmp_path):
    found = RecordStore(tmp_path / "state")
    found.prepare()
    return found


def test_a_record_survives_a_round_trip(store):
    store.write(RECORD)
    assert store.load() == {RECORD.name: RECORD}


def test_modes_do_not_depend_on_the_umask(store):
    before = os.umask(0o077)
    try:
        store.write(RECORD)
        store.write_limits(RECORD, {"limits": b"x"})
        store.write_region(RECORD, {"vgpu.cache": b"y"}, after_reboot=False)
    finally:
        os.umask(before)
    home = store.path / RECORD.id
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in (home / "limits", home / "region")}
    assert modes == {"limits": 0o755, "region": 0o755}
    assert stat.S_IMODE((home / "limits/limits").stat().st_mode) == 0o644
    assert stat.S_IMODE((home / "region/vgpu.cache").stat().st_mode) == 0o666


def test_a_region_is_replaced_only_after_a_reboot(store):
    store.write(RECORD)
    store.write_region(RECORD, {"vgpu.cache": b"0000"}, after_reboot=False)
    path = store.path / RECORD.id / "region/vgpu.cache"
    path.write_bytes(b"used")
    store.write_region(RECORD, {"vgpu.cache": b"0000"}, after_reboot=False)
    assert path.read_bytes() == b"used"
    store.write_region(RECORD, {"vgpu.cache": b"0000"}, after_reboot=True)
    assert path.read_bytes() == b"0000"


def test_links_made_by_a_container_are_not_followed(store, tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    store.write(RECORD)
    store.write_region(RECORD, {"vgpu.cache": b"0000"}, after_reboot=False)
    region = store.path / RECORD.id / "region"
    (region / "vgpu.cache").unlink()
    (region / "vgpu.cache").symlink_to(victim)
    (region / f"{files.PREFIX}vgpu-cache").symlink_to(victim)
    (region / "folder").symlink_to(tmp_path)
    store.write_region(RECORD, {"vgpu.cache": b"0000"}, after_reboot=False)
    assert victim.read_bytes() == b"precious"
    assert not (region / "vgpu.cache").is_symlink()
    store.remove(RECORD.id)
    assert victim.read_bytes() == b"precious"
    assert not (store.path / RECORD.id).exists()


def test_a_folder_turned_into_a_link_is_refused(store, tmp_path):
    store.write(RECORD)
    (store.path / RECORD.id / "limits").symlink_to(tmp_path)
    with pytest.raises(OSError):  # noqa: PT011 - ELOOP or ENOTDIR, as the kernel chooses
        store.write_limits(RECORD, {"limits": b"x"})
    assert not (tmp_path / "limits").exists()


@pytest.mark.parametrize("content", [b"", b"{}", b"null", b'{"name": 1}', b"\xff", b"[" * 10000])
def test_a_broken_record_is_kept_and_listed_as_a_problem(store, content):
    store.write(RECORD)
    (store.path / RECORD.id / "record.json").write_bytes(content)
    other = msgspec.structs.replace(RECORD, pod_uid="uid-b")
    store.write(other)
    assert list(store.load().values()) == [other]
    assert list(store.problems) == [RECORD.id]


def test_a_record_of_a_later_version_is_a_problem(store):
    store.write(msgspec.structs.replace(RECORD, version=2))
    assert store.load() == {}
    assert "version 2" in store.problems[RECORD.id]


def test_names_that_leave_the_folder_are_refused(store):
    store.write(RECORD)
    for bad in ("../x", "a/b", "", "."):
        with pytest.raises(ValueError, match="record"):
            store.write_limits(RECORD, {bad: b"x"})
        with pytest.raises(ValueError, match="record"):
            store.remove(bad)
    with pytest.raises(ValueError, match="record"):
        store.write(msgspec.structs.replace(RECORD, pod_uid="../../etc"))


def test_blocks_of_zeros_are_reserved_on_disk(store):
    store.write(RECORD)
    store.write_region(RECORD, {"vgpu.cache": bytes(1 << 20) + b"end"}, after_reboot=False)
    status = (store.path / RECORD.id / "region/vgpu.cache").stat()
    assert status.st_size == (1 << 20) + 3
    assert status.st_blocks * 512 >= 1 << 20
