"""Signing keys that change while the agent runs, as the kubelet does it, and in half-written folders."""

from __future__ import annotations

import asyncio

import pytest

from hami_core.agent.keyfiles import KeyFiles
from hami_core.errors import ConfigError
from hami_core.wire.signature import generate_private_key, key_id, public_key_pem

KEYS = [generate_private_key().public_key() for _ in range(3)]


def mount(folder, *keys, version):
    """Update a ConfigMap's folder as the kubelet does: make a new folder, then replace the link ``..data``."""
    content = folder / f"..{version}"
    content.mkdir()
    for key in keys:
        (content / f"{key_id(key)}.pem").write_bytes(public_key_pem(key))
    (folder / "..data_tmp").symlink_to(content.name)
    (folder / "..data_tmp").replace(folder / "..data")
    for key in keys:
        link = folder / f"{key_id(key)}.pem"
        if not link.is_symlink():
            link.symlink_to(f"..data/{link.name}")
    for link in folder.glob("*.pem"):
        if not link.exists():
            link.unlink()


def ids(keys):
    return {key_id(key) for key in keys}


async def test_keys_follow_a_changed_config_map(tmp_path):
    mount(tmp_path, KEYS[0], version="1")
    files = KeyFiles(tmp_path)
    assert ids(files.keys) == ids(KEYS[:1])
    changed = asyncio.Event()
    watching = asyncio.create_task(files.watch(changed.set))
    for version, keys in (("2", KEYS[:2]), ("3", KEYS[1:])):
        mount(tmp_path, *keys, version=version)
        async with asyncio.timeout(60):
            while ids(files.keys) != ids(keys):
                await changed.wait()
                changed.clear()
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


def test_an_empty_folder_is_a_readiness_problem_until_filled(tmp_path):
    files = KeyFiles(tmp_path)
    assert str(tmp_path) in files.problem()
    assert not files.refresh()
    mount(tmp_path, KEYS[0], version="1")
    assert files.refresh()
    assert files.problem() == ""


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: [p.unlink() for p in folder.glob("*.pem")],
        lambda folder: [p.write_bytes(b"-----BEGIN PUBLIC KEY-----\nMCow") for p in folder.glob("*.pem")],
        lambda folder: [p.write_bytes(b"") for p in folder.glob("*.pem")],
        lambda folder: (folder / "new.pem").write_bytes(public_key_pem(KEYS[2])[:40]),
        lambda folder: [p.unlink() for p in folder.glob("*.pem")] and folder.rmdir(),
    ],
    ids=["emptied", "cut", "truncated", "half a new one", "gone"],
)
def test_a_file_that_does_not_load_keeps_the_keys(tmp_path, spoil):
    folder = tmp_path / "keys"
    folder.mkdir()
    for key in KEYS[:2]:
        (folder / f"{key_id(key)}.pem").write_bytes(public_key_pem(key))
    files = KeyFiles(folder)
    spoil(folder)
    assert not files.refresh()
    assert ids(files.keys) == ids(KEYS[:2])
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    (folder / "one.pem").write_bytes(public_key_pem(KEYS[2]))
    assert files.refresh()
    assert ids(files.keys) == ids(KEYS[2:])


def test_a_broken_file_does_not_hide_other_files(tmp_path):
    """Someone emptied an entry of the ConfigMap by hand. The key that the scheduler publishes next must be accepted."""
    (tmp_path / "old.pem").write_bytes(public_key_pem(KEYS[0]))
    files = KeyFiles(tmp_path)
    (tmp_path / "old.pem").write_bytes(b"")
    (tmp_path / "new.pem").write_bytes(public_key_pem(KEYS[1]))
    assert files.refresh()
    assert ids(files.keys) == ids(KEYS[:2]), "the file's previous keys stay until the file is gone"
    assert ids(KeyFiles(tmp_path).keys) == ids(KEYS[1:2]), "a broken file does not stop an agent from starting"
    (tmp_path / "old.pem").unlink()
    assert files.refresh()
    assert ids(files.keys) == ids(KEYS[1:2])


def test_a_missing_file_or_folder_is_a_config_error(tmp_path):
    with pytest.raises(ConfigError, match="signing_keys"):
        KeyFiles(tmp_path / "none")
    (tmp_path / "empty.pem").write_bytes(b"")
    with pytest.raises(ConfigError, match="holds no PEM public key"):
        KeyFiles(tmp_path / "empty.pem")
