"""Reaches the HTTP listeners of our scheduler and agents from a person's machine, with that person's own rights.

Requests go through the API server's proxy to pods (``pods/proxy``), so nothing but a kubeconfig is needed. A URL of the
scheduler's metrics listener may be given in its place.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import aiohttp

from hami_core.doctor import objects as k8s
from hami_core.doctor.install import Install, Part, find
from hami_core.documents import one_line
from hami_core.errors import HamiError
from hami_core.http.token import TOKEN_HEADER
from hami_core.kube.objects import Object
from hami_core.kube.port import ApiError, Resource
from hami_core.wire import keys

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from hami_core.kube.port import KubeApi

    Query = Mapping[str, str | Sequence[str]]

PAGE: Final = 500
"""Most objects in one list call."""
NODES_ASKED_ONE_BY_ONE: Final = 20
"""Pods of so many nodes are listed node by node; for more, all pods are listed."""
DIRECT_TIMEOUT_S: Final = 10.0
METRICS_PORTS: Final = ("metrics", "monitor")
"""Names of the port for metrics: the scheduler's and the agents'."""
OUR_PODS: Final = "hami.io/webhook=ignore"
"""Label that the chart gives to every pod of an installation."""


_NAME_NAMESPACE: Final = "name the namespace of the installation by --hami-namespace"


class _Named(Object, frozen=True, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""


class _NamedPod(Object, frozen=True, gc=False):
    metadata: _Named = _Named()


_POD_NAMES: Final = Resource("v1", "pods", _NamedPod, metadata_only=True)
"""Pods by their names alone. The rest of a pod is neither sent nor read, so it can't make the pod nameless."""


class ReachError(HamiError):
    """A scheduler or an agent could not be asked.

    Args:
        what: What could not be asked, such as ``scheduler pod hami-system/hami-scheduler-0``.
        problem: Why.
        fix: What to do; empty: the problem says it.
    """

    def __init__(self, what: str, problem: str, fix: str = "") -> None:
        super().__init__(f"{what}: {one_line(problem)}" + (f" ({fix})" if fix else ""))
        self.problem = problem


class Endpoint(Protocol):
    """An HTTP listener of one of our processes."""

    async def call(self, path: str, query: Query | None = None, body: bytes | None = None) -> bytes:
        """GET, or with a body POST. Returns the answer's body; raises `ReachError`."""
        ...


@dataclass(frozen=True)
class PodEndpoint:
    """The metrics listener of a pod, through the API server.

    Attributes:
        api: The API server.
        what: The pod in words, for errors.
        namespace: The pod's namespace.
        pod: Its name.
        node: The node that it runs on.
        port: The listener's port; 0: the container names none.
        token: The listener's token; empty: none.
    """

    api: KubeApi = field(repr=False)
    what: str
    namespace: str
    pod: str
    node: str
    port: int
    token: str = field(default="", repr=False)

    async def call(self, path: str, query: Query | None = None, body: bytes | None = None) -> bytes:
        """As in `Endpoint`."""
        if not self.port:
            raise ReachError(
                self.what, f"its container has no port named {' or '.join(METRICS_PORTS)}", "add it to the container"
            )
        headers = {TOKEN_HEADER: self.token} if self.token else {}
        try:
            return await self.api.call_pod(
                self.pod, self.namespace, self.port, path, query=query, body=body, headers=headers
            )
        except ApiError as error:
            raise _explained(
                self.what, error.status, error.problem, reason=error.reason, namespace=self.namespace
            ) from error


@dataclass(frozen=True)
class UrlEndpoint:
    """The scheduler's metrics listener at a URL, such as ``http://127.0.0.1:9395``."""

    url: str
    token: str = field(default="", repr=False)

    async def call(self, path: str, query: Query | None = None, body: bytes | None = None) -> bytes:
        """As in `Endpoint`."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        timeout = aiohttp.ClientTimeout(total=DIRECT_TIMEOUT_S)
        what = f"scheduler at {self.url}"
        try:
            async with (
                aiohttp.ClientSession(headers=headers, timeout=timeout) as session,
                session.request(
                    "GET" if body is None else "POST", self.url.rstrip("/") + path, params=query, data=body
                ) as answer,
            ):
                text = await answer.read()
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            problem = str(error) or type(error).__name__
            raise ReachError(what, problem, "check --scheduler-url") from error
        if answer.status >= 400:
            raise _explained(what, answer.status, text.decode("utf-8", "replace"))
        return text


def _explained(what: str, status: int, problem: str, *, reason: str = "", namespace: str = "") -> ReachError:
    """The error for a status. The API server's own errors have a reason, those of our processes have none."""
    if status == 401 and not reason:
        return ReachError(what, problem, "name a file with the metrics token by --token-file or HAMI_TOKEN_FILE")
    if status == 403 and namespace:
        right = f"the right to get and create pods/proxy in namespace {namespace}"
        fix = f"you need {right}: the chart's role hami-scheduler-view"
        return ReachError(what, problem, fix)
    if status == 404 and problem.startswith("no such path"):
        return ReachError(what, problem, "it is older than this program: upgrade it")
    if status in {400, 404} and not reason:
        return ReachError(what, problem)
    return ReachError(
        what, problem, "check the kubeconfig" if status == 401 else "see the pod's log, or run hami doctor"
    )


@dataclass(frozen=True)
class PodNames:
    """Names of pods, as far as the caller may list pods.

    Attributes:
        by_uid: UID → ``namespace/name``.
        limited: Why other pods are nameless; empty: all could be listed.
    """

    by_uid: Mapping[str, str]
    limited: str = ""

    def of(self, uid: str) -> str:
        """The pod's name, or words for a pod without one."""
        return self.by_uid.get(uid, "a pod you may not list" if self.limited else "a pod whose name is not known")


class Reach:
    """An installation, as far as the caller's rights reach.

    Args:
        api: The cluster.
        installed_in: Namespace of the scheduler and the agents; empty: any.
        own_namespace: Namespace whose pods the caller probably may list.
        token: Token of the metrics listeners; empty: none.
        scheduler_url: The scheduler's metrics listener, to be asked without the API server; empty: through it.
    """

    def __init__(
        self, api: KubeApi, *, installed_in: str = "", own_namespace: str = "", token: str = "", scheduler_url: str = ""
    ) -> None:
        self.api = api
        self._installed_in = installed_in
        self._own_namespace = own_namespace
        self._token = token
        self._scheduler_url = scheduler_url

    async def scheduler(self) -> Endpoint:
        """The scheduler's listener: that of the leader, else of any replica that is ready.

        Raises:
            ReachError: No scheduler is ready, our pods can't be listed, or more than one namespace has a scheduler.
        """
        if self._scheduler_url:
            return UrlEndpoint(self._scheduler_url, self._token)
        parts = await self._schedulers()
        ready = [part for part in parts if part.pod.is_ready]
        if not ready:
            names = ", ".join(sorted(part.pod.key for part in parts))
            raise ReachError("scheduler", f"none of its pods is ready: {names}", "run hami doctor")
        ready.sort(key=lambda part: (not _leads(part), part.pod.key))
        return self._endpoint(ready[0], "scheduler")

    async def agents(self) -> list[PodEndpoint]:
        """The listener of every agent beside the scheduler that runs, ready or not.

        Raises:
            ReachError: As for `scheduler`, but no scheduler has to be ready. Or only the scheduler's address is known.
        """
        if self._scheduler_url and not self._installed_in:
            raise ReachError("agents", "their namespace is not known", "name it by --hami-namespace")
        space = self._installed_in or (await self._schedulers())[0].namespace
        parts = [part for part in (await self._install()).agents if part.pod.spec.node_name and part.namespace == space]
        return [self._endpoint(part, "agent") for part in sorted(parts, key=lambda part: part.pod.key)]

    async def _schedulers(self) -> tuple[Part, ...]:
        """Pods of the scheduler, which are all in one namespace.

        Everybody may give a pod the looks of ours. So without a namespace only one may have such pods, and the token is
        sent only if the namespace is named.
        """
        parts = (await self._install()).schedulers
        spaces = sorted({part.namespace for part in parts})
        if not parts:
            where = f" in namespace {self._installed_in}" if self._installed_in else ""
            fix = "name its namespace by --hami-namespace, or its address by --scheduler-url"
            raise ReachError("scheduler", f"no pod of it was found{where}", fix)
        if len(spaces) > 1:
            raise ReachError("scheduler", f"namespaces {', '.join(spaces)} have pods of one", _NAME_NAMESPACE)
        if self._token and not self._installed_in:
            raise ReachError("scheduler", "the token is for its pods only", _NAME_NAMESPACE)
        return parts

    async def names(self, nodes: Collection[str] | None = None) -> PodNames:
        """Names of the pods on these nodes, as far as the caller may list them; None: on all nodes.

        Pods that are bound to no node are named as well, since the scheduler may hold places on these nodes for them.
        """
        if nodes is None or len(nodes) > NODES_ASKED_ONE_BY_ONE:
            selectors = [""]
        else:
            selectors = [f"spec.nodeName={node}" for node in (*nodes, "")] if nodes else []
        try:
            return PodNames(await self._names("", selectors))
        except ApiError as error:
            limited = one_line(error.problem)
        try:
            return PodNames(await self._names(self._own_namespace, selectors) if self._own_namespace else {}, limited)
        except ApiError:
            return PodNames({}, limited)

    async def _names(self, namespace: str, selectors: Sequence[str]) -> dict[str, str]:
        lists = await asyncio.gather(*(self._pods(namespace, selector) for selector in selectors))
        return {pod.uid: one_line(f"{pod.namespace}/{pod.name}") for pods in lists for pod in pods}

    async def _pods(self, namespace: str, selector: str) -> list[_Named]:
        found: list[_Named] = []
        token = ""
        while True:
            page = await self.api.list(
                _POD_NAMES, namespace=namespace, field_selector=selector, limit=PAGE, continue_token=token
            )
            found += [pod.metadata for pod in page.items]
            token = page.continue_token
            if not token:
                return found

    async def _install(self) -> Install:
        try:
            page = await self.api.list(k8s.PODS, namespace=self._installed_in, label_selector=OUR_PODS)
        except ApiError as error:
            if error.status != 403:
                raise ReachError("scheduler and agents", error.problem, "check the kubeconfig") from error
            fix = "name a namespace whose pods you may list by --hami-namespace"
            if self._installed_in:
                fix = "you need the right to list pods there: the chart's role hami-scheduler-view"
            raise ReachError("scheduler and agents", error.problem, fix) from error
        return find(page.items, self._installed_in)

    def _endpoint(self, part: Part, word: str) -> PodEndpoint:
        meta = part.pod.metadata
        port = next((port.container_port for port in part.container.ports if port.name in METRICS_PORTS), 0)
        node = part.pod.spec.node_name
        return PodEndpoint(self.api, f"{word} pod {part.pod.key}", meta.namespace, meta.name, node, port, self._token)


def _leads(part: Part) -> bool:
    return part.pod.metadata.labels.get(keys.SCHEDULER_ROLE_LABEL) == keys.ROLE_LEADER
