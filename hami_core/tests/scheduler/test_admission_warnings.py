"""Warnings in the admission answer: valid requests that their author can hardly mean. They never refuse."""

from __future__ import annotations

from typing import Any

import msgspec
import orjson
import pytest

from hami_core.model import Device, NodeFacts
from hami_core.plugins import load
from hami_core.scheduler.webhook import Verdict, Webhook
from hami_core.tests.scheduler.conftest import load as load_classes
from hami_core.tests.scheduler.test_imposed import ASCEND, webhook
from hami_core.tests.scheduler.vendor import Acme
from hami_core.wire.extender import AdmissionRequest

GPU, MEM, PCT, CORES = "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"
MLU, MLU_MEM, MLU_CORES = "cambricon.com/vmlu", "cambricon.com/mlu.smlu.vmemory", "cambricon.com/mlu.smlu.vcore"
NPU, NPU_MEM = "huawei.com/Ascend910B", "huawei.com/Ascend910B-memory"
ACME, ACME_MEM = "acme.com/gpu", "acme.com/mem"

ASKS = {"name": "main", "resources": {"limits": {GPU: 1}}}
DIND = {"name": "dind", "securityContext": {"privileged": True}}


def hook(*cards_mib: int) -> Webhook:
    """A webhook that knows all vendors and one node with cards of these sizes, one of each family."""
    made = webhook("nvidia")
    cluster: Any = made._cluster
    cluster.loaded = load(ASCEND)
    cluster.families = cluster.loaded.families
    cluster.inventory = type(cluster.inventory)(cluster.loaded.rules())
    devices = {
        word: [Device(f"{word}-{n}", n, 10, mib, 100, "card", word) for n, mib in enumerate(cards_mib)]
        for word in ("NVIDIA", "MLU", "Ascend910B")
    }
    cluster.inventory.set_node(NodeFacts("n1"), devices)
    return Webhook(cluster, scheduler_name="hami-scheduler")


def admit(made: Webhook, limits: dict[str, Any], place: str = "containers", **meta: Any) -> Verdict:
    box = {"name": "trainer", "image": "i", "resources": {"limits": limits}}
    spec = {"containers": [{"name": "main"}]} | {place: [{"name": "plain"}, box]}
    pod = {"metadata": {"name": "p", "namespace": "default", **meta}, "spec": spec}
    return made.review(AdmissionRequest("u", "default", "p", "CREATE", object=msgspec.Raw(orjson.dumps(pod))))


@pytest.mark.parametrize(
    ("words", "fix", "change"),
    [
        ("pod has node assigned", "nodeSelector kubernetes.io/hostname", {"nodeName": "n1"}),
        ("container dind is privileged", "remove securityContext.privileged", {"containers": [DIND]}),
    ],
)
def test_refusal_begins_with_hamis_words_and_ends_with_the_fix(words, fix, change):
    spec = {"containers": [ASKS], "initContainers": [ASKS]} | change
    raw = msgspec.Raw(orjson.dumps({"metadata": {"name": "p", "namespace": "default"}, "spec": spec}))
    verdict = hook(81920).review(AdmissionRequest("u", "default", "p", "CREATE", object=raw))
    assert not verdict.allowed
    assert verdict.message.startswith(f"{words} (")
    assert fix in verdict.message


LARGE = "90000 MiB, and the largest card seen has 81920 MiB"


@pytest.mark.parametrize("place", ["initContainers", "containers"])
@pytest.mark.parametrize(
    ("limits", "warned"),
    [
        ({GPU: 1, MEM: 90000}, [f"{MEM}: {LARGE}"]),
        ({GPU: 1, MEM: 81920}, []),
        ({GPU: 1, MEM: 300}, []),
        ({GPU: 1, MEM: 299}, [f"{MEM}: 299 MiB a card; a program's context alone may take more"]),
        ({GPU: 1, MEM: 0}, []),
        ({GPU: 1, MEM: 3}, [f"{MEM}: 3 MiB a card"]),
        ({GPU: 1, MEM: 1000, PCT: 50}, [f"{PCT} is ignored, because {MEM} is set too"]),
        ({GPU: 1, MEM: 0, PCT: 50}, []),
        ({GPU: 1, MEM: 1000, CORES: 120}, [f"{CORES}: 120 is taken as 100"]),
        ({GPU: 1, MEM: 1000, CORES: 100}, []),
        ({GPU: 1, MEM: 1, PCT: 1, CORES: 101}, [f"{MEM}: 1 MiB", f"{PCT} is ignored", f"{CORES}: 101"]),
        ({GPU: 0, MEM: 1000}, [f"{MEM} gives no device: {GPU} is 0"]),
        ({GPU: "0k", CORES: 30}, [f"{CORES} gives no device: {GPU} is 0"]),
        ({GPU: 0}, []),
        ({GPU: 1}, []),
        ({MLU: 1, MLU_MEM: 321}, [f"{MLU_MEM}: 82176 MiB, and the largest card seen has 81920 MiB"]),
        ({MLU: 1, MLU_MEM: 1}, [f"{MLU_MEM}: 256 MiB a card"]),
        ({MLU: 1, MLU_CORES: 150}, [f"{MLU_CORES}: 150 is taken as 100"]),
        ({MLU_MEM: 8}, [f"{MLU_MEM} gives no device: {MLU} is missing"]),
        ({NPU: 0, NPU_MEM: 8}, [f"{NPU_MEM} gives no device: {NPU} is 0"]),
        ({NPU_MEM: 8}, [f"{NPU_MEM} gives no device: {NPU} is missing"]),
        ({"example.com/other": 7}, []),
    ],
)
def test_improbable_amount_gets_a_warning(limits, warned, place):
    verdict = admit(hook(40960, 81920), limits, place)
    assert verdict.allowed, verdict.message
    assert len(verdict.warnings) == len(warned), verdict.warnings
    for text, words in zip(verdict.warnings, warned, strict=True):
        assert text.startswith("container trainer: "), text
        assert words in text
        assert text.isascii()
        assert '"' not in text
        assert len(text) <= 200


def test_without_cards_any_size_gets_no_warning():
    for limits in ({GPU: 1, MEM: 1 << 20}, {MLU: 1, MLU_MEM: 4096}):
        verdict = admit(hook(), limits)
        assert (verdict.allowed, verdict.warnings) == (True, ())


def test_unknown_policy_gets_a_warning():
    verdict = admit(hook(), {GPU: 1}, annotations={"hami.io/gpu-scheduler-policy": 'bin"pakc'})
    (text,) = verdict.warnings
    assert "is not a policy and is ignored" in text
    assert '"' not in text


@pytest.mark.parametrize("zero", [0, "0", "0k", "-0", "0e1", "0.0", "0Gi"])
@pytest.mark.parametrize("place", ["initContainers", "containers"])
@pytest.mark.parametrize(
    ("count", "amount"), [(GPU, MEM), (GPU, PCT), (GPU, CORES), (MLU, MLU_MEM), (NPU, NPU_MEM), (ACME, ACME_MEM)]
)
def test_count_of_zero_with_amounts_goes_to_our_scheduler(count, amount, place, zero):
    made = hook()
    if count == ACME:
        cluster: Any = made._cluster
        cluster.loaded = load_classes(Acme)
        cluster.families = cluster.loaded.families
        made = Webhook(cluster, scheduler_name="hami-scheduler")
    verdict = admit(made, {count: zero, amount: 50}, place)
    assert verdict.allowed, verdict.message
    assert {"op": "add", "path": "/spec/schedulerName", "value": "hami-scheduler"} in verdict.patch
    assert any(f"{amount} gives no device: {count} is 0" in text for text in verdict.warnings)


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({GPU: 1, MEM: "8G"}, f"container trainer: {MEM}: '8G' has a unit"),
        ({GPU: 1, MEM: "1M"}, "write 1, or 1000001"),
        ({GPU: 1, MEM: "2000Ki"}, "write 2"),
        ({GPU: 1, MEM: 1048577}, "above the largest amount 1048576"),
        ({GPU: 1, CORES: "30M"}, f"{CORES}: '30M' has a unit"),
        ({GPU: 1, PCT: "50G"}, f"{PCT}: '50G' has a unit"),
        ({GPU: "1G"}, f"{GPU}: '1G' has a unit"),
        ({GPU: 1, "nvidia.com/priority": "1G"}, "nvidia.com/priority: '1G' has a unit"),
        ({MLU: 1, MLU_MEM: "8G"}, f"{MLU_MEM}: '8G' has a unit and asks for 8000000000 units of 256 MiB"),
        ({MLU: 1, MLU_MEM: 4097}, "above the largest amount 4096, in units of 256 MiB"),
        ({NPU: 1, NPU_MEM: "8G"}, f"{NPU_MEM}: '8G' has a unit"),
        ({NPU: "1G"}, f"{NPU}: '1G' has a unit"),
    ],
)
@pytest.mark.parametrize("place", ["initContainers", "containers"])
def test_an_amount_with_a_unit_is_refused_with_the_number(limits, told, place):
    verdict = admit(hook(), limits, place)
    assert not verdict.allowed
    assert verdict.code == 400
    assert told in verdict.message
