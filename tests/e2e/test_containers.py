"""Everything that a pod can ask for: each of its containers gets exactly what it requested."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.bed.errors import ApiRefused
from tests.e2e.faults.truth import differences, wait_for_none
from tests.e2e.pods import FILL, LOOK, MUSL, STATIC, STAY, before, container, pod, sidecar
from tests.e2e.slices import LIMITS_MOUNT, booked

if TYPE_CHECKING:
    from tests.e2e.system import System

MIB = 1 << 20
CARD_MIB = 81920


def cards_of(system: System, name: str, container_name: str = "main") -> list[dict[str, Any]]:
    """The cards that a container's program printed."""

    def told() -> list[str]:
        return [line for line in system.log(name, container_name).splitlines() if line.startswith("{")]

    lines = system.bed.wait(f"a report of {name}", told)
    return list(json.loads(lines[-1])["devices"])


def exec_cards(system: System, name: str, *words: str) -> list[dict[str, Any]]:
    """The cards that a program sees which ``kubectl exec`` started."""
    text = system.bed.kubectl("exec", name, "--", *words)
    return list(json.loads([line for line in text.splitlines() if line.startswith("{")][-1])["devices"])


# --- amounts, as in HAMi's examples --------------------------------------------------------------------------------


def with_limits(name: str, limits: dict[str, Any], **annotations: str) -> dict[str, Any]:
    """A pod with the given limits and annotations."""
    body = container(count=0) | {"resources": {"limits": limits}}
    return pod(name, body, annotations={key.replace("__", "/").replace("_", "-"): v for key, v in annotations.items()})


@pytest.mark.parametrize(
    ("limits", "count", "memory"),
    [
        ({"nvidia.com/gpu": 2, "nvidia.com/gpumem": 3000, "nvidia.com/gpucores": 30}, 2, 3000),
        ({"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 50}, 1, CARD_MIB // 2),
        ({"nvidia.com/gpu": 1}, 1, CARD_MIB),
        ({"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 100, "nvidia.com/gpucores": 100}, 1, CARD_MIB),
        ({"nvidia.com/gpumem": 1000}, 1, 1000),
        ({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "2k", "nvidia.com/priority": 1}, 1, 2000),
    ],
    ids=["slices of two cards", "a percentage", "as with the plain plugin", "all of a card", "memory alone", "strings"],
)
def test_every_way_to_ask(clean: System, limits: dict[str, Any], count: int, memory: int) -> None:
    clean.submit(with_limits("asker", limits))
    (now,) = clean.running("asker")
    slices = booked(now)["main"]
    assert [amount for _, amount in slices] == [memory] * count
    assert sorted((c["uuid"], c["total_bytes"] // MIB) for c in cards_of(clean, "asker")) == sorted(slices)


def test_an_imposed_variable_wins_and_debugging_still_works(clean: System) -> None:
    """``nvidia.com/priority`` sets CUDA_TASK_PRIORITY. The webhook also reviews ephemeral containers."""
    wanted = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000, "nvidia.com/priority": 1}
    env = [{"name": "CUDA_TASK_PRIORITY", "value": "0"}, {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    body = with_limits("asker", wanted)
    body["spec"]["containers"][0]["env"] = [*body["spec"]["containers"][0].get("env", []), *env]
    clean.submit(body)
    (now,) = clean.running("asker")
    found = [e for e in now["spec"]["containers"][0]["env"] if e["name"] in {e["name"] for e in env}]
    assert found == [{"name": "CUDA_TASK_PRIORITY", "value": "1"}]
    debug = {"spec": {"ephemeralContainers": [{"name": "debug", "image": now["spec"]["containers"][0]["image"]}]}}
    path = "/api/v1/namespaces/default/pods/asker/ephemeralcontainers"
    after = clean.bed.call("PATCH", path, debug, "application/strategic-merge-patch+json")
    assert [c["name"] for c in after["spec"]["ephemeralContainers"]] == ["debug"]
    assert after["spec"]["containers"] == now["spec"]["containers"]


def test_use_and_nouse_by_uuid_and_type(clean: System) -> None:
    clean.submit(pod("first", container(memory=1000), node="node1"))
    (now,) = clean.running("first")
    ((uuid, _),) = booked(now)["main"]
    clean.submit(
        pod("same", container(memory=1000), annotations={"nvidia.com/use-gpuuuid": uuid}),
        pod("other", container(memory=1000), annotations={"nvidia.com/nouse-gpuuuid": uuid}, node="node1"),
        pod("typed", container(memory=1000), annotations={"nvidia.com/use-gputype": "A100"}),
        pod("none", container(memory=1000), annotations={"nvidia.com/nouse-gputype": "A100"}),
    )
    clean.running("same", "other", "typed")
    pods = clean.pods()
    assert booked(pods["same"])["main"][0][0] == uuid
    assert booked(pods["other"])["main"][0][0] != uuid
    assert clean.problems("first", "same", "other", "typed") == []
    clean.bed.wait("a reason", lambda: "CardTypeMismatch" in clean.bed.kubectl("describe", "pod", "none"))


@pytest.mark.parametrize(("policy", "cards"), [("binpack", 1), ("spread", 2)])
def test_policies_choose_cards(clean: System, policy: str, cards: int) -> None:
    wait_for_none("other tests' pods are no longer counted", lambda: differences(clean), clean, 60)
    wanted = {"hami.io/gpu-scheduler-policy": policy}
    for name in ("one", "two"):
        clean.submit(pod(name, container(memory=1000), annotations=wanted, node="node1"))
        clean.running(name)
    pods = clean.pods()
    assert len({booked(pods[name])["main"][0][0] for name in ("one", "two")}) == cards


@pytest.mark.parametrize(("policy", "nodes"), [("binpack", 1), ("spread", 2)])
def test_policies_choose_nodes(clean: System, policy: str, nodes: int) -> None:
    wait_for_none("other tests' pods are no longer counted", lambda: differences(clean), clean, 60)
    wanted = {"hami.io/node-scheduler-policy": policy}
    for name in ("one", "two"):
        clean.submit(pod(name, container(memory=1000), annotations=wanted))
        clean.running(name)
    assert len({clean.pod(name)["spec"]["nodeName"] for name in ("one", "two")}) == nodes


# --- containers of one pod -----------------------------------------------------------------------------------------


def test_containers_with_and_without_devices(clean: System) -> None:
    clean.submit(
        pod(
            "mixed",
            container("bare", count=0, command=["cuda-probe", "look", "100000"]),
            container("small", 500),
            container("large", 9000, 20, count=2),
            init=before(
                clean.bed.tools.minor,
                container("prepare", 15000, command=LOOK),
                sidecar("beside", 700),
                container("last", 600, command=LOOK),
            ),
        )
    )
    clean.bed.wait("the bare one finds no driver", lambda: "libcuda" in clean.log("mixed", "bare"))
    clean.bed.wait("all others run", lambda: not [p for p in clean.problems("mixed") if "printed nothing" in p])
    assert clean.problems("mixed") == []


def test_a_process_started_by_exec_is_limited_like_the_first(clean: System) -> None:
    clean.submit(pod("host", container(memory=4000)))
    clean.running("host")
    (card,) = exec_cards(clean, "host", "cuda-probe", "0")
    assert card["total_bytes"] == 4000 * MIB
    assert 3000 * MIB < card["allocated_bytes"] <= 4000 * MIB
    keep = "{name: os.environ[name] for name in ('HAMI_SIM_STATE', 'HAMI_SIM_DEV')}"
    bare = f"{keep} | {{'LD_LIBRARY_PATH': '/usr/local/nvidia/lib64'}}"
    script = f"import os, shutil; os.execve(shutil.which('cuda-probe'), ['cuda-probe', '0'], {bare})"
    (cleared,) = exec_cards(clean, "host", "python3", "-c", script)
    assert cleared["total_bytes"] == 4000 * MIB, "an empty environment changes nothing"


def test_no_limit_comes_from_the_environment(clean: System) -> None:
    lies = [
        {"name": "CUDA_DEVICE_MEMORY_LIMIT_0", "value": "80000m"},
        {"name": "CUDA_DEVICE_MEMORY_LIMIT", "value": "80000m"},
        {"name": "CUDA_DISABLE_CONTROL", "value": "true"},
        {"name": "HAMI_VGPU_ROOT", "value": "/tmp"},
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
    ]
    clean.submit(pod("liar", container(memory=1000, command=FILL, env=lies)))
    clean.running("liar")
    assert clean.problems("liar") == []
    (card,) = cards_of(clean, "liar")
    assert card["allocated_bytes"] <= 1000 * MIB


def test_cdi_edits_reach_containerds_own_spec(clean: System) -> None:
    clean.submit(pod("edits", container(memory=1000)))
    (now,) = clean.running("edits")
    oci = clean.bed.containers(now["spec"]["nodeName"])[now["metadata"]["uid"], "main"].spec
    mounts = {mount["destination"]: mount for mount in oci["mounts"]}
    assert "ro" in mounts[LIMITS_MOUNT]["options"]
    assert "ro" in mounts["/etc/ld.so.preload"]["options"]
    assert "ro" in mounts["/usr/local/vgpu/libvgpu.so"]["options"]
    assert "rw" in mounts["/usr/local/vgpu/region"]["options"]
    assert (
        len([d for d in oci["linux"]["devices"] if d["path"].startswith("/dev/nvidia") and d["path"][11:].isdigit()])
        == 1
    )


def test_a_whole_card_and_its_neighbour(clean: System) -> None:
    clean.submit(pod("whole", container(memory=None), node="node1"))
    (whole,) = clean.running("whole")
    oci = clean.bed.containers("node1")[whole["metadata"]["uid"], "main"].spec
    assert not [mount for mount in oci["mounts"] if "vgpu" in mount["destination"] or "preload" in mount["destination"]]
    clean.submit(pod("beside", container(memory=1000), node="node1"), pod("late", container(memory=None, count=2)))
    (beside,) = clean.running("beside")
    assert booked(beside)["main"][0][0] != booked(whole)["main"][0][0]
    assert clean.problems("whole", "beside") == []


@pytest.mark.parametrize("image", [STATIC, MUSL], ids=["static", "musl"])
def test_images_without_glibc_still_get_their_card_alone(clean: System, image: str) -> None:
    clean.submit(pod("odd", container(memory=1000, image=image, command=["/client"])))
    clean.running("odd")
    assert clean.problems("odd", seen=False) == []


# --- refusals ------------------------------------------------------------------------------------------------------


def test_refusals_of_the_webhook(clean: System) -> None:
    privileged = container(memory=1000, securityContext={"privileged": True})
    for body, words in (
        (pod("a", privileged), "privileged"),
        (pod("b", container(memory=1000), nodeName="node1"), "node assigned"),
        (
            pod("c", container(memory=1000), annotations={"hami.io/vgpu-devices-allocated": "GPU-1,NVIDIA,1,1:;"}),
            "hami.io",
        ),
        (with_limits("d", {"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 101}), "gpumem-percentage"),
    ):
        with pytest.raises(ApiRefused, match=words):
            clean.submit(body)


def test_a_foreign_scheduler_is_left_alone(clean: System) -> None:
    clean.submit(pod("foreign", container(memory=1000), schedulerName="somebody-else"))
    now = clean.pod("foreign")
    assert now["spec"]["schedulerName"] == "somebody-else"
    assert now["status"]["phase"] == "Pending"


def test_pods_without_devices_pass_by(clean: System) -> None:
    clean.submit(pod("plain", container(count=0, command=["cuda-probe", "--help"])))
    assert clean.pod("plain")["spec"]["schedulerName"] == "default-scheduler"
    clean.phase("plain", "Succeeded", "Failed", "Running")


def test_pod_that_bypassed_the_webhook_is_refused_at_the_node(clean: System) -> None:
    clean.submit(pod("round", container(memory=None, count=1), labels={"hami.io/webhook": "ignore"}))
    now = clean.pod("round")
    assert now["spec"]["schedulerName"] == "default-scheduler"
    clean.bed.wait("the reason", lambda: "PreStartContainer" in clean.bed.kubectl("describe", "pod", "round"))
    assert clean.pod("round")["status"]["phase"] == "Pending", "it never starts"


def test_quota_bounds_a_namespace(clean: System) -> None:
    clean.bed.call(
        "POST",
        "/api/v1/namespaces/default/resourcequotas",
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "gpu"},
            "spec": {"hard": {"limits.nvidia.com/gpumem": "3000"}},
        },
    )
    clean.submit(pod("within", container(memory=2000)))
    clean.running("within")
    refused = None
    try:
        clean.submit(pod("beyond", container(memory=2000)))
    except ApiRefused as error:
        refused = str(error)
    assert refused is not None
    assert "quota" in refused


def test_client_reports_a_whole_cards_true_size(clean: System) -> None:
    """The test programs report the true size of a card without limits."""
    clean.submit(pod("truth", container(memory=None, command=STAY)))
    clean.running("truth")
    assert cards_of(clean, "truth")[0]["total_bytes"] >= CARD_MIB * MIB * 0.98
