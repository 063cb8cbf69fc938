"""Containers that run without the mounts of their CDI spec are found by their mount tables."""

from __future__ import annotations

import msgspec
import pytest

from hami_core.agent.cdi_check import CdiCheck, container_id
from hami_core.agent.records import Record, RecordStore
from hami_core.kube.objects import Pod
from hami_core.model import ContainerKind

CID = "ab" * 32
RECORD = Record(
    name="0123456789abcdef0123456789abcdef",
    vendor="acme",
    resource="acme.io/card",
    pod_uid="uid-a",
    namespace="default",
    pod="a",
    container="main",
    kind=ContainerKind.APP,
    slot_ids=("s",),
    slices=(),
    pod_slices=(),
    marked=True,
)
OLD = msgspec.structs.replace(RECORD, marked=False)
SERIAL = msgspec.structs.replace(OLD, serial=True)
WHOLE = msgspec.structs.replace(RECORD, whole=True)


def process(proc, pid, *, mounts, cgroup=f"cri-containerd-{CID}.scope"):
    folder = proc / str(pid)
    folder.mkdir(parents=True)
    (folder / "cgroup").write_text(f"0::/kubepods.slice/{cgroup}\n")
    (folder / "mountinfo").write_text(mounts)


def mount(source, target="/usr/local/vgpu/limits"):
    return f"36 35 8:1 {source} {target} ro - ext4 /dev/sda1 rw\n"


ROOT = mount("/", "/")
FOLDER = f"/var/lib/hami/containers/{RECORD.id}"
MARK = mount(f"{FOLDER}/mark", "/.hami/acme.io/card")
LIMITS = mount(f"{FOLDER}/limits")
ANOTHERS = mount("/var/lib/hami/containers/uid-b_main_00000000/mark", "/.hami/acme.io/card")
FILLED = mount(f"/var/lib/hami/serial/{RECORD.name}/limits")


@pytest.fixture
def look(tmp_path):
    """Check a record's container once, with the given mount tables. Returns whether it is proven, and missing."""
    store = RecordStore(tmp_path / "state")
    store.prepare()

    def once(record, *tables, limits=False, cgroup=f"cri-containerd-{CID}.scope"):
        store.write(record)
        if limits:
            store.write_limits(record, {"limits": b""})
        for number, table in enumerate(tables):
            process(tmp_path / "proc", 7 + number, mounts=table, cgroup=cgroup)
        (tmp_path / "proc").mkdir(exist_ok=True)
        cdi_check = CdiCheck(tmp_path / "proc", store.expected_mount)
        found = cdi_check.find_unlimited([(record, CID)])
        assert found == ([record] if cdi_check.missing else [])
        return bool(cdi_check.proven), bool(cdi_check.missing)

    return once


PROVEN, MISSING, UNKNOWN = (True, False), (False, True), (False, False)


@pytest.mark.parametrize(
    ("record", "mounts", "limits", "verdict"),
    [
        pytest.param(RECORD, ROOT + MARK, False, PROVEN, id="marked, a vendor without limits"),
        pytest.param(RECORD, ROOT + MARK + LIMITS, True, PROVEN, id="marked, a vendor with limits"),
        pytest.param(RECORD, ROOT + MARK.replace("/mark", "/mark//deleted"), False, PROVEN, id="the mark is deleted"),
        pytest.param(RECORD, ROOT, False, MISSING, id="no mark, a vendor without limits"),
        pytest.param(RECORD, ROOT, True, MISSING, id="no mark, a vendor with limits"),
        pytest.param(RECORD, ROOT + ANOTHERS, False, MISSING, id="another container's mark"),
        pytest.param(WHOLE, ROOT + MARK, False, PROVEN, id="whole cards, marked"),
        pytest.param(WHOLE, ROOT, False, MISSING, id="whole cards, no mark"),
        pytest.param(OLD, ROOT, False, PROVEN, id="an older agent's, a vendor without limits"),
        pytest.param(OLD, ROOT + LIMITS, True, PROVEN, id="an older agent's, limits mounted"),
        pytest.param(OLD, ROOT, True, MISSING, id="an older agent's, limits not mounted"),
        pytest.param(SERIAL, ROOT + FILLED, False, PROVEN, id="serial, the folder is mounted"),
        pytest.param(SERIAL, ROOT, False, MISSING, id="serial, it is not"),
    ],
)
def test_the_verdict_follows_the_mount_that_the_record_expects(look, record, mounts, limits, verdict, monkeypatch):
    if record.serial:
        monkeypatch.setattr(RecordStore, "write", lambda *_: None)
    assert look(record, mounts, limits=limits) == verdict


@pytest.mark.parametrize(
    ("tables", "verdict"),
    [
        pytest.param([ROOT, ROOT + MARK], PROVEN, id="one process of the container has it"),
        pytest.param([ROOT + MARK, ROOT], PROVEN, id="another one has mounts of its own"),
        pytest.param([ROOT, ROOT], MISSING, id="none has it"),
        pytest.param([mount("/x", "/proc")], UNKNOWN, id="the process changed its root"),
        pytest.param([mount("/x", "/proc"), ROOT], MISSING, id="one changed its root, the other lacks it"),
        pytest.param([""], UNKNOWN, id="the process is gone"),
        pytest.param([], UNKNOWN, id="no process is seen"),
        pytest.param(["garbage\n"], UNKNOWN, id="garbage"),
    ],
)
def test_one_process_with_the_mount_is_enough(look, tables, verdict):
    assert look(RECORD, *tables) == verdict


def test_unseen_containers_get_no_verdict(look):
    assert look(RECORD, ROOT, cgroup="init.scope") == UNKNOWN


def test_a_container_is_reported_once_and_forgotten_at_its_end(tmp_path):
    process(tmp_path, 7, mounts=ROOT)
    cdi_check = CdiCheck(tmp_path, lambda record: f"/{record.id}/mark")
    assert cdi_check.find_unlimited([(RECORD, CID)]) == [RECORD]
    assert cdi_check.find_unlimited([(RECORD, CID)]) == []
    assert cdi_check.missing == {CID: RECORD.id}
    assert cdi_check.find_unlimited([]) == []
    assert not cdi_check.missing


def test_container_id_is_the_runtimes_id():
    status = {"name": "main", "containerID": f"containerd://{CID}", "state": {"running": {}}}
    pod = msgspec.convert({"metadata": {"name": "a"}, "status": {"containerStatuses": [status]}}, Pod)
    assert container_id(pod, "main") == CID
    assert container_id(pod, "other") == ""
