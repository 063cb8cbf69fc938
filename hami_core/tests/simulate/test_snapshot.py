"""A snapshot of a live cluster is simulated as it is. What can't be read is named and gives nothing away."""

from __future__ import annotations

import asyncio
import copy
import json

import msgspec
import pytest
import structlog
from click.testing import CliRunner
from hami_nvidia import rules

from hami_core.cli.main import root
from hami_core.errors import ConfigError
from hami_core.kube.objects import Pod
from hami_core.kube.official import connect
from hami_core.policies import PolicyDefaults
from hami_core.simulate.snapshot import read, take
from hami_core.tests.kube.apiserver import ApiServer, Fault
from hami_core.tests.simulate.cases import vendors
from hami_core.wire import keys

ALLOCATED = "hami.io/vgpu-devices-allocated"


def node(name="n1", cards=2, **spec):
    listed = [
        {"id": f"{name}-GPU-{i}", "index": i, "count": 10, "devmem": 10000, "devcore": 100, "type": "NVIDIA A100",
         "mode": "hami-core", "health": True}
        for i in range(cards)
    ]  # fmt: skip
    amounts = {"cpu": "8", "nvidia.com/gpu": str(cards * 10)}
    notes = {rules.REGISTER: json.dumps(listed), "kubectl.kubernetes.io/last-applied-configuration": "secret-of-node"}
    return {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "annotations": notes, "labels": {"gpu": "on"}},
        "spec": spec, "status": {"capacity": amounts, "allocatable": amounts},
    }  # fmt: skip


def pod(name, on="", memory=4000, allocation=None, **status):
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(memory)}
    container = {
        "name": "main", "image": "registry.example/secret-image", "resources": {"limits": limits},
        "env": [{"name": "TOKEN", "value": "secret-of-pod"}],
    }  # fmt: skip
    notes = {} if allocation is None else {keys.NODE: on, ALLOCATED: allocation}
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "annotations": {"note": "x", **notes}},
        "spec": {"containers": [container], **({"nodeName": on} if on else {})},
        "status": {"phase": "Running" if on else "Pending", **status},
    }  # fmt: skip


def listed(*objects):
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}).encode()


def opened(*objects):
    found = read(listed(*objects), vendors(), "s.json")
    return found, found.open(PolicyDefaults()).inventory


def garbled(change, base):
    made = copy.deepcopy(base)
    change(made)
    return made


HELD = pod("held", "n1", allocation="n1-GPU-0,NVIDIA,9000,30:;")


def test_devices_and_bookings_are_those_of_the_cluster():
    world, inventory = opened(node(), node("n2", 1), HELD)
    assert [usage.used_memory_mib for usage in inventory.usage("n1")] == [9000, 0]
    assert [usage.device.id for usage in inventory.usage("n2")] == ["n2-GPU-0"]
    assert world.unreadable() == []
    assert world.pending() == []


def test_ended_pods_hold_nothing_and_waiting_pods_join_the_workload():
    ended = pod("ended", "n1", allocation="n1-GPU-1,NVIDIA,9000,30:;", phase="Succeeded")
    world, inventory = opened(node(), ended, pod("waits"))
    assert inventory.booking_count == 0
    assert [one.key for one in world.pending()] == ["default/waits"]


def test_simulated_pod_is_never_taken_for_a_pod_of_the_snapshot(hami, tmp_path):
    """Pods of the snapshot have UIDs that a simulated pod might have. Only the fourth card has room, for two pods."""
    held = [garbled(lambda p, n=n: p["metadata"].update(uid=f"pod-{n}", name=f"held-{n}"), HELD) for n in range(3)]
    for number, one in enumerate(held):
        one["metadata"]["annotations"][ALLOCATED] = f"n1-GPU-{number},NVIDIA,9000,30:;"
    (tmp_path / "s.json").write_bytes(listed(node(cards=4), *held))
    [policy] = json.loads(hami("s.json", "w.yaml", "-o", "json", "--policies", "binpack/binpack").stdout)["policies"]
    assert policy["placed"] == 3
    assert policy["waitSeconds"]["max"] == 5
    assert max(policy["series"]["memory"]) == 35000 / 40000


def test_other_text_is_no_snapshot():
    assert read(b"nodes: []", vendors(), "c.yaml") is None
    assert read(b'{"nodes": []}', vendors(), "c.yaml") is None
    assert read(b"[1]", vendors(), "c.yaml") is None


@pytest.mark.parametrize(
    ("objects", "said"),
    [
        ([], "has no Node"),
        ([node(), node()], "lists nodes 'n1' twice"),
        ([node(), HELD, HELD], "lists pods 'default/held' twice"),
        ([node(), garbled(lambda p: p["metadata"].update(uid="hami-simulate/0"), HELD)], "kept for simulated pods"),
        ([{}], r"items\[0\]: has no kind"),
        ([3], r"items\[0\]: is no Kubernetes object"),
    ],
)
def test_list_that_cant_be_trusted_is_refused(objects, said):
    with pytest.raises(ConfigError, match=said):
        read(json.dumps({"kind": "List", "items": objects}).encode(), vendors(), "s.json")


BROKEN = {
    "allocation": [node(), node("n2"), pod("held", "n1", allocation="n1-GPU-0,NVIDIA,sixty,30:;")],
    "unknown device": [node(), node("n2"), pod("held", "n1", allocation="GPU-X,NVIDIA,9000,30:;")],
    "pod": [node(), node("n2"), garbled(lambda p: p["spec"].update(containers=HELD["spec"]["containers"][0]), HELD)],
    "pod without a name": [node(), node("n2"), garbled(lambda p: p.update(metadata=7), HELD)],
    "register": [garbled(lambda n: n["metadata"]["annotations"].update({rules.REGISTER: "["}), node()), node("n2")],
    "node": [garbled(lambda n: n.update(status={"capacity": 5}), node()), node("n2")],
}


@pytest.mark.parametrize("case", BROKEN)
def test_node_of_what_cant_be_read_gives_no_devices(case):
    world, inventory = opened(*BROKEN[case])
    [found] = world.unreadable()
    assert found.problem
    request = workload_request(world)
    assert [name for name, _ in inventory.filter(request, ["n1", "n2"]).best] == ["n2"]


def workload_request(world):
    return world.open(PolicyDefaults()).request_of(msgspec.convert(pod("waits"), Pod))


def test_quota_that_cant_be_read_allows_nothing():
    quota = {"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": 3}}
    world, inventory = opened(node(), quota)
    assert [found.kind for found in world.unreadable()] == ["ResourceQuota"]
    assert inventory.filter(workload_request(world), ["n1"]).best == []


def test_amount_of_a_quota_that_cant_be_read_is_listed(hami, tmp_path):
    hard = {"limits.nvidia.com/gpumem": "lots", "limits.nvidia.com/gpu": "4"}
    quota = {"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "team"}, "spec": {"hard": hard}}
    (tmp_path / "s.json").write_bytes(listed(node(), quota))
    done = hami("s.json", "w.yaml")
    assert done.exit_code == 1
    assert "ResourceQuota team/q: can't be read: spec.hard[limits.nvidia.com/gpumem]: 'lots' is no" in done.stderr
    assert "(its namespace gets none of that resource)" in done.stderr
    assert hami("s.json", "w.yaml", "--skip-unreadable").exit_code == 0


def test_quota_counts():
    hard = {"limits.nvidia.com/gpumem": "3000"}
    quota = {"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": hard}}
    world, inventory = opened(node(), quota)
    assert world.unreadable() == []
    assert inventory.filter(workload_request(world), ["n1"]).best == []


# --- through the command line ------------------------------------------------------------------------------------


@pytest.fixture
def hami(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HAMI_PLUGINS", "nvidia")
    (tmp_path / "w.yaml").write_text(json.dumps({"jobs": [{"count": 3, "duration": 5, "pod": pod("p")}]}))
    logging = structlog.get_config()
    yield lambda *arguments: CliRunner().invoke(root, ["simulate", *map(str, arguments)])
    structlog.configure(**logging)


def test_unreadable_objects_are_listed_and_end_the_command(hami, tmp_path):
    name = "evil\x1b[31m\u202e"
    bad = pod("held", "n1", allocation="n1-GPU-0,NVIDIA,sixty,30:;")
    bad["metadata"]["name"] = name
    (tmp_path / "s.json").write_bytes(listed(node(), node("n2"), bad))
    done = hami("s.json", "w.yaml")
    assert done.exit_code == 1
    assert "Pod default/evil [31m: can't be read: " in done.stderr
    assert "(node n1 gives no NVIDIA devices)" in done.stderr
    assert "snapshot: 1 object can't be read (correct them, or go on with --skip-unreadable" in str(done.exception)
    assert "\x1b" not in done.output

    done = hami("s.json", "w.yaml", "--skip-unreadable", "-o", "json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["cluster"] == {"nodes": 2, "cards": 2, "memoryMiB": 20000}
    assert found["unreadable"][0]["effect"] == "node n1 gives no NVIDIA devices"


def test_workload_is_not_drawn_for_a_snapshot_that_cant_be_read(hami, tmp_path):
    (tmp_path / "s.json").write_bytes(listed(*BROKEN["allocation"]))
    arguments = "generate", "s.json", "-o", "g.jsonl", "--pods", "2"
    done = hami(*arguments)
    assert done.exit_code == 1
    assert "Pod default/held: can't be read: " in done.stderr
    assert not (tmp_path / "g.jsonl").exists()
    assert hami(*arguments, "--skip-unreadable").exit_code == 0
    assert (tmp_path / "g.jsonl").exists()


def test_node_marked_unschedulable_gets_no_pods(hami, tmp_path):
    (tmp_path / "s.json").write_bytes(listed(node(), node("n2", unschedulable=True)))
    assert json.loads(hami("s.json", "w.yaml", "-o", "json").stdout)["cluster"]["nodes"] == 1


def test_load_counts_only_cards_that_pods_can_get(hami, tmp_path):
    """A node that is marked unschedulable changes neither the pods nor when they arrive."""
    drawn = {}
    for name, nodes in {"one": [node()], "two": [node(), node("n2", 2, unschedulable=True)]}.items():
        (tmp_path / "s.json").write_bytes(listed(*nodes))
        assert hami("generate", "s.json", "-o", f"{name}.jsonl", "--pods", "5").exit_code == 0
        drawn[name] = (tmp_path / f"{name}.jsonl").read_text()
    assert drawn["one"] == drawn["two"]
    (tmp_path / "s.json").write_bytes(listed(node(unschedulable=True)))
    done = hami("generate", "s.json", "-o", "none.jsonl", "--family", "NVIDIA")
    assert str(done.exception) == (
        "options.family: the cluster has no NVIDIA card that pods can get (name another family)"
    )


def test_waiting_pod_with_a_wrong_request_is_listed(hami, tmp_path):
    (tmp_path / "s.json").write_bytes(listed(node(), pod("waits", memory=-4)))
    done = hami("s.json", "w.yaml")
    assert "Pod default/waits: can't be read: container main" in done.stderr
    assert done.exit_code == 1


@pytest.fixture
async def server():
    async with ApiServer() as made:
        yield made


async def test_snapshot_of_a_live_cluster_has_what_counts_and_no_secrets(server, hami, tmp_path):
    for one in (node(), node("n2")):
        await server.put("nodes", one)
    plain = pod("plain", "n2")
    plain["spec"]["containers"][0]["resources"] = {}
    bad = garbled(lambda p: p["metadata"]["annotations"].update({ALLOCATED: "?"}), pod("bad", "n2", allocation=""))
    for one in (HELD, pod("waits"), plain, bad):
        await server.put("pods", one)
    done = await asyncio.to_thread(hami, "snapshot", "--kubeconfig", server.kubeconfig(tmp_path), "-o", "s.json")
    assert done.exit_code == 0, done.exception
    text = (tmp_path / "s.json").read_text()
    assert "secret" not in text
    assert "plain" not in text
    world, inventory = await asyncio.to_thread(opened, *json.loads(text)["items"])
    assert [usage.used_memory_mib for usage in inventory.usage("n1")] == [9000, 0]
    assert [found.name for found in await asyncio.to_thread(world.unreadable)] == ["default/bad"]
    assert [one.key for one in world.pending()] == ["default/waits"]


async def test_object_that_cant_be_decoded_stays_unreadable_in_a_snapshot(server, tmp_path):
    await server.put("nodes", node())
    await server.put("nodes", node("n2"))
    await server.put("pods", garbled(lambda p: p["spec"]["containers"][0].update(resources=4), HELD))
    api = await connect(server.kubeconfig(tmp_path))
    try:
        found, unreadable = await take(api, vendors().families)
    finally:
        await api.close()
    assert [one.name for one in unreadable] == ["default/held"]
    world = await asyncio.to_thread(lambda: read(json.dumps(found).encode(), vendors(), "s.json"))
    assert "secret" not in json.dumps(found)
    [one] = await asyncio.to_thread(world.unreadable)
    assert (one.name, one.effect) == ("default/held", "node n1 gives no NVIDIA devices")


async def test_missing_right_is_named(server, hami, tmp_path):
    server.faults.append(lambda _method, path: Fault(status=403) if path.startswith("/api/v1/pods") else None)
    done = await asyncio.to_thread(hami, "snapshot", "--kubeconfig", server.kubeconfig(tmp_path), "-o", "s.json")
    assert "not allowed to list pods (ask for the right to list nodes, pods and resourcequotas)" in str(done.exception)
    assert not (tmp_path / "s.json").exists()
