"""The trimmed copy of a bound pod or a node says the same as the whole object wherever the scheduler reads it."""

from __future__ import annotations

from itertools import product

import msgspec
import pytest

from hami_core import Family, Resources
from hami_core.errors import HamiError
from hami_core.kube.objects import Node, Pod
from hami_core.model import PodRequest
from hami_core.plugins import load
from hami_core.policies import PolicyDefaults
from hami_core.scheduler import pods, trim
from hami_core.scheduler.cluster import Cluster
from hami_core.wire import keys
from hami_core.wire.signature import statement_of

ACME = Family("ACME", Resources("acme.example/npu", memory="acme.example/mem"), "hami.io/acme-devices-allocated")
FAMILIES = {"ACME": ACME}
LIST = "n1-0,ACME,9000,10:;"
STATES = (
    {"state": {"waiting": {"reason": "PodInitializing"}}},
    {"state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}},
    {"state": {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": "2026-01-01T00:00:00Z"}}},
    {"state": {"terminated": {"exitCode": 1, "reason": "Error"}}},
    {"state": {"waiting": {}}, "lastState": {"terminated": {"exitCode": 1}}, "restartCount": 1},
)


def running(init_state, state, allocated: str | None, restart_policy: str) -> Pod:
    env = [{"name": "A", "value": "x" * 1000}]
    limits = {"acme.example/npu": "1", "cpu": "4"}
    setup = {"name": "setup", "env": env, "resources": {"limits": limits}, "restartPolicy": restart_policy}
    main = {"name": "main", "env": env, "resources": {"limits": limits, "requests": limits}, "securityContext": {}}
    written = {} if allocated is None else {keys.NODE: "n1", ACME.allocated_key: allocated}
    meta = {"name": "p", "namespace": "default", "uid": "u", "resourceVersion": "7", "labels": {"app": "x"}}
    meta["annotations"] = {**written, keys.DEVICE_POLICY: "mutex", trim.LAST_APPLIED: "{}"}
    status = {"phase": "Running", "initContainerStatuses": [{"name": "setup", **init_state}]}
    status["containerStatuses"] = [{"name": "main", **state}]
    spec = {"nodeName": "n1", "containers": [main], "initContainers": [setup]}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": status}, Pod)


@pytest.mark.parametrize("allocated", [None, LIST, ";" + LIST, "damaged"])
@pytest.mark.parametrize("restart_policy", ["", "Always"])
def test_bound_pod_is_read_alike_trimmed_and_whole(allocated, restart_policy):
    for init_state, state in product(STATES, STATES):
        whole = running(init_state, state, allocated, restart_policy)
        kept = trim.bound_pod(whole, set(ACME.resources.names()))
        assert pods.holding_of(kept, FAMILIES) == pods.holding_of(whole, FAMILIES)
        assert pods.is_init_done(kept) == pods.is_init_done(whole)
        assert (kept.key, kept.uid, kept.metadata.resource_version) == (whole.key, "u", "7")


LOADED = load({}, side="scheduler")


def asking(family: Family, amounts: dict[str, str], *, init: bool) -> Pod:
    """A bound pod that asks for devices. Its annotations hold every key of the family."""
    limits = amounts | {"cpu": "4"}
    container = {"env": [{"name": "A", "value": "x" * 1000}], "resources": {"limits": limits, "requests": limits}}
    spec = {"nodeName": "n1", "containers": [{"name": "a", **container}]}
    spec["initContainers"] = [{"name": "b", **container}] if init else []
    keys_of_lists = (family.allocated_key, family.to_allocate_key, family.kept_key)
    annotations = {keys.NODE: "n1", keys.DEVICE_POLICY: "mutex", trim.LAST_APPLIED: "{}"}
    annotations |= {key: f"n1-0,{family.word},10,10:;" for key in keys_of_lists if key}
    annotations |= {pair.use: "GPU-1" for pair in (*family.uuid_selectors, *family.type_selectors)}
    meta = {"name": "p", "namespace": "d", "uid": "u", "labels": {"a": "b"}, "annotations": annotations}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"phase": "Running"}}, Pod)


def answer(cluster: Cluster, pod: Pod) -> PodRequest | str:
    """The pod's request, or why it is invalid."""
    try:
        return cluster.request_of(pod)
    except HamiError as error:
        return str(error)


@pytest.mark.parametrize("word", sorted(LOADED.families))
def test_bound_pod_of_each_installed_vendor_is_read_alike(word):
    family = LOADED.families[word]
    cluster, families = Cluster(None, LOADED, PolicyDefaults()), LOADED.families.values()
    count = {family.resources.count: "1"}
    more = {name: "10" for name in (family.resources.memory, family.resources.cores) if name}
    answers = []
    for amounts, init in product((count, count | more), (False, True)):
        whole = asking(family, amounts, init=init)
        kept = cluster.trimmed(whole)
        assert kept != whole
        assert cluster.trimmed(kept) == kept
        answers.append(answer(cluster, kept))
        assert answers[-1] == answer(cluster, whole)
        of_kept, of_whole = (statement_of(pod.uid, pod.metadata.annotations, families) for pod in (kept, whole))
        assert of_kept == of_whole
    assert any(isinstance(found, PodRequest) and word in found.families for found in answers), answers


def test_bound_pod_keeps_its_end_and_its_deletion():
    whole = running(STATES[1], STATES[1], LIST, "")
    ended = msgspec.structs.replace(whole, status=msgspec.structs.replace(whole.status, phase="Failed"))
    deleted = msgspec.structs.replace(whole.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    assert trim.bound_pod(ended, ()).is_terminal
    assert trim.bound_pod(msgspec.structs.replace(whole, metadata=deleted), ()).is_deleting


def test_bound_pod_keeps_only_what_is_read_again():
    kept = trim.bound_pod(running(STATES[1], STATES[1], LIST, ""), set(ACME.resources.names()))
    assert kept.metadata.annotations.keys() == {keys.NODE, ACME.allocated_key, keys.DEVICE_POLICY}
    assert [c.resources.limits for _, c in kept.containers()] == [{"acme.example/npu": "1"}] * 2
    assert not any(c.env for _, c in kept.containers())


@pytest.mark.parametrize("allocatable", [{"cpu": "8"}, {"cpu": "7"}])
def test_node_keeps_what_vendors_are_shown(allocatable):
    meta = {"name": "n1", "uid": "u", "resourceVersion": "7", "labels": {"zone": "a"}, "annotations": {"k": "v"}}
    status = {"capacity": {"cpu": "8"}, "allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]}
    whole = msgspec.convert({"metadata": meta, "spec": {"unschedulable": True}, "status": status}, Node)
    kept = trim.node(whole)
    assert pods.node_facts(kept) == pods.node_facts(whole)
    assert (kept.spec, kept.metadata.resource_version) == (whole.spec, "7")
    assert not kept.status.conditions
