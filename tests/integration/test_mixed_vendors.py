"""NVIDIA, Ascend and Cambricon together: pods that request several vendors, and nodes that have several."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from hami_core.testing import StageError
from tests.integration.bad_input import distributions
from tests.integration.mixed import (
    CHIP,
    CHIP_MIB,
    MLU_MIB,
    VENDORS,
    MixedStage,
    booked,
    foreign_node,
    gpu,
    mlu,
    node,
    npu,
    pod,
)

pytestmark = pytest.mark.timeout(300)
EXAMPLES = Path(__file__).parents[2] / "contrib" / "examples"
SLICES = {"nvidia": gpu(3000), "ascend": npu(8192), "cambricon": mlu(4096)}
VNPUS, INSTANCES = "card*/device*/vnpu/*", "card*/instances/*"
"""Files of vNPUs and of sMLU instances below the simulated devices."""
BINPACK = {"hami.io/node-scheduler-policy": "binpack"}
SPREAD = {"hami.io/node-scheduler-policy": "spread"}


def mib(found: dict, vendor: str) -> list[list[int]]:
    """MiB of each container's slices of a vendor."""
    return [[memory for _, memory in container] for container in booked(found, vendor)]


async def where(stage: MixedStage, name: str) -> str:
    return (await stage.wait_running(name))["spec"]["nodeName"]


def lines(folder: Path, pattern: str) -> list[list[str]]:
    """The words of each file that matches, such as those of vNPUs or sMLU instances."""
    return sorted(path.read_text().split() for path in folder.glob(pattern))


def sample(text: str, name: str, **labels: str) -> float:
    """The value of the one sample with these labels."""
    lines = [line for line in text.splitlines() if line.startswith(name + "{")]
    (line,) = [line for line in lines if all(f'{key}="{value}"' in line for key, value in labels.items())]
    return float(line.rpartition(" ")[2])


async def assert_metrics(stage: MixedStage, mixed: dict) -> None:
    """The scheduler's metrics count the pod's slices in bytes, whatever the vendor's unit is."""
    url = stage.parts["scheduler"].ready_url.replace("/readyz", "/metrics")
    async with stage.session.get(url) as answer:
        text = await answer.text()
    taken = {}
    for vendor, kind, size in (("ascend", CHIP, CHIP_MIB), ("cambricon", "MLU370-X8", MLU_MIB)):
        ((uuid, taken[vendor]),) = [piece for container in booked(mixed, vendor) for piece in container]
        labels = {"device_type": kind, "node": "n1", "device_uuid": uuid}
        assert sample(text, "hami_gpu_memory_limit_bytes", **labels) == size << 20
        assert sample(text, "hami_gpu_memory_allocated_bytes", **labels) == taken[vendor] << 20
        assert sample(text, "hami_gpu_shared_count", **labels) == 1
        assert sample(text, "hami_gpu_core_allocated_ratio", **labels) == (25 if vendor == "cambricon" else 0)
        labels = {"device_uuid": uuid, "container_index": str(VENDORS.index(vendor))}
        assert sample(text, "hami_vgpu_memory_allocated_bytes", **labels) == taken[vendor] << 20


async def test_pod_of_three_vendors_gets_and_shows_a_slice_of_each(short_folder):
    async with MixedStage(short_folder / "one", [node("n1", "a100x2", npus=2, mlus=2)]) as stage:
        await stage.submit(pod("mixed", gpu(3000), npu(6000), mlu(4096)))
        found = await stage.wait_running("mixed")
        assert mib(found, "nvidia") == [[3000], [], []]
        assert mib(found, "ascend") == [[], [8192], []]
        assert mib(found, "cambricon") == [[], [], [4096]]
        assert found["metadata"]["annotations"]["CAMBRICON_DSMLU_PROFILE"].endswith("_25_16")
        assert f"huawei.com/{CHIP}" in found["metadata"]["annotations"]
        with_gpu, with_npu, with_mlu = [await stage.container("mixed", f"c{i}") for i in range(3)]
        assert {"/dev/nvidia0", "/dev/nvidia1"} & with_gpu.devices.keys()
        assert with_npu.env["ASCEND_RUNTIME_OPTIONS"] == "VIRTUAL"
        assert [template for template, _ in lines(stage.npus("n1"), VNPUS)] == ["vir05_1c_8g"]
        assert [words[1:3] for words in lines(stage.mlus("n1"), INSTANCES)] == [["25", str(4096 << 20)]]
        assert any("cambricon_dev" in path for path in with_mlu.devices)
        assert not any("cambricon" in path for path in (*with_gpu.devices, *with_npu.devices))
        await assert_metrics(stage, found)


async def test_each_pod_goes_to_a_node_of_its_vendors(short_folder):
    nodes = [
        node("gpu", "a100x2"),
        node("npu", npus=2),
        node("mlu", mlus=2),
        node("both", "a100x2", npus=2),
        foreign_node("npu-theirs", npus=2),
        foreign_node("mlu-theirs", mlus=2),
    ]
    places = {
        "nvidia": {"gpu", "both"},
        "ascend": {"npu", "both", "npu-theirs"},
        "cambricon": {"mlu", "mlu-theirs"},
    }
    nodes = [replace(one, labels={"place": one.name}) for one in nodes]
    async with MixedStage(short_folder / "nodes", nodes) as stage:
        for vendor, limits in SLICES.items():
            await stage.submit(pod(vendor, limits))
            for place in places[vendor]:
                await stage.submit(pod(f"{vendor}-on-{place}", limits, nodeSelector={"place": place}))
        await stage.submit(pod("pair", SLICES["nvidia"], SLICES["ascend"]))
        await stage.submit(pod("nowhere", SLICES["nvidia"], SLICES["cambricon"]))
        for vendor, allowed in places.items():
            assert await where(stage, vendor) in allowed
            for place in allowed:
                assert await where(stage, f"{vendor}-on-{place}") == place
        assert await where(stage, "pair") == "both"
        with pytest.raises(StageError, match="nowhere is Pending"):
            await stage.wait_running("nowhere", limit_s=3)


async def test_bookings_of_every_vendor_survive_a_restart(short_folder):
    async with MixedStage(short_folder / "restart", [node("n1", "a100x1", npus=1, mlus=1)]) as stage:
        await stage.submit(pod("first", gpu(30_000), npu(16_384), mlu(12_288, cores=50)))
        await stage.wait_running("first")
        agents = [f"agent:n1-{vendor}" for vendor in VENDORS]
        for part in ("scheduler", "kube-scheduler", "apiserver", *agents):
            await stage.restart(part)
        too_much = {"nvidia": gpu(60_000), "ascend": npu(CHIP_MIB), "cambricon": mlu(12_544, cores=10)}
        fitting = {"nvidia": gpu(8_000), "ascend": npu(8_192), "cambricon": mlu(8_192, cores=25)}
        for vendor in VENDORS:
            await stage.submit(pod(f"large-{vendor}", too_much[vendor]))
            await stage.submit(pod(f"small-{vendor}", fitting[vendor]))
        for vendor in VENDORS:
            await stage.wait_running(f"small-{vendor}")
            assert not (await stage.pods())[f"large-{vendor}"]["spec"].get("nodeName")


async def test_node_policies_hold_for_pods_of_several_vendors(short_folder):
    nodes = [node(name, "a100x2", npus=2) for name in ("n1", "n2")]
    async with MixedStage(short_folder / "policy", nodes) as stage:
        for policy, wanted in ((BINPACK, 1), (SPREAD, 2)):
            places = set()
            word = policy["hami.io/node-scheduler-policy"]
            for number in range(2):
                name = f"{word}-{number}"
                await stage.submit(pod(name, gpu(3000), npu(8192), annotations=policy))
                places.add(await where(stage, name))
            assert len(places) == wanted, word
            for number in range(2):
                path = f"/api/v1/namespaces/default/pods/{word}-{number}"
                await stage.call("DELETE", path, {"gracePeriodSeconds": 0})


async def test_quota_counts_each_vendor_for_itself(short_folder):
    async with MixedStage(short_folder / "quota", [node("n1", "a100x2", npus=2, mlus=2)]) as stage:
        quota = yaml.safe_load((EXAMPLES / "quota.yaml").read_text())
        await stage.call("POST", "/api/v1/namespaces/default/resourcequotas", quota)
        await stage.submit(pod("npus", npu(CHIP_MIB)))
        await stage.wait_running("npus")
        with pytest.raises(StageError, match=f"0 MiB of huawei.com/{CHIP}-memory left"):
            await stage.submit(pod("more-npus", npu(8192)))
        for name, limits in {"gpus": gpu(15_000), "mlus": mlu(8192)}.items():
            await stage.submit(pod(name, limits))
            await stage.wait_running(name)
        with pytest.raises(StageError, match=r"1000 MiB of nvidia.com/gpumem left"):
            await stage.submit(pod("more-gpus", mlu(1024) | gpu(2000)))


async def test_two_preloaded_libraries_in_one_container_are_refused(short_folder):
    """Each would limit the container by /etc/ld.so.preload, and one of them would be lost."""
    soft = {"huawei.com/vnpu-mode": "hami-core"}
    async with MixedStage(short_folder / "preload", [node("n1", "a100x1"), foreign_node("n2", npus=1)]) as stage:
        with pytest.raises(StageError, match="container c0: Ascend910B4 and NVIDIA: each is limited by a library"):
            await stage.submit(pod("both", gpu(3000) | npu(8192), annotations=soft))
        past_the_webhook = pod("past", gpu(3000) | npu(8192), annotations=soft, schedulerName="hami-scheduler")
        past_the_webhook["metadata"]["labels"] = {"hami.io/webhook": "ignore"}
        await stage.submit(past_the_webhook)
        with pytest.raises(StageError, match="each is limited by a library"):
            await stage.wait_running("past", limit_s=3)
        await stage.submit(pod("hard", gpu(3000) | npu(8192)))
        await stage.submit(pod("apart", gpu(3000), npu(8192), annotations=soft))


@pytest.fixture
def broken(short_folder, monkeypatch):
    """Vendors whose hooks or imports fail, installed beside the real ones."""
    distributions.install(short_folder / "site")
    monkeypatch.setenv("PYTHONPATH", str(short_folder / "site"))
    return [*distributions.LOADABLE, *distributions.BROKEN]


class BesideBroken(MixedStage):
    """The scheduler has broken vendors, too. This process does not read them."""

    read_vendors = VENDORS


async def test_broken_vendors_and_registers_disturb_no_other(short_folder, broken):
    wrong = node("wrong", "a100x2", mlus=1)
    wrong.annotations[f"hami.io/node-register-{CHIP}"] = "[{'id': 7}]"
    nodes = [wrong, node("npu", npus=2)]
    async with BesideBroken(short_folder / "broken", nodes, vendors=(*VENDORS, *broken)) as stage:
        for vendor, limits in SLICES.items():
            await stage.submit(pod(vendor, limits))
        assert [await where(stage, vendor) for vendor in VENDORS] == ["wrong", "npu", "wrong"]
        await stage.submit(pod("pair", SLICES["nvidia"], SLICES["cambricon"]))
        assert await where(stage, "pair") == "wrong"


async def test_examples_of_ascend_and_cambricon_run(short_folder):
    nodes = [
        foreign_node("hard", npus=8),
        foreign_node("soft", npus=2, soft=True),
        foreign_node("module", npus=4, chip="Ascend910C"),
        foreign_node("mlu-1", mlus=2),
        node("mlu-2", mlus=3),
        node("both", "a100x1", npus=1),
    ]
    documents = [
        document
        for name in ("ascend", "cambricon", "mixed")
        for document in yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text())
    ]
    async with MixedStage(short_folder / "examples", nodes) as stage:
        for document in documents:
            await stage.submit(document)
        found = {d["metadata"]["name"]: await stage.wait_running(d["metadata"]["name"]) for d in documents}
        assert mib(found["npu-hard"], "ascend") == [[8192]]
        assert (mib(found["npu-soft"], "ascend"), found["npu-soft"]["spec"]["nodeName"]) == ([[3000]], "soft")
        assert mib(found["npu-whole"], "ascend") == [[CHIP_MIB] * 2]
        assert mib(found["npu-pair"], "Ascend910C") == [[2 * CHIP_MIB] * 2]
        assert booked(found["npu-chooser"], "ascend")[0][0][0] != f"VDIE-{CHIP}-0"
        assert mib(found["mlu-slice"], "cambricon") == [[4096]]
        assert mib(found["mlu-whole"], "cambricon") == [[MLU_MIB]]
        assert found["mlu-whole"]["spec"]["nodeName"] == "mlu-2", "Cambricon's plugin gives no card without amounts"
        assert booked(found["mlu-chooser"], "cambricon")[0][0][0] != "mlu-1-cambricon-mlu-0"
        assert (mib(found["mixed"], "nvidia"), mib(found["mixed"], "ascend")) == ([[3000], []], [[], [8192]])
