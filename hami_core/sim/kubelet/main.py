"""The kubelet's process: it keeps the node object, admits pods one at a time and serves logs and exec."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import random
import shutil
from pathlib import Path

from aiohttp import web

from hami_core.sim import process
from hami_core.sim.calls import refuse_web_pages
from hami_core.sim.client import CallError, Client
from hami_core.sim.kubelet import containers, execute
from hami_core.sim.kubelet.devices import DeviceError, DeviceManager
from hami_core.sim.kubelet.podresources import PodResources
from hami_core.sim.kubelet.pods import Node, PodWorker, Times
from hami_core.sim.resources import Object, now, now_micro

_LOG = logging.getLogger(__name__)
_BASE = {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "250"}
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


class Kubelet:
    """One node.

    Args:
        given: Command line.
        client: The API.
    """

    def __init__(self, given: argparse.Namespace, client: Client) -> None:
        self._given = given
        self._name: str = given.name
        self._client = client
        self._changed = asyncio.Event()
        rng = random.Random(given.seed)  # noqa: S311 - an order, no secret
        root: Path = given.root
        self._devices = DeviceManager(root / "device-plugins", self._active_uids, self._changed.set, rng)
        self._resources = PodResources(self._devices, self._active_pods)
        self._workers: dict[str, PodWorker] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._known: dict[str, Object] = {}
        self._queue: dict[str, Object] = {}
        self._arrived = asyncio.Event()
        self._node: Node
        self._port = 0
        self._web: web.AppRunner

    async def start(self) -> str:
        """Serves sockets and logs, and starts the background tasks. Returns the URL of the log endpoint."""
        root: Path = self._given.root
        for name in ("cdi", "pods", "proc/sys/kernel/random"):
            (root / name).mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            (root / "proc/sys/kernel/random/boot_id").symlink_to("/proc/sys/kernel/random/boot_id")
        why = (self._given.reduced and "asked for") or await containers.probe(root / "probe")
        if why:
            _LOG.warning("reduced mode: containers get no mount namespace: %s", why)
        env = dict(e.split("=", 1) for e in self._given.image_env)
        mode = "reduced" if why else "namespace"
        runtime = containers.Runtime(
            pods=root / "pods",
            cdi=root / "cdi",
            mode=mode,
            image_env=env,
            shared=tuple(self._given.shared),
            serves_cdi=not self._given.no_cdi,
            proc=root / "proc",
        )
        times = Times(self._given.resync_seconds, self._given.crash_seconds)
        self._node = Node(self._client, self._devices, runtime, times)
        await self._devices.start()
        await self._resources.start(root / "pod-resources" / "kubelet.sock")
        self._web = web.AppRunner(self._logs_app(), access_log=None, shutdown_timeout=0.2)
        await self._web.setup()
        await web.TCPSite(self._web, "127.0.0.1", 0).start()
        self._port = self._web.addresses[0][1]
        await self._register()
        query = f"fieldSelector=spec.nodeName%3D{self._name}"
        for name, work in (
            ("pods", self._client.follow("/api/v1/pods", query, self._pod_changed)),
            ("admission", self._admission()),
            ("node", self._node_loop()),
            ("lease", self._lease_loop()),
        ):
            self._tasks[name] = asyncio.create_task(work)
        return f"http://127.0.0.1:{self._port}"

    async def stop(self, orphaned: bool) -> None:
        """Stops the kubelet. Containers go on, unless ``orphaned``: then no process is left to end them."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self._resources.stop()
        await self._devices.stop()
        await self._web.cleanup()
        await self._client.close()
        if orphaned:
            await containers.end_all(self._given.root / "pods")

    # ---- pods

    def _active_pods(self) -> list[Object]:
        return [w.pod for w in self._workers.values() if not w.finished and not w.gone]

    def _active_uids(self) -> set[str]:
        """UIDs of pods that keep their devices: pods that have not ended, and pods that wait for admission."""
        return {pod["metadata"]["uid"] for pod in self._active_pods()} | self._queue.keys()

    def _pod_changed(self, kind: str, pod: Object) -> None:
        if kind == "SYNCED":
            self._tasks["orphans"] = asyncio.create_task(self._end_orphans())
            return
        uid = pod["metadata"]["uid"]
        worker = self._workers.get(uid)
        self._known[uid] = pod
        if kind == "DELETED":
            self._queue.pop(uid, None)
            del self._known[uid]
            if worker:
                worker.end()
            else:
                shutil.rmtree(self._given.root / "pods" / uid, ignore_errors=True)
        elif worker:
            worker.update(pod)
        elif (pod.get("status") or {}).get("phase") not in {"Succeeded", "Failed"} or pod["metadata"].get(
            "deletionTimestamp"
        ):
            self._queue[uid] = pod
            self._arrived.set()

    async def _end_orphans(self) -> None:
        """Ends containers of pods that were deleted while the kubelet did not run."""
        for folder in (self._given.root / "pods").iterdir():
            if folder.name not in self._known and folder.name not in self._workers:
                await containers.end_all(folder.parent, folder.name)
                shutil.rmtree(folder, ignore_errors=True)

    async def _admission(self) -> None:
        """Admits pods one after the other, oldest first. After a restart it first waits a limited time for plugins."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._given.settle_seconds):
                while self._devices.absent():  # noqa: ASYNC110 - for a moment after a restart
                    await asyncio.sleep(0.05)
        while True:
            while self._queue:
                uid, pod = min(self._queue.items(), key=lambda i: (i[1]["metadata"]["creationTimestamp"], i[0]))
                del self._queue[uid]
                worker = PodWorker(pod, self._node)
                self._workers[uid] = worker
                if not pod["metadata"].get("deletionTimestamp"):
                    await self._admit(worker)
                task = asyncio.create_task(worker.run())
                self._tasks[uid] = task
                task.add_done_callback(lambda done, u=uid: self._worker_done(u, done))  # type: ignore[misc]
            self._arrived.clear()
            await self._arrived.wait()

    def _worker_done(self, uid: str, task: asyncio.Task[None]) -> None:
        self._workers.pop(uid, None)
        self._tasks.pop(uid, None)
        if not task.cancelled() and task.exception():
            _LOG.error("worker of pod %s failed", uid, exc_info=task.exception())

    async def _admit(self, worker: PodWorker) -> None:
        """Gives every container its devices, or ends the pod."""
        pod, reason = worker.pod, ("", "")
        try:
            for container in [*(pod["spec"].get("initContainers") or []), *pod["spec"]["containers"]]:
                if not reason[0]:
                    await self._devices.allocate(pod, container, running=worker.running(container["name"]))
        except DeviceError as error:
            text = f"Allocate failed due to {error}, which is unexpected"
            await self._client.event("kubelet", pod, "Warning", "UnexpectedAdmissionError", text)
            reason = ("UnexpectedAdmissionError", f"Pod was rejected: {text}")
        if reason[0]:
            worker.rejected, worker.phase = reason, "Failed"

    # ---- the node object

    async def _register(self) -> None:
        labels = {"kubernetes.io/hostname": self._name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
        node = {"metadata": {"name": self._name, "labels": labels}, "spec": {}, "status": self._status()}
        while True:
            try:
                await self._client.call("POST", "/api/v1/nodes", node)
            except CallError as failure:
                if failure.code != 409:
                    _LOG.info("node not registered yet: %s", failure)
                    await asyncio.sleep(0.3)
                    continue
            return

    def _status(self) -> Object:
        devices = self._devices.capacity()
        ready = {
            "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status",
            "lastHeartbeatTime": now(), "lastTransitionTime": now(),
        }  # fmt: skip
        return {
            "capacity": {**_BASE, **{k: str(v[0]) for k, v in devices.items()}},
            "allocatable": {**_BASE, **{k: str(v[1]) for k, v in devices.items()}},
            "conditions": [ready],
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": self._name}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._port}},
            "nodeInfo": {
                "kubeletVersion": "v1.36.3",
                "osImage": "simulated",
                "containerRuntimeVersion": f"sim://{self._node.runtime.mode}",
            },
        }

    async def _node_loop(self) -> None:
        """Writes the node's status ``status_seconds`` after each change. A real kubelet checks every ten seconds."""
        while True:
            try:
                path = f"/api/v1/nodes/{self._name}/status"
                await self._client.call("PATCH", path, {"status": self._status()}, patch="strategic-merge")
            except CallError as failure:
                _LOG.info("node status not written: %s", failure)
                if failure.code == 404:
                    await self._register()
                await asyncio.sleep(0.5)
                continue
            await self._changed.wait()
            await asyncio.sleep(self._given.status_seconds)
            self._changed.clear()

    async def _lease_loop(self) -> None:
        spec = {"holderIdentity": self._name, "leaseDurationSeconds": 40}
        while True:
            body = {"spec": {**spec, "renewTime": now_micro()}}
            try:
                await self._client.call("PATCH", f"{_LEASES}/{self._name}", body, patch="merge")
            except CallError as failure:
                if failure.code == 404:
                    with_name = {"metadata": {"name": self._name}, **body}
                    await asyncio.gather(self._client.call("POST", _LEASES, with_name), return_exceptions=True)
            await asyncio.sleep(10)

    # ---- logs

    def _logs_app(self) -> web.Application:
        app = web.Application(middlewares=[refuse_web_pages])
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._logs)
        app.router.add_get("/exec/{namespace}/{pod}/{container}", self._exec)
        return app

    def _attempts(self, request: web.Request) -> list[containers.Container]:
        """All attempts at the container that a request names, oldest first."""
        names = request.match_info
        for uid, pod in self._known.items():
            meta = pod["metadata"]
            if (meta["namespace"], meta["name"]) == (names["namespace"], names["pod"]):
                return containers.attempts(self._given.root / "pods", uid, names["container"])
        return []

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        names, known = request.match_info, self._attempts(request)
        if known and known[-1].state and not known[-1].exit:
            return await execute.serve(request, known[-1])
        text = f"container {names['container']!r} in pod {names['pod']!r} is not running"
        return web.Response(status=400, text=text)

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        names, known = request.match_info, self._attempts(request)
        known = known[:-1] if request.query.get("previous") == "true" else known
        if known and (known[-1].folder / "log").exists():
            return await self._send_log(request, known[-1])
        text = f"container {names['container']!r} in pod {names['pod']!r} is waiting to start"
        return web.Response(status=400, text=text)

    async def _send_log(self, request: web.Request, container: containers.Container) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        tail, follow = request.query.get("tailLines"), request.query.get("follow") == "true"
        with (container.folder / "log").open("rb") as log:
            content = log.read()
            if tail is not None:
                lines = content.splitlines(keepends=True)
                content = b"".join(lines[len(lines) - min(int(tail), len(lines)) :])
            over = not follow
            while True:
                if content:  # an empty chunk would end the body
                    await response.write(content)
                if over:
                    break
                await asyncio.sleep(0.1)
                over = container.exit is not None
                content = log.read()
        return response


def main(argv: list[str]) -> None:
    """Runs one node until told to stop."""
    parser = argparse.ArgumentParser(prog="python -m hami_core.sim kubelet", description="One node.")
    parser.add_argument("--name", required=True, help="the node's name")
    parser.add_argument("--server", required=True, help="URL of the API server")
    parser.add_argument("--root", type=Path, required=True, help="folder for device-plugins, cdi, pod-resources, pods")
    parser.add_argument(
        "--image-env", action="append", default=[], metavar="NAME=VALUE", help="environment of every image"
    )
    parser.add_argument(
        "--shared", action="append", default=[], metavar="PATH", help="host path that every container shares"
    )
    parser.add_argument("--seed", type=int, default=None, help="seed of the random order of device ids")
    parser.add_argument("--resync-seconds", type=float, default=12.0, help="time until a refused start is tried again")
    parser.add_argument("--crash-seconds", type=float, default=10.0, help="first back-off of a crash loop")
    parser.add_argument("--settle-seconds", type=float, default=3.0, help="time for plugins to return after a restart")
    parser.add_argument("--status-seconds", type=float, default=0.0, help="time until a change of devices is published")
    parser.add_argument("--reduced", action="store_true", help="use no mount namespaces, even if they are possible")
    parser.add_argument("--no-cdi", action="store_true", help="drop CDI names, as runtimes do with CDI switched off")
    given = parser.parse_args(argv)
    given.root = given.root.resolve()

    async def start() -> tuple[str, process.End]:
        kubelet = Kubelet(given, Client(given.server, f"kubelet-{given.name}"))
        return await kubelet.start(), kubelet.stop

    process.run(start, f"kubelet:{given.name}")
