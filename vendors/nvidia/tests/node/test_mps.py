"""A node in operating mode ``mps``: cards follow the control daemon, and containers get what they need to use it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hami_nvidia.mps_control import MpsControl, MpsError, MpsFolders
from hami_nvidia.mps_node import MpsNode
from structlog.testing import capture_logs

from hami_core import ContainerKind, ContainerRef, DeviceError, Slice

REF = ContainerRef("uid-1", "default", "pod", "main", ContainerKind.APP)
FIX = "devicePlugin.mps.enabled"


@pytest.fixture
def mps_node(node, mps):
    """Make node sides in operating mode ``mps`` beside the stand-in."""

    def make(**settings):
        fixed = {"operating_mode": "mps", "mps_dir": mps.folder, "mps_control": mps.control}
        return node(**(fixed | settings))

    return make


def until_rediscovered(made, devices):
    """Read health until it asks for a new discovery."""
    due = time.monotonic() + 20
    while not any(change.rediscover for change in made.health(devices)):
        assert time.monotonic() < due
        time.sleep(0.05)
    return made.discover()


def piece(device, mib, cores=0):
    return Slice(device.id, "NVIDIA", mib, cores, type="NVIDIA")


def test_cards_are_offered_only_while_the_daemon_answers(mps_node, mps):
    made = mps_node(split_count=4)
    gone = made.discover()
    assert [(d.mode, d.healthy) for d in gone] == [("mps", False)] * 2
    assert all("no MPS control daemon answers" in d.not_offered and FIX in d.not_offered for d in gone)
    assert not any(made.mps_serves(d.id) for d in gone)
    with pytest.raises(DeviceError, match=FIX):
        made.allocate((piece(gone[0], 100),), REF)

    mps.start()
    offered = until_rediscovered(made, gone)
    assert [(d.healthy, d.not_offered, d.slots) for d in offered] == [(True, "", 4)] * 2
    assert all(made.mps_serves(d.id) for d in offered)
    assert not made.mps_serves("GPU-other")
    assert not any(change.rediscover for change in made.health(offered)), "steady"

    mps.kill()
    assert until_rediscovered(made, offered) == gone


def test_the_daemon_answers_before_the_first_discovery(mps_node, mps):
    mps.start()
    assert all(d.healthy for d in mps_node().discover()), "a restarted agent offers its cards at once"


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("hang", "does not answer in time"),
        ("rubbish", "does not answer with a percentage"),
        ("refuse", "no MPS control daemon answers"),
        ("die", "MPS control daemon"),  # no answer to the question that it died of, or none to the next
    ],
)
def test_a_faulty_daemon_withdraws_the_cards_until_it_works(mps_node, mps, fault, reason):
    mps.start()
    made = mps_node()
    devices = made.discover()
    mps.fault(fault)
    with capture_logs() as logs:
        withdrawn = until_rediscovered(made, devices)
    assert all(reason in d.not_offered for d in withdrawn)
    assert [entry["log_level"] for entry in logs if "control daemon" in entry["event"]] == ["warning"]
    mps.fault("")
    if fault == "die":
        mps.kill()
        mps.start()
    assert until_rediscovered(made, withdrawn) == devices


def test_a_missing_program_is_named(mps_node):
    made = mps_node(mps_control=Path("/nowhere/nvidia-cuda-mps-control"))
    assert "/nowhere/nvidia-cuda-mps-control can't be started" in made.discover()[0].not_offered
    assert not made.health(made.discover())[0].rediscover


def test_the_program_is_found_below_the_drivers_root(mps_node, mps, tmp_path):
    root = tmp_path / "driver"
    (root / "usr/bin").mkdir(parents=True)
    (root / "opt").mkdir()
    made = mps_node(mps_control=None, driver_root=root)
    assert str(root / "usr/bin/nvidia-cuda-mps-control") in made.discover()[0].not_offered
    # The driver is installed late, and by an absolute link, as Debian's alternatives make it.
    (root / "opt/control").write_bytes(mps.control.read_bytes())
    (root / "opt/control").chmod(0o755)
    (root / "usr/bin/nvidia-cuda-mps-control").symlink_to("/opt/control")
    mps.start()
    assert all(d.healthy for d in until_rediscovered(made, made.discover()))


def test_one_lost_answer_does_not_withdraw_and_nothing_waits(mps):
    """The clock stands still, so waiting for the hanging daemon would never end."""
    now = [0.0]
    folders = MpsFolders(mps.folder)
    watched = MpsNode(folders, lambda: MpsControl(mps.control, folders, clock=lambda: now[0]))
    mps.start()
    assert watched.problem == ""
    mps.fault("hang")
    watched.look()  # sends a question
    for lost in (1, 2):
        watched.look()
        now[0] += 3.0
        watched.look()  # its time is over
        assert watched.serves() == (lost < 2)
    watched.close()


def test_a_control_that_floods_its_answer_is_bounded(mps, tmp_path):
    flood = tmp_path / "flood"
    flood.write_text("#!/bin/sh\nexec yes\n")
    flood.chmod(0o755)
    with pytest.raises(MpsError, match="does not answer in time"):
        MpsControl(flood, MpsFolders(mps.folder)).check(0.3)


@pytest.mark.parametrize(("compute", "slots"), [("default", 4), ("exclusive_process", 4), ("exclusive_thread", 1)])
def test_an_exclusive_process_card_is_shared_under_mps(mps_node, mps, state, compute, slots):
    state.set_modes(0, compute=compute)
    mps.start()
    first = mps_node(split_count=4).discover()[0]
    assert (first.healthy, first.slots, bool(first.whole_only)) == (True, slots, slots == 1)


def test_mps_does_not_serve_a_card_in_mig_mode(mps_node, mps, state):
    mps.start()
    state.set_modes(0, mig=True)
    first, second = mps_node().discover()
    assert "card is in MIG mode" in first.not_offered
    assert second.healthy


def test_mig_instances_beside_mps_need_no_daemon(mps_node, state):
    state.set_modes(0, mig=True)
    first, second = mps_node(mig_strategy="single").discover()
    assert (first.mode, second.mode) == ("mig", "mps")
    assert "MPS" not in first.not_offered
    assert "no MPS control daemon answers" in second.not_offered


def test_slots_are_capped_at_the_clients_of_mps(mps_node, mps):
    mps.start()
    with capture_logs() as logs:
        made = mps_node(split_count=100)
    assert [d.slots for d in made.discover()] == [48, 48]
    assert any("fewer slots" in entry["event"] for entry in logs)
    assert mps_node(operating_mode="hami-core", split_count=100).discover()[0].slots == 100


def mps_env(edits):
    return {name.removeprefix("CUDA_MPS_"): value for name, value in edits.env.items() if name.startswith("CUDA_MPS_")}


PIPE = {"PIPE_DIRECTORY": "/usr/local/vgpu/mps"}


def test_a_container_gets_the_daemons_folders_and_its_limits(mps_node, mps):
    mps.start()
    made = mps_node(memory_scaling=2.0)
    first, second = made.discover()
    edits = made.allocate((piece(second, 2000, 30), piece(first, 1000, 30)), REF)
    assert mps_env(edits) == PIPE | {
        "ACTIVE_THREAD_PERCENTAGE": "30",
        "PINNED_DEVICE_MEM_LIMIT": "0=500M,1=1000M",  # on the card; the host holds the other half
    }
    mounts = {m.container_path: (m.host_path, m.read_only) for m in edits.mounts}
    assert mounts["/usr/local/vgpu/mps"] == (str(mps.folder / "pipe"), False)
    assert mounts["/dev/shm"] == (str(mps.folder / "shm"), False)
    assert "/usr/local/vgpu/libvgpu.so" in mounts, "the interposer stays"
    assert edits.limits
    assert not any("/turns/" in path for path in mounts), "turns would serialise what MPS lets overlap"
    assert edits == made.allocate((piece(second, 2000, 30), piece(first, 1000, 30)), REF)


def test_without_a_core_limit_there_is_no_percentage(mps_node, mps):
    mps.start()
    made = mps_node()
    first = made.discover()[0]
    for cores in (0, 100):
        assert mps_env(made.allocate((piece(first, 700, cores),), REF)) == PIPE | {"PINNED_DEVICE_MEM_LIMIT": "0=700M"}
    free = mps_node(core_policy="disable")
    free.discover()
    assert "ACTIVE_THREAD_PERCENTAGE" not in mps_env(free.allocate((piece(first, 700, 30),), REF))


def test_nothing_is_limited_where_nothing_is_enforced(mps_node, mps):
    mps.start()
    made = mps_node(enforcement="observe")
    first = made.discover()[0]
    assert mps_env(made.allocate((piece(first, 700, 30),), REF)) == PIPE


def test_a_whole_card_is_used_through_mps_without_limits(mps_node, mps):
    mps.start()
    made = mps_node()
    first = made.discover()[0]
    whole = ContainerRef("uid-1", "default", "pod", "main", ContainerKind.APP, whole_devices=True)
    edits = made.allocate((piece(first, first.memory_mib, 100),), whole)
    assert mps_env(edits) == PIPE
    assert not edits.limits


def test_no_other_mode_asks_for_the_daemon(mps_node, mps):
    made = mps_node(operating_mode="hami-core")
    first = made.discover()[0]
    made.health([first])
    assert first.healthy
    assert not made.mps_serves(first.id)
    assert mps_env(made.allocate((piece(first, 700, 30),), REF)) == {}
    assert not (mps.folder / "pipe/control").exists()
