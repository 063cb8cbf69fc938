"""Tests of the bed: what it offers works, its faults have their effect, and it leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.bed import ApiRefused, Bed, BedError, Node, NotInTime, cgroups, images, machine, processes
from tests.e2e.bed.recipes import RECIPES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.bed import Tools

PODS = "/api/v1/namespaces/default/pods"
ROOT = Path(__file__).parents[2]
COMPONENTS = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl-proxy",
    "containerd:node1",
    "kubelet:node1",
]
# A web server that answers with its pod's name, and a client that prints the answer.
SERVE = "import http.server as s, socket\nclass H(s.BaseHTTPRequestHandler):\n def do_GET(self):\n  \
self.send_response(200); self.end_headers(); self.wfile.write(socket.gethostname().encode())\n\
s.HTTPServer(('', 8000), H).serve_forever()"
ASK = "import ssl, sys, urllib.request as r; print(r.urlopen(sys.argv[1], timeout=5, \
context=ssl._create_unverified_context()).read().decode())"


@pytest.fixture(scope="module")
def bed(tools: Tools, module_work: Path) -> Iterator[Bed]:
    """A bed with two nodes. The first has simulated GPUs."""
    archives = images.ensure(tools, ["client"])
    began = time.monotonic()
    with Bed(module_work, tools, [Node("node1", "a100x2"), Node("node2")], images=archives) as bed:
        up = time.monotonic() - began
        resident = sum(row.rss for name in ("cp", *bed.nodes) for row in bed.processes(name)) / 1024
        print(f"{tools.kubernetes}, containerd {tools.containerd}: up in {up:.1f} s, {resident:.0f} MiB resident")
        yield bed


def pod(name: str, *command: str, node: str = "", **more: Any) -> dict[str, Any]:
    """A pod of one container."""
    container: dict[str, Any] = {"name": "main", "image": "localhost/hami/client:dev", "imagePullPolicy": "Never"}
    container["command"] = list(command or ("sleep", "100000"))
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0, **({"nodeName": node} if node else {})}
    metadata = {"name": name, "namespace": "default", "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**spec, **more}}


def get(bed: Bed, name: str) -> dict[str, Any]:
    """The current object of a pod."""
    found: dict[str, Any] = bed.call("GET", f"{PODS}/{name}")
    return found


def running(bed: Bed, name: str, timeout: float = 60) -> dict[str, Any]:
    """Wait until a pod is ready."""

    def look() -> dict[str, Any] | None:
        found = get(bed, name)
        return (
            found if all(c["ready"] for c in found["status"].get("containerStatuses") or [{"ready": False}]) else None
        )

    return bed.wait(f"{name} ready", look, timeout) or {}


@contextmanager
def pods(bed: Bed, *wanted: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """Run pods during the block, and delete them after it."""
    names = [one["metadata"]["name"] for one in wanted]
    bed.apply(*wanted)
    try:
        yield [running(bed, name) for name in names]
    finally:
        bed.kubectl("delete", "pod", "--grace-period=0", "--force", "--wait=true", *names)


def test_versions_are_those_asked_for(bed: Bed, tools: Tools) -> None:
    """The API server and every node report the version of the tools."""
    assert bed.call("GET", "/version")["gitVersion"] == tools.kubernetes
    for node in bed.call("GET", "/api/v1/nodes")["items"]:
        assert node["status"]["nodeInfo"]["kubeletVersion"] == tools.kubernetes
        assert tools.containerd in node["status"]["nodeInfo"]["containerRuntimeVersion"]


def test_nothing_is_in_a_namespace_of_the_host(bed: Bed) -> None:
    """No process of a bed uses the host's network, mount or pid namespace, so none listens on the host's addresses."""
    rows = [row for name in ("cp", *bed.nodes) for row in bed.processes(name)]
    assert len(rows) >= 2 * 3 + 6
    for kind in ("net", "mnt", "pid", "uts", "ipc"):
        ours = processes.namespace(os.getpid(), kind)
        assert [row.name for row in rows if processes.namespace(row.pid, kind) == ours] == []


def test_pods_are_scheduled_run_print_and_can_be_entered(bed: Bed) -> None:
    """The usual operations work, including kubectl's logs and exec."""
    with pods(bed, pod("everyday", "sh", "-c", "echo printed; sleep 100000")) as [made]:
        assert made["spec"]["nodeName"] in bed.nodes
        bed.wait("the log", lambda: bed.kubectl("logs", "everyday") == "printed\n", timeout=10)
        assert bed.kubectl("exec", "everyday", "--", "cat", "/etc/hostname") == "everyday\n"
        assert bed.call("GET", f"{PODS}/everyday/log") == "printed\n"


def test_the_bridge_keeps_its_address_when_nodes_come_and_go(bed: Bed) -> None:
    """Nodes cache the address. After a change they would send packets to the old one for a while."""
    script = """
        seen() { ip -j link show br0; }
        before=$(seen | sed 's/.*"address":"\\([^"]*\\)".*/\\1/')
        for i in $(seq 20); do
            ip link add passing type veth peer name other && ip link set passing master br0 up
            seen | grep -q "\\"address\\":\\"$before\\"" || echo changed
            ip link delete passing
        done
    """
    control_plane = bed.components.machine("cp")
    assert control_plane.run("sh", "-c", script).stdout == ""


def test_the_network_joins_pods_of_all_nodes_and_the_api_server(bed: Bed) -> None:
    """Pods reach pods of other nodes, and the API by its Service. The API server reaches pods by a Service."""
    servers = [pod(f"web-{node}", "python3", "-c", SERVE, node=node) for node in bed.nodes]
    for server in servers:
        server["spec"]["containers"][0]["readinessProbe"] = {"httpGet": {"port": 8000}, "periodSeconds": 1}
    with pods(bed, *servers) as made:
        for one in made:
            for other in made:
                address = f"http://{other['status']['podIP']}:8000"
                said = bed.kubectl("exec", one["metadata"]["name"], "--", "python3", "-c", ASK, address)
                assert said.strip() == other["metadata"]["name"]
        said = bed.kubectl("exec", "web-node2", "--", "python3", "-c", ASK, "https://10.96.0.1/version")
        assert json.loads(said)["gitVersion"] == bed.tools.kubernetes
        ports = {"selector": {"app": "web-node2"}, "ports": [{"port": 80, "targetPort": 8000}]}
        bed.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": ports})
        proxy = "/api/v1/namespaces/default/services/http:web:80/proxy/"
        assert bed.wait("the Service answers", lambda: bed.call("GET", proxy), timeout=20) == "web-node2"
        bed.kubectl("delete", "service", "web")


def test_containers_are_read_as_runc_got_them(bed: Bed) -> None:
    """OCI specifications of running and of ended containers can be read, by pod UID and name."""
    first = {"name": "first", "image": "localhost/hami/client:dev", "imagePullPolicy": "Never", "command": ["true"]}
    volume = {"volumes": [{"name": "v", "emptyDir": {}}]}
    wanted = pod("read", node="node2", initContainers=[first], **volume)
    wanted["spec"]["containers"][0] |= {
        "env": [{"name": "WORD", "value": "a=b"}],
        "volumeMounts": [{"name": "v", "mountPath": "/data", "readOnly": True}],
    }
    with pods(bed, wanted) as [made]:
        uid = made["metadata"]["uid"]
        found = {name: one for (owner, name), one in bed.containers("node2").items() if owner == uid}
        assert set(found) == {"first", "main"}
        assert (found["first"].live, found["main"].live) == (False, True)
        assert found["first"].spec["process"]["args"] == ["true"]
        assert found["main"].pod == "default/read"
        assert found["main"].environment["WORD"] == "a=b"
        assert uid in found["main"].mounts["/data"]["source"]
        assert "ro" in found["main"].mounts["/data"]["options"]
        assert (uid, "main") not in bed.containers("node1")


def test_a_node_with_gpus_looks_like_one(bed: Bed) -> None:
    """It has character devices, the driver's libraries and its CDI specification. The other node has none of them."""
    root = bed.root("node1")
    for name, minor in (("nvidia0", 0), ("nvidia1", 1), ("nvidiactl", 255)):
        found = (root / "dev" / name).stat()
        assert (os.major(found.st_rdev), os.minor(found.st_rdev)) == (195, minor)
    assert (root / "opt/nvidia-sim/lib/libcuda.so.1").is_file()
    assert "nvidia.com/gpu" in (root / "etc/cdi/nvidia.yaml").read_text()
    assert not (bed.root("node2") / "dev/nvidia0").exists()
    assert not (bed.root("node2") / "opt/nvidia-sim").exists()


def test_every_request_is_in_the_audit_log(bed: Bed) -> None:
    """The log has the user and the object of each request."""
    name = f"seen-{time.monotonic_ns()}"
    with pytest.raises(ApiRefused) as caught:
        bed.call("GET", f"/api/v1/namespaces/default/configmaps/{name}")
    assert caught.value.status == 404

    def look() -> list[dict[str, Any]]:
        lines = (bed.work / "log/audit.log").read_text().splitlines()
        return [json.loads(line) for line in lines if name in line]

    [event] = bed.wait("the audit log has it", look, timeout=10)
    assert (event["user"]["username"], event["verb"], event["objectRef"]["resource"]) == ("admin", "get", "configmaps")


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_killed_component_comes_back_and_pods_live_on(bed: Bed, component: str) -> None:
    """After SIGKILL and a start the cluster starts new pods, and the running pod was not touched."""
    with pods(bed, pod("lasting", node="node1")) as [before]:
        bed.kill(component)
        assert not bed.components.running(component)
        bed.start(component)
        bed.wait("the API answers", lambda: bed.call("GET", "/readyz") == "ok")
        with pods(bed, pod("new"), pod("pinned", node="node1")):
            after = get(bed, "lasting")
        status = after["status"]["containerStatuses"][0]
        assert status["containerID"] == before["status"]["containerStatuses"][0]["containerID"]
        assert status["restartCount"] == 0


def test_a_frozen_component_does_nothing_until_it_is_woken(bed: Bed) -> None:
    """A paused API server keeps connections and does not answer. A paused program can still be killed."""
    bed.pause("kube-apiserver")
    try:
        with pytest.raises(BedError, match="no answer"):
            bed.call("GET", "/version", timeout=1)
    finally:
        bed.resume("kube-apiserver")
    bed.wait("the API answers again", lambda: bed.call("GET", "/version"), timeout=20)
    bed.pause("kube-scheduler")
    bed.kill("kube-scheduler")
    bed.start("kube-scheduler")
    assert bed.components.running("kube-scheduler")


def test_a_node_cut_off_is_silent_and_joins_again(bed: Bed) -> None:
    """No packet passes and neither side gets an error. After `join`, packets pass again."""
    ask = (sys.executable, "-c", ASK, "https://10.200.0.1/version")
    assert bed.run("node1", *ask).returncode == 0
    bed.cut("node1")
    try:
        assert "timed out" in bed.run("node1", *ask, check=False).stderr
        assert bed.run("node2", *ask).returncode == 0
    finally:
        bed.join("node1")
    assert bed.wait("node1 reaches the API", lambda: bed.run("node1", *ask, check=False).returncode == 0, timeout=20)


def test_a_reboot_ends_all_and_keeps_the_disk(bed: Bed) -> None:
    """All processes and /run are gone, images and volumes are kept, and the kubelet restarts its pods."""
    with pods(bed, pod("back", node="node2")) as [before]:
        boot = bed.call("GET", "/api/v1/nodes/node2")["status"]["nodeInfo"]["bootID"]
        old = {row.pid for row in bed.processes("node2")}
        (bed.root("node2") / "run/mark").write_text("")
        (bed.root("node2") / "var/lib/hami/mark").write_text("")
        bed.reboot("node2")
        assert not old & {row.pid for row in bed.processes("node2")}
        assert not (bed.root("node2") / "run/mark").exists()
        assert (bed.root("node2") / "var/lib/hami/mark").exists()
        info = "/api/v1/nodes/node2"
        bed.wait("the node says so", lambda: bed.call("GET", info)["status"]["nodeInfo"]["bootID"] != boot)

        def again() -> bool:
            [status] = get(bed, "back")["status"]["containerStatuses"]
            return bool(status["ready"] and status["restartCount"] == 1)

        bed.wait("the pod runs again", again)
        assert get(bed, "back")["metadata"]["uid"] == before["metadata"]["uid"]


def test_a_node_is_added_and_gets_an_image(bed: Bed) -> None:
    """It becomes Ready, has the bed's images, and can import another one."""
    bed.add_node(Node("node3"))
    [archive] = (path for path in images.ensure(bed.tools, ["client-static"]) if "client-static" in path.name)
    bed.import_image(archive, ["node3"])
    static = pod("static", node="node3")
    static["spec"]["containers"][0] = {
        "name": "main",
        "image": "localhost/hami/client-static:dev",
        "imagePullPolicy": "Never",
    }
    with pods(bed, pod("third", node="node3"), static):
        pass


def test_wait_that_times_out_explains_why(bed: Bed) -> None:
    """A wait that times out reports its purpose, the last value, and a description of the cluster."""
    bed.apply(pod("stuck", nodeSelector={"no": "such"}))
    try:
        with pytest.raises(NotInTime) as caught:
            bed.wait("stuck runs", lambda: get(bed, "stuck")["status"].get("startTime"), timeout=3)
    finally:
        bed.kubectl("delete", "pod", "stuck", "--grace-period=0", "--force")
    message = str(caught.value)
    assert "stuck runs: not within 3 s" in message
    assert "default/stuck Pending" in message
    assert "FailedScheduling" in message


def test_another_program_finds_the_bed(bed: Bed) -> None:
    """A later command needs only the state file."""
    other = Bed.open(bed.work)
    assert other.nodes == bed.nodes
    assert other.kubectl("get", "nodes", "-o", "name") == bed.kubectl("get", "nodes", "-o", "name")
    said = command("status", bed.work).stdout
    assert said.count("pid ") == len(bed.state.components)
    with pytest.raises(BedError, match="there already"):
        Bed(bed.work, bed.tools, []).up()


# --- clean-up


def command(name: str, work: Path, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
    """Command line of the bed."""
    line = [sys.executable, "-m", "tests.e2e.bed", name, "--work", str(work), *words]
    return subprocess.run(line, cwd=ROOT, check=True, capture_output=True, text=True, timeout=300, **more)


def traces(bed: str) -> dict[str, Any]:
    """A snapshot of all parts of the host in which a bed could leave something."""
    folders = ("/etc", "/opt", "/run", "/var/lib", "/var/log", "/dev")
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    groups = [str(top / cgroups.path(bed)[1:]) for top in cgroups.hierarchies()]
    return {
        "mounts": sorted(mounts),
        "files": {folder: sorted(path.name for path in Path(folder).iterdir()) for folder in folders},
        "interfaces": sorted(path.name for path in Path("/sys/class/net").iterdir()),
        "groups": [group for group in groups if Path(group).exists()],
        "holders": machine.holders(bed),
        "settings": {
            name: Path("/proc/sys", name).read_text()
            for name in ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "net/ipv4/ip_forward")
        },
    }


def test_down_leaves_nothing_but_logs(tools: Tools, work: Path) -> None:
    """Processes, mounts, control groups, folders, interfaces and kernel settings are as before."""
    before = traces("none")
    bed = Bed(work, tools, [Node("node1", "a100x2")], images=images.ensure(tools, ["client"]))
    bed.up()
    bed.apply(pod("one", volumes=[{"name": "v", "emptyDir": {"medium": "Memory"}}]), pod("two"))
    for name in ("one", "two"):
        running(bed, name)
    bed.pause("kube-apiserver")  # a frozen bed goes as well
    rows = [row.pid for name in ("cp", *bed.nodes) for row in bed.processes(name)]
    launchers = [part.launcher.pid for part in bed.state.components.values() if part.launcher]
    assert traces(bed.state.id)["groups"]
    began = time.monotonic()
    bed.down()
    print(f"down in {time.monotonic() - began:.1f} s")
    assert [processes.name(pid) for pid in (*rows, *launchers) if Path(f"/proc/{pid}").exists()] == []
    assert traces(bed.state.id) == before
    assert [path.name for path in work.iterdir()] == ["log"]
    assert (work / "log/kube-apiserver.log").stat().st_size > 0


@pytest.mark.parametrize("known", [0, 1, 4, 9], ids=lambda count: f"{count}-components")
def test_a_bed_whose_program_was_killed_can_be_ended(tools: Tools, work: Path, known: int) -> None:
    """`up` is killed at different points. `down` finds all processes by the work folder."""
    before = traces("none")
    line = [sys.executable, "-m", "tests.e2e.bed", "up", "--work", str(work), *versions(tools)]
    with subprocess.Popen(line, cwd=ROOT, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as program:
        state = work / "state.json"
        while program.poll() is None:
            if state.exists() and len(json.loads(state.read_text())["components"]) >= known:
                break
            time.sleep(0.01)
        program.kill()
    bed = json.loads(state.read_text())["id"]
    command("down", work)
    assert traces(bed) == before
    assert [path.name for path in work.iterdir()] == ["log"]


def test_an_interrupted_up_takes_itself_down(tools: Tools, work: Path) -> None:
    """Ctrl-C during `up` ends all parts that have started."""
    before = traces("none")
    line = [sys.executable, "-m", "tests.e2e.bed", "up", "--work", str(work), *versions(tools)]
    # A shell starts background programs with SIGINT ignored, and child processes inherit that.
    line = ["env", "--default-signal=INT", *line]
    with subprocess.Popen(line, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        state = work / "state.json"
        while program.poll() is None and not (
            state.exists() and "containerd:node1" in json.loads(state.read_text())["components"]
        ):
            time.sleep(0.01)
        bed = json.loads(state.read_text())["id"]
        program.send_signal(signal.SIGINT)
        program.communicate(timeout=60)
    assert program.returncode == 1
    assert traces(bed) == before
    assert [path.name for path in work.iterdir()] == ["log"]


def versions(tools: Tools) -> list[str]:
    """Options that select the versions of the tools again."""
    kubernetes, containerd = (
        folder.name.split("-", 1)[1][: len("1.36")] for folder in (tools.kubernetes_bin, tools.containerd_bin)
    )
    line = next(key for key in ("1.7", "2") if containerd.startswith(key))
    assert f"kubernetes-{kubernetes}" in RECIPES
    return ["--kubernetes", kubernetes, "--containerd", line]
