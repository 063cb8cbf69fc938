"""Turn pages: which containers get one, and how damaged pages are repaired."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hami_interpose import turn

from hami_core import ContainerKind, ContainerRef, DeviceError, Slice

REF = ContainerRef("uid-1", "default", "pod", "main", ContainerKind.APP)
ROOT = "/usr/local/vgpu/turns"


def held(device, cores, mib=1000):
    return Slice(device.id, "NVIDIA", mib, cores, type="NVIDIA")


def pages(edits):
    """Host paths of the pages that a container gets, by container path."""
    found = {m.container_path: m for m in edits.mounts if m.container_path.startswith(ROOT)}
    assert not any(m.read_only for m in found.values())
    return {path: Path(m.host_path) for path, m in found.items()}


def test_a_page_for_each_limited_card_and_no_other(node, tmp_path):
    made = node()
    first, second = made.discover()
    both = pages(made.allocate((held(first, 30), held(second, 99)), REF))
    assert both == {f"{ROOT}/{d.id}": tmp_path / "hami/turns" / d.id for d in (first, second)}
    for page in both.values():
        assert page.read_bytes() == turn.initial()
        assert stat.S_IMODE(page.stat().st_mode) == 0o666
    assert stat.S_IMODE((tmp_path / "hami/turns").stat().st_mode) == 0o755
    assert {path.name for path in (tmp_path / "hami/turns").iterdir()} == {first.id, second.id, ".boot"}
    assert list(pages(made.allocate((held(first, 0), held(second, 1)), REF))) == [f"{ROOT}/{second.id}"]


@pytest.mark.parametrize("cores", [0, 100])
def test_no_page_without_a_limit(node, tmp_path, cores):
    made = node()
    first, _ = made.discover()
    assert pages(made.allocate((held(first, cores),), REF)) == {}
    assert not (tmp_path / "hami/turns").exists()


@pytest.mark.parametrize(
    "settings", [{"turn_pages": False}, {"enforcement": "observe"}, {"enforcement": "off"}, {"core_policy": "disable"}]
)
def test_no_page_if_no_limit_is_enforced_or_turns_are_off(node, tmp_path, settings):
    made = node(**settings)
    first, _ = made.discover()
    assert pages(made.allocate((held(first, 30),), REF)) == {}
    assert not (tmp_path / "hami/turns").exists()


def test_a_page_is_shared_across_agent_restarts(node):
    made, again = node(), node()
    first, _ = made.discover()
    (page,) = pages(made.allocate((held(first, 30),), REF)).values()
    with page.open("r+b") as file:
        file.seek(64)
        file.write(b"a holder and its slot")
    before = (page.stat().st_ino, page.read_bytes())
    assert list(pages(again.allocate((held(first, 60),), REF)).values()) == [page]
    assert (page.stat().st_ino, page.read_bytes()) == before


def test_a_missing_page_is_made_again(node):
    made = node()
    first, _ = made.discover()
    (page,) = pages(made.allocate((held(first, 30),), REF)).values()
    shutil.rmtree(page.parent)
    made.allocate((held(first, 30),), REF)
    assert page.read_bytes() == turn.initial()


def overwrite(path, offset, data):
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def test_pages_of_an_earlier_boot_are_deleted_once(node, tmp_path):
    """Their times belong to an earlier clock, so a holder of that boot could look alive for a long time."""
    proc = tmp_path / "proc/sys/kernel/random"
    proc.mkdir(parents=True)
    (proc / "boot_id").write_text("first\n")
    made = node(proc_root=tmp_path / "proc")
    cards = made.discover()
    slices = tuple(held(card, 30) for card in cards)
    kept = list(pages(made.allocate(slices, REF)).values())
    for page in kept:
        overwrite(page, 64, b"of the first boot")
    (proc / "boot_id").write_text("second\n")
    again = node(proc_root=tmp_path / "proc")
    again.allocate(slices[:1], REF)
    assert not kept[1].exists()
    again.allocate(slices, REF)
    assert [page.read_bytes() for page in kept] == [turn.initial()] * 2
    overwrite(kept[0], 64, b"of the second boot")
    node(proc_root=tmp_path / "proc").allocate(slices, REF)
    assert kept[0].read_bytes() != turn.initial(), "the page was deleted twice"


SPOILS = {
    "cut short": lambda path: os.truncate(path, 100),
    "emptied": lambda path: os.truncate(path, 0),
    "made long": lambda path: os.truncate(path, 1 << 30),
    "another magic": lambda path: overwrite(path, 0, b"nonsense"),
    "another version": lambda path: overwrite(path, 8, b"\xff" * 8),
    "closed to others": lambda path: path.chmod(0),
    "another's": lambda path: os.chown(path, 1234, 1234),
}


@pytest.mark.parametrize("how", ["allocate", "tend"])
@pytest.mark.parametrize("spoil", SPOILS)
def test_a_damaged_page_is_repaired_in_place(node, spoil, how):
    if spoil == "another's" and os.geteuid():
        pytest.skip("files can be given away by root alone")
    made = node()
    first, _ = made.discover()
    slices = (held(first, 30),)
    (page,) = pages(made.allocate(slices, REF)).values()
    inode = page.stat().st_ino
    SPOILS[spoil](page)
    if how == "allocate":
        made.allocate(slices, REF)
    else:
        made.tend({"r": REF}, {"r": slices}, {"r": str(page.parent / "no region")})
    status = page.stat()
    assert page.read_bytes() == turn.initial()
    assert status.st_ino == inode, "containers that have the old page mounted would lose the others"
    assert stat.S_IMODE(status.st_mode) == 0o666
    assert (status.st_uid, status.st_gid) == (os.geteuid(), os.getegid())


@pytest.mark.parametrize("kind", ["a link", "a pipe"])
def test_a_page_that_is_not_a_file_is_replaced_not_followed(node, tmp_path, kind):
    made = node()
    first, _ = made.discover()
    (page,) = pages(made.allocate((held(first, 30),), REF)).values()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("kept")
    page.unlink()
    if kind == "a link":
        page.symlink_to(elsewhere)
    else:
        os.mkfifo(page)
    made.allocate((held(first, 30),), REF)
    assert page.is_file()
    assert not page.is_symlink()
    assert page.read_bytes() == turn.initial()
    assert elsewhere.read_text() == "kept"


def test_a_page_that_cannot_be_opened_is_replaced(node):
    """A lease on the file blocks other openers. Only the owner of a file may take one."""
    made = node()
    first, _ = made.discover()
    (page,) = pages(made.allocate((held(first, 30),), REF)).values()
    inode, before = page.stat().st_ino, signal.signal(signal.SIGIO, signal.SIG_IGN)
    try:
        with page.open("rb") as file:
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            made.allocate((held(first, 30),), REF)
    finally:
        signal.signal(signal.SIGIO, before)
    assert page.stat().st_ino != inode
    assert page.read_bytes() == turn.initial()


def test_a_page_that_cannot_be_ensured_affects_no_other(node):
    made = node()
    cards = made.discover()
    slices = tuple(held(card, 30) for card in cards)
    kept = list(pages(made.allocate(slices, REF)).values())
    for page in kept:
        page.unlink()
    kept[0].mkdir()
    made.tend({"r": REF}, {"r": slices}, {"r": str(kept[0].parent / "no region")})
    assert kept[1].read_bytes() == turn.initial()
    with pytest.raises(DeviceError, match=kept[0].name):
        made.allocate(slices, REF)


def test_a_crash_while_a_page_was_made_leaves_nothing_behind(node, tmp_path):
    made = node()
    first, _ = made.discover()
    folder = tmp_path / "hami/turns"
    folder.mkdir(parents=True)
    (folder / f".new-{first.id}").write_bytes(b"half of it")
    made.allocate((held(first, 30),), REF)
    assert {path.name for path in folder.iterdir()} == {first.id, ".boot"}


def test_a_folder_that_cannot_be_made_is_an_error_that_names_it(node, tmp_path):
    made = node()
    first, _ = made.discover()
    (tmp_path / "hami").write_text("in the way")
    with pytest.raises(DeviceError, match="hami/turns"):
        made.allocate((held(first, 30),), REF)


def test_containers_prepared_at_once_share_one_page(node, tmp_path):
    made = node()
    first, _ = made.discover()
    with ThreadPoolExecutor(8) as pool:
        found = {
            page
            for edits in pool.map(lambda _: made.allocate((held(first, 30),), REF), range(32))
            for page in pages(edits).values()
        }
    assert found == {tmp_path / "hami/turns" / first.id}
