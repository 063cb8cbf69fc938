"""Changes in a watched folder are reported at once. The folder may be made late, be removed and be replaced."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from pathlib import Path

import pytest

from hami_core.agent.watch import watch_folder

NEVER = 3600.0


class Told:
    """Counts reports, and waits for more of them."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1

    async def more_than(self, times: int, what: str) -> None:
        try:
            async with asyncio.timeout(30):
                while self.times <= times:
                    await asyncio.sleep(0.01)
        except TimeoutError:
            pytest.fail(f"nobody told of {what}: {self.times} times")


@contextlib.asynccontextmanager
async def watching(path, poll_s):
    told = Told()
    task = asyncio.ensure_future(watch_folder(path, told, poll_s=poll_s))
    try:
        await told.more_than(0, "the start")
        yield told
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_changes_are_reported_by_inotify(tmp_path):
    file = tmp_path / "kubelet_internal_checkpoint"
    async with watching(tmp_path, NEVER) as told:
        for what, change in {
            "a new file": lambda: file.write_text("1"),
            "other content": lambda: file.write_text("2"),
            "a file moved there": lambda: (tmp_path / ".new").rename(file),
            "a file removed": file.unlink,
        }.items():
            if "moved" in what:
                (tmp_path / ".new").write_text("3")
                await asyncio.sleep(0.1)
            before = told.times
            change()
            await told.more_than(before, what)


async def test_a_folder_made_later_is_watched(tmp_path):
    folder = tmp_path / "device-plugins"
    async with watching(folder, 0.05) as told:
        folder.mkdir()
        await told.more_than(told.times + 2, "the next looks")
    async with watching(folder, NEVER) as told:
        before = told.times
        (folder / "kubelet.sock").touch()
        await told.more_than(before, "a file in it")


@pytest.mark.parametrize("goes", ["removed", "renamed"])
async def test_a_folder_that_was_replaced_is_watched(tmp_path, goes):
    """The new folder may have the same inode number."""
    folder, other = tmp_path / "device-plugins", tmp_path / "other"
    folder.mkdir()
    times: list[float] = []
    now = asyncio.get_running_loop().time
    task = asyncio.ensure_future(watch_folder(folder, lambda: times.append(now()), poll_s=1.0))
    await asyncio.sleep(0)
    folder.rmdir() if goes == "removed" else folder.rename(other)
    folder.mkdir()
    # Polls are a second apart. Two reports closer than that prove that inotify reported one of them.
    try:
        async with asyncio.timeout(60):
            for number in itertools.count():
                (folder / f"{number}").touch()
                await asyncio.sleep(0.1)
                if sum(later - earlier < 0.5 for earlier, later in itertools.pairwise(times)) > 5:
                    break
    except TimeoutError:
        pytest.fail(f"nobody told of files in the new folder: {times}")
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_a_watch_leaves_no_descriptor_open(tmp_path):
    def open_files() -> set[str]:
        return {str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()}

    async with watching(tmp_path, NEVER):
        assert any("inotify" in name for name in open_files())
    assert not any("inotify" in name for name in open_files())
