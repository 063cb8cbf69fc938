"""The whole system on the bed: real Kubernetes, our images, and our chart installed by Helm."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tests.e2e import slices
from tests.e2e.bed import images
from tests.e2e.bed.bed import Bed, Node
from tests.e2e.bed.errors import ApiRefused
from tests.e2e.values import values

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from tests.e2e.bed.tools import Tools

CHART = Path(__file__).parents[2] / "contrib" / "helm" / "hami"
NAMESPACE = "hami-system"
RELEASE = "hami"
PODS = "/api/v1/namespaces/default/pods"


class System:
    """A bed with the chart installed, as a context manager.

    ``vendors`` are wheels of other vendors. The scheduler's image and the image agent-vendor contain them.

    Attributes:
        bed: The cluster.
        gpu_nodes: Names of the nodes with GPUs.
    """

    def __init__(
        self,
        work: Path,
        tools: Tools,
        nodes: Sequence[Node] = (Node("node1", "a100x2"), Node("node2", "a100x2")),
        *,
        bed: dict[str, Any] | None = None,
        vendors: Sequence[Path] = (),
        **chart: Any,
    ) -> None:
        self.work = work
        self.tools = tools
        names = ["scheduler", "agent-nvidia", "kube-scheduler", "client", "client-static", "client-musl"]
        names += ["agent-vendor"] if vendors else []
        self.bed = Bed(work, tools, nodes, images=images.ensure(tools, names, vendors=vendors), **(bed or {}))
        self.gpu_nodes = [node.name for node in nodes if node.gpus]
        self.chart = chart

    @classmethod
    def attach(cls, work: Path) -> Self:
        """The system of a running bed with the chart installed, for experiments."""
        system = cls.__new__(cls)
        system.bed = Bed.open(work)
        system.work, system.tools, system.chart = work, system.bed.tools, {}
        listing = system.bed.call("GET", "/api/v1/nodes?labelSelector=gpu")["items"]
        system.gpu_nodes = [node["metadata"]["name"] for node in listing]
        return system

    def __enter__(self) -> Self:
        self.bed.up()
        try:
            for node in self.gpu_nodes:
                self.bed.kubectl("label", "node", node, "gpu=on", "--overwrite")
            self.install()
        except BaseException:
            self.bed.down()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del kind, error, trace
        self.bed.down()

    # --- the chart -----------------------------------------------------------------------------------------------

    def install(self, **more: Any) -> None:
        """Install or upgrade the chart with the bed's values and `more`, and wait until it serves."""
        file = self.work / "values.json"
        file.write_text(json.dumps(values(self.tools.kubernetes, **(self.chart | more)), indent=1))
        self.bed.helm(
            "upgrade", "--install", RELEASE, str(CHART), "-n", NAMESPACE, "--create-namespace", "-f", str(file),
            "--wait", "--timeout", "120s",
        )  # fmt: skip
        self.ready()

    def ready(self, timeout: float = 90) -> None:
        """Wait until every GPU node offers its slots and has a register, and the webhook answers."""
        self.bed.wait("GPU nodes offer their slots", lambda: not self.waiting_nodes(), timeout)
        self.bed.wait("the webhook admits pods", self.webhook_answers, timeout)

    def waiting_nodes(self) -> list[str]:
        """GPU nodes that lack slots or a register, or whose agent is not registered with the kubelet."""
        listing = self.bed.call("GET", "/api/v1/nodes")["items"]
        ready = {
            node["metadata"]["name"]
            for node in listing
            if int(node["status"].get("allocatable", {}).get(slices.RESOURCE, 0))
            and "hami.io/node-nvidia-register" in node["metadata"].get("annotations", {})
            and node["metadata"].get("labels", {}).get("hami.io/agent-nvidia") == "ready"
        }
        return [node for node in self.gpu_nodes if node not in ready]

    def webhook_answers(self) -> bool:
        """Whether the webhook sets our schedulerName in a dry run of a pod."""
        from tests.e2e.pods import pod

        answer = self.bed.call("POST", f"{PODS}?dryRun=All", pod("webhook-probe"))
        return bool(answer["spec"]["schedulerName"] == "hami-scheduler")

    # --- pods ----------------------------------------------------------------------------------------------------

    def submit(self, *pods: dict[str, Any]) -> None:
        """Create pods in the namespace default."""
        for pod in pods:
            self.bed.call("POST", PODS, pod)

    def pod(self, name: str) -> dict[str, Any]:
        """The current object of a pod of the namespace default."""
        return dict(self.bed.call("GET", f"{PODS}/{name}"))

    def pods(self, selector: str = "test=e2e") -> dict[str, dict[str, Any]]:
        """Pods of the namespace default by name."""
        items = self.bed.call("GET", f"{PODS}?labelSelector={selector}")["items"]
        return {item["metadata"]["name"]: item for item in items}

    def phase(self, name: str, *phases: str, timeout: float = 60) -> dict[str, Any]:
        """Wait until a pod is in one of these phases. Returns the pod."""

        def look() -> dict[str, Any] | None:
            pod = self.pod(name)
            return pod if pod["status"].get("phase") in phases else None

        return dict(self.bed.wait(f"pod {name} {' or '.join(phases)}", look, timeout))

    def running(self, *names: str, timeout: float = 60) -> list[dict[str, Any]]:
        """Wait until these pods are ready. Returns the pods."""

        def look() -> list[dict[str, Any]] | None:
            now = self.pods("")
            found = [now[name] for name in names if name in now and _ready(now[name])]
            return found if len(found) == len(names) else None

        return list(self.bed.wait(f"pods running: {', '.join(names)}", look, timeout))

    def log(self, name: str, container: str = "main") -> str:
        """Output of a container."""
        return str(self.bed.call("GET", f"{PODS}/{name}/log?container={container}"))

    def delete(self, *names: str, timeout: float = 60) -> None:
        """Delete pods at once and wait until they are gone."""
        for name in names:
            with contextlib.suppress(ApiRefused):  # gone already
                self.bed.call("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})
        self.bed.wait("pods gone", lambda: not set(names) & set(self.pods("")), timeout)

    def problems(self, *names: str, seen: bool = True) -> list[str]:
        """All places where one of these running pods has another slice than booked."""
        now = self.pods("")
        return slices.problems(self.bed, *(now[name] for name in names), seen=seen)

    def clean(self) -> None:
        """Delete all objects that a test may have created in the namespace default."""
        kinds = "deployments,statefulsets,daemonsets,jobs,pods,resourcequotas,poddisruptionbudgets"
        self.bed.kubectl("delete", kinds, "--all", "-n", "default", "--grace-period=0", "--force", "--wait=false")
        self.bed.wait("the namespace default is empty", lambda: not self.pods(""), 90)

    # --- ours ----------------------------------------------------------------------------------------------------

    def ours(self, component: str) -> list[dict[str, Any]]:
        """Our own pods: ``hami-scheduler`` or ``hami-device-plugin``."""
        path = f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app.kubernetes.io/component={component}"
        return list(self.bed.call("GET", path)["items"])


def _ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
