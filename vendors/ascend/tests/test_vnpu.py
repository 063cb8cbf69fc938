"""vNPUs that the agent makes, killed between any two steps; and vNPUs that Ascend's runtime leaves behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hami_ascend import sim

from hami_core import HamiError
from vendors.ascend.tests.conftest import container

REF = container()
TEMPLATE = "vir05_1c_16g"
MIB = 16384

CHILD = """
import json, os, sys
from pathlib import Path
from hami_core.model import ContainerKind, ContainerRef, NodeContext, Slice
from hami_ascend.node import AscendNode

step, state, die = sys.argv[1:]
node = AscendNode()
node.families(None, NodeContext("npu-1", Path(state)))
node.discover()
ref = ContainerRef("uid-1", "default", "pod", "main", ContainerKind.APP)
kill_at, seen = int(os.environ.get("KILL_BEFORE_FILE_STEP", "0")), 0

def audit(event, args):
    global seen
    if event in {"open", "os.link", "os.remove", "os.mkdir"} and str(args[0]).startswith(state):
        seen += 1
        if seen == kill_at:
            os._exit(86)

sys.addaudithook(audit)
if step == "allocate":
    node.allocate((Slice(die, "Ascend910B3", 16384, 0),), ref)
else:
    node.release(ref)
"""
FILE_STEPS, DRIVER_STEPS = "KILL_BEFORE_FILE_STEP", "HAMI_DCMI_SIM_EXIT"


@pytest.fixture
def node(npus):
    made = npus(cards=2)
    made.monkeypatch.setenv("HAMI_ASCEND_VNPU_CREATOR", "agent")
    made.monkeypatch.setenv("HAMI_ASCEND_LOOK_INTERVAL_S", "10")
    return made


def killed(node, step: str, kind: str, at: int) -> bool:
    """Run one step in a process that dies at a point. Returns False if the step ended before that point."""
    command = [sys.executable, "-c", CHILD, step, str(node.state), node.die()]
    env = {**os.environ, kind: str(at)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in {0, sim.EXIT_STATUS}, done.stderr
    return done.returncode != 0


def intents(node):
    folder = node.state / "ascend/vnpus"
    return {int(path.stem): json.loads(path.read_text()) for path in folder.glob("[0-9]*.json")}


def tend(node, agent, *live, times: int = 1):
    records = {f"r{i}": ref for i, (ref, _) in enumerate(live)}
    slices = {f"r{i}": pieces for i, (_, pieces) in enumerate(live)}
    for _ in range(times):
        node.now += 61
        agent.tend(records, slices, {})


def given(node, agent, ref=REF, card=0, mib=MIB):
    env = agent.allocate((node.slice(mib, card),), ref).env
    assert env["ASCEND_RUNTIME_OPTIONS"] == "VIRTUAL"
    assert "ASCEND_VNPU_SPECS" not in env
    return int(env["ASCEND_VISIBLE_DEVICES"])


def every_point(node, step: str):
    """Kill the step at each point in turn; yields after each death."""
    for kind in (DRIVER_STEPS, FILE_STEPS):
        at = 1
        while killed(node, step, kind, at):
            yield kind, at
            at += 1
        assert at > 2, f"{step} has no {kind}"
        yield "done", 0


# --- made by the agent ---------------------------------------------------------------------------------------------


def test_allocate_makes_one_vnpu_and_repeats_its_answer(node):
    agent = node.agent()
    assert given(node, agent) == 100
    assert given(node, agent) == 100
    assert given(node, node.agent()) == 100  # adopted after a restart
    assert node.vnpus() == {100: (TEMPLATE, False)}
    assert given(node, agent, container("other")) == 101
    assert given(node, agent, container("third"), card=1) == 116


def test_two_agents_at_once_never_give_one_id_twice(node):
    agents = [node.agent(), node.agent()]  # during an upgrade, the old one may still be at work
    node.set(aicore=80)
    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda n: given(node, agents[n % 2], container(f"c{n}")), range(16)))
    assert sorted(ids) == list(range(100, 116))
    assert sorted(intents(node)) == sorted(node.vnpus()) == sorted(ids)


def test_release_destroys_and_may_be_repeated(node):
    agent = node.agent()
    given(node, agent)
    agent.release(REF)
    agent.release(REF)
    assert (node.vnpus(), intents(node)) == ({}, {})


def test_allocate_killed_at_any_step_is_finished_after_restart(node):
    for kind, at in every_point(node, "allocate"):
        assert len(node.vnpus()) <= 1, (kind, at)
        agent = node.agent()
        vdev_id = given(node, agent)
        assert node.vnpus() == {vdev_id: (TEMPLATE, False)}, (kind, at)
        assert list(intents(node)) == [vdev_id]
        agent.release(REF)
        assert (node.vnpus(), intents(node)) == ({}, {}), (kind, at)


def test_allocate_killed_at_any_step_of_a_deleted_pod_is_undone(node):
    for kind, at in every_point(node, "allocate"):
        node.agent().release(REF)
        assert (node.vnpus(), intents(node)) == ({}, {}), (kind, at)


def test_release_killed_at_any_step_is_finished_after_restart(node):
    given(node, node.agent())
    for kind, at in every_point(node, "release"):
        node.agent().release(REF)
        assert (node.vnpus(), intents(node)) == ({}, {}), (kind, at)
        given(node, node.agent())


def test_vnpu_whose_record_is_lost_is_destroyed_at_second_look(node):
    given(node, node.agent())
    agent = node.agent()
    agent.discover()
    tend(node, agent)
    assert list(node.vnpus()) == [100]  # its record may just not have been read yet
    tend(node, agent)
    assert (node.vnpus(), intents(node)) == ({}, {})


def test_vnpu_of_a_live_container_is_made_again_under_its_id(node):
    agent = node.agent()
    vdev_id = given(node, agent)
    node.driver().destroy(agent_card(node), vdev_id)
    tend(node, agent, (REF, (node.slice(MIB),)))
    assert node.vnpus() == {vdev_id: (TEMPLATE, False)}
    tend(node, agent, (REF, (node.slice(MIB),)), times=3)
    assert node.vnpus() == {vdev_id: (TEMPLATE, False)}


def test_vnpus_of_others_are_never_touched(node):
    driver = node.driver()
    driver.create(agent_card(node), "vir10_3c_32g", 100)
    node.use(100)
    driver.create(agent_card(node), TEMPLATE, 101)
    agent = node.agent()
    assert given(node, agent) == 102
    tend(node, agent, times=4)
    assert node.vnpus() == {100: ("vir10_3c_32g", True), 101: (TEMPLATE, False)}


def test_id_that_somebody_took_meanwhile_is_replaced(node):
    agent = node.agent()
    given(node, agent)
    driver = node.driver()
    driver.destroy(agent_card(node), 100)
    driver.create(agent_card(node), "vir10_3c_32g", 100)
    assert given(node, agent) == 101
    assert list(intents(node)) == [101]


def test_full_chip_refuses_and_gives_later(node):
    agent = node.agent()
    node.driver().create(agent_card(node), "vir20_whole", 110)
    with pytest.raises(HamiError, match=r"dcmi_create_vdevice of card 0, chip 0: the device's resources are taken"):
        given(node, agent)
    node.driver().destroy(agent_card(node), 110)
    assert given(node, agent) == 100


def test_full_chip_waits_for_the_container_that_just_ended(node):
    agent = node.agent()
    for name in ("a", "b", "c", "d"):
        given(node, agent, container(name))
    with ThreadPoolExecutor(1) as pool:
        node.clock = time.monotonic
        waiting = pool.submit(given, node, node.agent(), container("e"))
        time.sleep(0.3)
        agent.release(container("b"))
        assert waiting.result(timeout=5) == 104


def test_chip_that_is_away_keeps_the_intent_until_it_answers(node):
    agent = node.agent()
    given(node, agent)
    node.set(error=-8012)
    with pytest.raises(HamiError, match="not ready"):
        agent.release(REF)
    node.set(error=0)
    agent.release(REF)
    assert (node.vnpus(), intents(node)) == ({}, {})


def test_unreadable_intent_stops_new_vnpus_and_names_the_file(node):
    folder = node.state / "ascend/vnpus"
    folder.mkdir(parents=True)
    (folder / "100.json").write_text("{")
    with pytest.raises(HamiError, match=r"100\.json: is no intent"):
        given(node, node.agent())


def test_310p_uses_only_its_eight_ids(npus):
    made = npus(cards=1, model="310P3")
    made.monkeypatch.setenv("HAMI_ASCEND_VNPU_CREATOR", "agent")
    agent = made.agent()
    given_ids = []
    for number in range(8):
        piece = made.slice(3072, word="Ascend310P")
        edits = agent.allocate((piece,), container(f"c{number}"))
        given_ids.append(int(edits.env["ASCEND_VISIBLE_DEVICES"]))
    assert given_ids == list(range(100, 108))
    with pytest.raises(HamiError, match="has no free id"):
        agent.allocate((made.slice(3072, word="Ascend310P"),), container("ninth"))


def agent_card(node, number: int = 0):
    return node.driver().cards()[0][number]


# --- made by Ascend's runtime --------------------------------------------------------------------------------------


@pytest.fixture
def left(npus):
    """A node on which the runtime makes vNPUs, with an agent that has found its chips."""
    made = npus(cards=2)
    agent = made.agent()
    agent.discover()
    return made, agent


def test_idle_vnpu_of_nobody_is_destroyed_at_the_second_look(left):
    node, agent = left
    node.driver().create(agent_card(node), TEMPLATE)
    tend(node, agent)
    assert list(node.vnpus()) == [100]
    tend(node, agent)
    assert node.vnpus() == {}


def test_vnpu_in_a_container_is_never_destroyed(left):
    node, agent = left
    node.driver().create(agent_card(node), TEMPLATE)
    node.use(100)
    tend(node, agent, times=4)
    assert node.vnpus() == {100: (TEMPLATE, True)}
    node.use(100, used=False)
    tend(node, agent, times=2)
    assert node.vnpus() == {}


def test_vnpu_of_a_starting_container_is_kept(left):
    node, agent = left
    node.driver().create(agent_card(node), TEMPLATE)
    live = (REF, (node.slice(MIB),))
    tend(node, agent, live, times=4)
    assert list(node.vnpus()) == [100]


def test_of_two_alike_the_one_idle_for_longer_is_destroyed(left):
    node, agent = left
    live = (REF, (node.slice(MIB),))
    node.driver().create(agent_card(node), TEMPLATE, 101)
    tend(node, agent, live)
    node.driver().create(agent_card(node), TEMPLATE, 100)  # the container starts again
    tend(node, agent, live, times=3)
    assert list(node.vnpus()) == [100]


def test_containers_with_a_soft_split_need_no_vnpu(left):
    node, agent = left
    node.driver().create(agent_card(node), TEMPLATE)
    soft = container(**{"huawei.com/vnpu-mode": "hami-core"})
    tend(node, agent, (soft, (node.slice(MIB),)), times=2)
    assert node.vnpus() == {}


def test_vnpus_of_another_template_do_not_count_for_a_container(left):
    node, agent = left
    node.driver().create(agent_card(node), "vir10_3c_32g")
    tend(node, agent, (REF, (node.slice(MIB),)), times=2)
    assert node.vnpus() == {}


def test_chip_that_does_not_answer_does_not_stop_the_clean_up(left):
    node, agent = left
    node.driver().create(agent_card(node, 1), TEMPLATE)
    node.set(card=0, error=-8012)
    tend(node, agent, times=2)
    assert node.vnpus(1) == {}


def test_hidden_chip_is_left_alone(npus, tmp_path):
    node, file = npus(cards=1), tmp_path / "nodes.yaml"
    file.write_text("nodes: [{name: npu-1, filterDevices: {index: [0]}}]\n")
    node.driver().create(agent_card(node), TEMPLATE)
    agent = node.agent(file)
    agent.discover()
    tend(node, agent, times=3)
    assert list(node.vnpus()) == [100]


def test_clean_up_can_be_switched_off(npus):
    node = npus(cards=1)
    node.driver().create(agent_card(node), TEMPLATE)
    agent = node.agent(clean_idle_vnpus="false")
    agent.discover()
    tend(node, agent, times=3)
    assert list(node.vnpus()) == [100]


def test_agents_vnpus_survive_a_change_to_the_runtimes_way(node):
    live = (REF, (node.slice(MIB),))
    given(node, node.agent())
    agent = node.agent(vnpu_creator="runtime")
    agent.discover()
    tend(node, agent, live, times=3)
    assert list(node.vnpus()) == [100]
    agent.release(REF)
    assert node.vnpus() == {}
