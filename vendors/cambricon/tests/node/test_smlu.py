"""The life of sMLU profiles and instances, and a crash between any two of its steps."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hami_cambricon.smlu import instance_name

from hami_core import DeviceError
from vendors.cambricon.tests.node.machine import container, part

DRIVERS = {"0": f"100 {49152 << 20}", "1": f"50 {24576 << 20}", "2": f"25 {12288 << 20}"}
"""The profiles that the driver makes itself."""
OTHERS_PROFILE = {"3": f"10 {1024 << 20}"}
OTHERS_INSTANCES = {"1": f"3 10 {1024 << 20}", "2": f"3 10 {1024 << 20} team-b"}
END_STATUS = 9


@pytest.fixture
def others(machine):
    """Profile and instances of another program on card 0; Cambricon's plugin gives its instances no name."""
    for number, text in OTHERS_PROFILE.items():
        machine.write(f"card0/profiles/{number}", text)
    for number, text in OTHERS_INSTANCES.items():
        machine.write(f"card0/instances/{number}", text)


def notes(machine):
    return [path.name for path in sorted((machine.state_dir / "cambricon").glob("*/*"))]


def only_others_are_left(machine):
    assert machine.profiles() == DRIVERS | OTHERS_PROFILE
    assert machine.instances() == OTHERS_INSTANCES
    assert notes(machine) == []
    return True


def test_containers_of_equal_amounts_share_a_profile(machine):
    node = machine.agent()
    first, second = container("a"), container("b")
    for ref in (first, second):
        node.allocate((part(machine.uuid()),), ref)
    assert machine.profiles() == DRIVERS | {"3": f"25 {4096 << 20}"}
    node.release(first)
    assert list(machine.profiles()) == ["0", "1", "2", "3"]
    node.release(second)
    assert machine.profiles() == DRIVERS
    assert machine.instances() == {}
    assert notes(machine) == []


def test_an_existing_profile_is_used_and_stays(machine, others):
    node, ref = machine.agent(), container()
    node.allocate((part(machine.uuid(), 1024, 10),), ref)
    assert machine.profiles() == DRIVERS | OTHERS_PROFILE
    node.release(ref)
    assert only_others_are_left(machine)


def test_init_and_app_containers_of_a_pod_have_their_own(machine):
    node = machine.agent()
    refs = [container("init"), container("main"), container("side")]
    capability = [node.allocate((part(machine.uuid()),), ref).device_nodes[-1].path for ref in refs]
    assert capability == [f"/dev/cambricon-caps/cap_dev0_mi{number}" for number in (1, 2, 3)]
    node.release(refs[0])
    assert [text.split()[-1] for text in machine.instances().values()] == [
        instance_name(ref, machine.uuid()) for ref in refs[1:]
    ]


def test_init_and_app_container_beyond_a_card_are_not_both_given(machine):
    node = machine.agent(clock=itertools.count().__next__)
    node.allocate((part(machine.uuid(), 4096, 60),), container("init"))
    with pytest.raises(DeviceError, match="not enough space or resources"):
        node.allocate((part(machine.uuid(), 4096, 60),), container("main"))


def test_a_full_card_refuses_and_leaves_nothing(machine):
    node = machine.agent(clock=itertools.count().__next__)
    node.allocate((part(machine.uuid(), 40960, 80),), container("big"))
    before = machine.profiles()
    with pytest.raises(DeviceError, match="not enough space or resources"):
        node.allocate((part(machine.uuid(), 40960, 81),), container("more"))
    assert machine.profiles() == before
    assert len(machine.instances()) == 1


def test_a_full_card_waits_for_the_container_that_ended(machine):
    node, old, new = machine.agent(), container("old"), container("new")
    pieces = (part(machine.uuid(), 49152, 100),)
    node.allocate(pieces, old)
    with ThreadPoolExecutor(1) as pool:
        allocation = pool.submit(node.allocate, pieces, new)
        time.sleep(0.2)
        assert not allocation.done()
        node.release(old)
        assert allocation.result().device_nodes[-1].path.startswith("/dev/cambricon-caps/")
    (text,) = machine.instances().values()
    assert text.endswith(instance_name(new, machine.uuid()))


def test_a_library_that_keeps_no_names_is_refused(machine):
    machine.write("card0/nameless", 1)
    with pytest.raises(DeviceError, match="does not report the name of a new sMLU instance"):
        machine.agent().allocate((part(machine.uuid()),), container())
    assert (machine.instances(), machine.profiles(), notes(machine)) == ({}, DRIVERS, [])


def test_an_agent_without_the_rights_is_told_what_it_needs(machine):
    machine.write("card0/denied", 1)
    with pytest.raises(DeviceError, match="run the agent as root and with hostPID"):
        machine.agent().allocate((part(machine.uuid()),), container())
    assert notes(machine) == []


def test_an_instance_that_another_program_changed_is_refused(machine):
    node, ref = machine.agent(), container()
    node.allocate((part(machine.uuid()),), ref)
    machine.write("card0/instances/1", f"3 50 {4096 << 20} {instance_name(ref, machine.uuid())}")
    with pytest.raises(DeviceError, match="another program changed it; delete the pod"):
        node.allocate((part(machine.uuid()),), ref)


def test_an_instance_in_use_is_released_later(machine):
    node, ref = machine.agent(), container()
    node.allocate((part(machine.uuid()),), ref)
    machine.write("card0/busy", 1)
    with pytest.raises(DeviceError, match="in use"):
        node.release(ref)
    machine.write("card0/busy", 0)
    node.release(ref)
    assert machine.instances() == {}


def test_release_does_not_wait_for_a_card_that_is_broken(machine):
    node, ref = machine.agent(), container()
    node.allocate((part(machine.uuid(0)), part(machine.uuid(1))), ref)
    machine.write("card1/error", 18)
    node.release(ref)
    assert machine.instances(0) == {}
    (machine.folder / "card1/error").unlink()
    node.tend({}, {})
    assert machine.instances(1) == {}


def test_tending_with_older_records_keeps_a_new_instance(machine):
    node = machine.agent()
    node.allocate((part(machine.uuid()),), container())
    node.tend({}, {})  # the agent took these records before the container had one
    assert len(machine.instances()) == 1


def test_a_note_of_an_earlier_boot_owns_no_profile(machine, monkeypatch, tmp_path):
    """After a boot, another program may have made a profile of the same amounts."""
    node, ref = machine.agent(), container()
    node.allocate((part(machine.uuid()),), ref)
    (machine.folder / "card0/instances/1").unlink()
    boot = tmp_path / "proc/sys/kernel/random"
    boot.mkdir(parents=True)
    (boot / "boot_id").write_text("another boot\n")
    monkeypatch.setenv("HAMI_CAMBRICON_PROC_ROOT", str(tmp_path / "proc"))
    machine.agent().tend({}, {})
    assert machine.profiles() == DRIVERS | {"3": f"25 {4096 << 20}"}
    assert notes(machine) == []


def test_many_threads_make_what_each_of_them_needs(machine, others):
    """Starts, ends and tidying at the same time, as in the agent's worker threads."""
    node = machine.agent()
    refs = [container(f"c{number}") for number in range(12)]
    staying = refs[::2]

    def live(ref):
        for _ in range(3):
            node.allocate((part(machine.uuid(), 1024 + 256 * (refs.index(ref) % 3), 5),), ref)
            node.tend({}, {})
            if ref in staying:
                break
            node.release(ref)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(live, refs))
    names = {text.split()[-1] for text in machine.instances().values() if "hami-" in text}
    assert names == {instance_name(ref, machine.uuid()) for ref in staying}
    for ref in staying:
        node.release(ref)
    assert only_others_are_left(machine)


# --- a crash between any two steps -----------------------------------------------------------------------------------

LIFE = """
    from pathlib import Path
    import sys
    from hami_cambricon.node import CambriconNode
    from hami_core import ContainerKind, ContainerRef, NodeContext, Slice

    state, uuid = sys.argv[1:]
    node = CambriconNode()
    node.families(None, NodeContext("mlu-1", Path(state)))
    node.discover()
    ref = ContainerRef("3f1c1b5e-0000-4000-8000-000000000001", "default", "pod", "main", ContainerKind.APP)
    node.tend({}, {})
    node.allocate((Slice(uuid, "MLU", 4096, 25),), ref)
    node.release(ref)
"""
POINTS = 8
"""Make profile, make instance, destroy instance, destroy profile: a point before and one after each of them."""


def run_until(machine, point: int) -> int:
    """An agent's life in a process of its own, which the simulated library ends at a point. Returns its status."""
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LIFE), str(machine.state_dir), machine.uuid()],
        env=os.environ | {"HAMI_CNDEV_SIM_END_AT": str(point)},
        check=False,
        timeout=60,
    )
    return ended.returncode


def test_every_step_of_a_life_is_a_point(machine, others):
    assert run_until(machine, POINTS + 1) == 0
    assert only_others_are_left(machine)


@pytest.mark.parametrize("point", range(1, POINTS + 1))
def test_after_a_crash_without_record_only_others_are_left(machine, others, point):
    assert run_until(machine, point) == END_STATUS
    machine.agent().tend({}, {})
    assert only_others_are_left(machine)


@pytest.mark.parametrize("point", range(1, POINTS + 1))
def test_after_a_crash_the_container_gets_its_instance(machine, others, point):
    assert run_until(machine, point) == END_STATUS
    node, ref, pieces = machine.agent(), container(), (part(machine.uuid()),)
    before = machine.instances()
    node.tend({"r": ref}, {"r": pieces})
    assert machine.instances() == before
    edits = node.allocate(pieces, ref)
    ours = {number: text for number, text in machine.instances().items() if number not in OTHERS_INSTANCES}
    ((number, text),) = ours.items()
    assert text.split()[1:] == ["25", str(4096 << 20), instance_name(ref, machine.uuid())]
    assert edits.device_nodes[-1].path == f"/dev/cambricon-caps/cap_dev0_mi{number}"
    node.release(ref)
    assert only_others_are_left(machine)


@pytest.mark.parametrize("second", [1, 2, 3])
@pytest.mark.parametrize("first", [1, 2, 3, 4])
def test_a_crash_after_a_crash_loses_nothing(machine, others, first, second):
    assert run_until(machine, first) == END_STATUS
    assert run_until(machine, second) == END_STATUS
    machine.agent().tend({}, {})
    assert only_others_are_left(machine)
