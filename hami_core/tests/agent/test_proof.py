"""Containers that run without the limits they were given are found by their mount table."""

from __future__ import annotations

import msgspec

from hami_core.agent.proof import Prover, container_id
from hami_core.agent.records import Record
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
)


def process(proc, pid, *, cgroup, mounts):
    folder = proc / str(pid)
    folder.mkdir(parents=True)
    (folder / "cgroup").write_text(f"0::/kubepods.slice/{cgroup}\n")
    (folder / "mountinfo").write_text(mounts)


MOUNTED = f"36 35 8:1 /var/lib/hami/containers/{RECORD.id}/limits /usr/local/vgpu/limits ro - ext4 /dev/sda1 rw\n"
OTHER = "36 35 8:1 /var/lib/hami/containers/uid-b_main_00000000/limits /usr/local/vgpu/limits ro - ext4 /dev/sda1 rw\n"


def test_a_container_with_its_mount_is_proven(tmp_path):
    process(tmp_path, 7, cgroup=f"cri-containerd-{CID}.scope", mounts=MOUNTED)
    prover = Prover(tmp_path)
    assert prover.look([(RECORD, CID)]) == []
    assert prover.proven == {CID}


def test_a_container_without_it_is_found_once(tmp_path):
    process(tmp_path, 7, cgroup=f"cri-containerd-{CID}.scope", mounts=OTHER)
    prover = Prover(tmp_path)
    assert prover.look([(RECORD, CID)]) == [RECORD]
    assert prover.look([(RECORD, CID)]) == []
    assert prover.missing == {CID: RECORD.id}
    assert prover.look([]) == []
    assert not prover.missing


def test_what_cant_be_seen_is_not_judged(tmp_path):
    process(tmp_path, 7, cgroup="init.scope", mounts=OTHER)
    prover = Prover(tmp_path)
    assert prover.look([(RECORD, CID)]) == []
    assert not prover.proven
    assert not prover.missing


def test_whole_cards_have_no_limits(tmp_path):
    process(tmp_path, 7, cgroup=CID, mounts=OTHER)
    assert Prover(tmp_path).look([(msgspec.structs.replace(RECORD, whole=True), CID)]) == []


def test_the_runtimes_id():
    status = {"name": "main", "containerID": f"containerd://{CID}", "state": {"running": {}}}
    pod = msgspec.convert({"metadata": {"name": "a"}, "status": {"containerStatuses": [status]}}, Pod)
    assert container_id(pod, "main") == CID
    assert container_id(pod, "other") == ""
