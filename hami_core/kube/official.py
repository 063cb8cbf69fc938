"""Our Protocol on top of the official Kubernetes client: its configuration, authentication and TLS, but raw bodies.

``kubernetes.aio`` reads the kubeconfig or the pod's service account and refreshes tokens. Requests go through one
aiohttp session with these settings. The client's own transport decodes every body into models, and has no deadline for
a read. Here msgspec decodes the bodies into `hami_core.kube.objects`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import random
import socket
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib import request
from urllib.parse import urlsplit

import aiohttp
import msgspec
import structlog

from hami_core.documents import kind_of, load_mapping, one_line, read_text
from hami_core.errors import ConfigError
from hami_core.kube.decode import decode, decoder, page, watch_event
from hami_core.kube.objects import Binding, Status
from hami_core.kube.port import PODS, ApiError, NotSentError, Page, Resource, WatchEvent
from hami_core.kube.throttle import Throttle

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence

    from aiohttp.abc import AbstractStreamWriter

    from hami_core.kube.patch import Patch

log = structlog.get_logger(__name__)

T = TypeVar("T")

REQUEST_TIMEOUT_S: Final = 10.0
"""Default deadline of a call; a list gets three times as much."""
MAX_WATCH_LINE_BYTES: Final = 16 * 2**20
"""Longest event of a watch (an object in etcd has at most 1.5 MiB)."""
_METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
_SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_NAME_A_KUBECONFIG: Final = "set KUBECONFIG or --kubeconfig to a readable kubeconfig file"
_encode: Final = msgspec.json.Encoder().encode


class _Guarded(aiohttp.BytesPayload):
    """A body that calls ``may_send`` right before it is written; aiohttp sends the headers together with it."""

    def __init__(self, body: bytes, may_send: Callable[[], bool] | None) -> None:
        super().__init__(body, content_type="application/json")
        self._may_send = may_send
        self.refused = False

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        if self._may_send is not None and not self._may_send():
            self.refused = True
            raise TimeoutError("too late")
        await super().write_with_length(writer, content_length)


class OfficialKubeApi:
    """`hami_core.kube.port.KubeApi` over HTTP. Make one with `connect`."""

    def __init__(
        self,
        configuration: Any,  # noqa: ANN401 - untyped library
        session: aiohttp.ClientSession,
        refresher: asyncio.Task[None] | None = None,
        *,
        timeout_s: float | None = None,
        throttle: Throttle | None = None,
    ) -> None:
        self._configuration = configuration
        self._session = session
        self._base = str(configuration.host).rstrip("/")
        self._refresher = refresher
        self._timeout_s = timeout_s or REQUEST_TIMEOUT_S
        self._throttle = throttle

    async def list(
        self,
        resource: Resource[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
    ) -> Page[T]:
        """One page. Objects that can't be decoded are logged, and returned as ``undecodable``."""
        query = _query(
            labelSelector=label_selector,
            fieldSelector=field_selector,
            limit=str(limit) if limit else "",
            resourceVersion=resource_version,
            **{"continue": continue_token},
        )
        path = resource.path(namespace=namespace)
        headers = {"Accept": _METADATA_LIST} if resource.metadata_only else None
        body = await self._call("list", "GET", path, query=query, headers=headers, patience=3)
        return page(resource, body)

    async def watch(
        self,
        resource: Resource[T],
        *,
        resource_version: str,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_s: int = 300,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Changes after ``resource_version``. The caller must close the generator or read it to its end."""
        query = _query(
            watch="1",
            allowWatchBookmarks="true",
            resourceVersion=resource_version,
            timeoutSeconds=str(timeout_s),
            labelSelector=label_selector,
            fieldSelector=field_selector,
        )
        path = resource.path(namespace=namespace)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=REQUEST_TIMEOUT_S, sock_read=timeout_s + 15)
        verb = f"watch {path}"
        async with self._request(verb, "GET", path, query=query, limits=timeout) as response:
            await _raise_for_status(verb, response)
            with _transport_errors(verb):
                async for line in _lines(response.content, verb):
                    event = watch_event(resource, line, verb)
                    if event is not None:
                        yield event

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """One object."""
        body = await self._call("get", "GET", resource.path(name, namespace))
        decoded: T = decode(resource.type, body, f"get {resource.plural} {name}")
        return decoded

    async def create(self, resource: Resource[T], body: object, namespace: str = "", *, dry_run: bool = False) -> T:
        """A new object."""
        path, query = resource.path(namespace=namespace), {"dryRun": "All"} if dry_run else None
        answer = await self._call("create", "POST", path, query=query, body=_encode(body))
        decoded: T = decode(resource.type, answer, f"create {resource.plural}")
        return decoded

    async def patch(
        self, resource: Resource[T], name: str, patch: Patch, namespace: str = "", *, subresource: str = ""
    ) -> T:
        """Change an object."""
        path = resource.path(name, namespace, subresource)
        answer = await self._call("patch", "PATCH", path, body=_encode(patch.body), content_type=patch.content_type)
        decoded: T = decode(resource.type, answer, f"patch {resource.plural} {name}")
        return decoded

    async def delete(
        self,
        resource: Resource[T],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace_period_s: int | None = None,
    ) -> None:
        """Delete an object."""
        options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace_period_s is not None:
            options["gracePeriodSeconds"] = grace_period_s
        await self._call("delete", "DELETE", resource.path(name, namespace), body=_encode(options))

    async def bind(self, binding: Binding, may_send: Callable[[], bool] | None = None) -> None:
        """POST ``pods/binding``, if ``may_send`` returns true right before the bytes leave.

        A process may be paused at any point, and continue when another replica has bound pods in its place. An earlier
        check could be out of date by then.
        """
        meta = binding.metadata
        path = PODS.path(meta.name, meta.namespace, "binding")
        # The encoder leaves out default values, but the API server requires these two.
        body = {**msgspec.to_builtins(binding), "apiVersion": "v1", "kind": "Binding"}
        guarded = _Guarded(_encode(body), may_send)
        try:
            await self._call("bind", "POST", path, body=guarded)
        except ApiError as error:
            if guarded.refused:
                raise NotSentError(f"bind {path}", 0, "not sent: it was too late", reason="TooLate") from error
            raise

    async def call_pod(
        self,
        pod: str,
        namespace: str,
        port: int,
        path: str,
        *,
        query: Mapping[str, str | Sequence[str]] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """GET or POST by ``pods/proxy``."""
        whole = f"{PODS.path(f'http:{pod}:{port}', namespace, 'proxy')}/{path.lstrip('/')}"
        method = "GET" if body is None else "POST"
        return await self._call("call", method, whole, query=query, body=body, headers=headers)

    async def server_version(self) -> Mapping[str, str]:
        """``/version``."""
        body = await self._call("get", "GET", "/version")
        answer = decode(dict[str, Any], body, "get /version")
        return {key: str(value) for key, value in answer.items() if isinstance(value, str)}

    async def close(self) -> None:
        """Close all connections; pending calls fail."""
        if self._refresher is not None:
            self._refresher.cancel()
            await asyncio.gather(self._refresher, return_exceptions=True)
        await self._session.close()

    async def _call(
        self,
        action: str,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | Sequence[str]] | None = None,
        body: bytes | _Guarded | None = None,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
        patience: float = 1.0,
    ) -> bytes:
        verb = f"{action} {path}"
        timeout = aiohttp.ClientTimeout(total=self._timeout_s * patience)
        if self._throttle is not None and action != "bind":
            await self._throttle.wait()
        async with self._request(
            verb, method, path, query=query, body=body, content_type=content_type, headers=headers, limits=timeout
        ) as response:
            await _raise_for_status(verb, response)
            with _transport_errors(verb):
                return await response.read()

    @asynccontextmanager
    async def _request(
        self,
        verb: str,
        method: str,
        path: str,
        *,
        limits: aiohttp.ClientTimeout,
        query: Mapping[str, str | Sequence[str]] | None = None,
        body: bytes | _Guarded | None = None,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        sent = {"Accept": "application/json", **(headers or {})}
        if body is not None:
            sent["Content-Type"] = content_type
        with _transport_errors(verb):
            sent.update(await self._authorization())
            response = await self._session.request(
                method,
                self._base + path,
                params=query,
                data=body,
                headers=sent,
                timeout=limits,
                server_hostname=self._configuration.tls_server_name or None,
            )
        try:
            yield response
        finally:
            response.close() if not response.content.at_eof() else response.release()

    async def _authorization(self) -> dict[str, str]:
        """The current bearer token (the library re-reads a rotated one); empty if certificates are used."""
        settings = await self._configuration.auth_settings()
        return {entry["key"]: entry["value"] for entry in settings.values() if entry["value"]}


async def connect(
    kubeconfig: Path | str | None = None,
    *,
    context: str | None = None,
    user_agent: str = "hami",
    connections: int = 64,
    timeout_s: float | None = None,
    qps: float = 0.0,
    burst: int = 1,
) -> OfficialKubeApi:
    """Connect as ``kubectl`` would.

    Args:
        kubeconfig: The file; None: ``$KUBECONFIG``, else the pod's service account, else ``~/.kube/config``.
        context: Context of the file; None: its current one.
        user_agent: Name in the API server's audit log.
        connections: Most connections at once.
        timeout_s: Deadline of a call; watches have none. None: `REQUEST_TIMEOUT_S`.
        qps: Most requests per second; 0: no limit. Watches and Bindings are never delayed.
        burst: Most requests at once, before ``qps`` limits them.

    Raises:
        ConfigError: There is no usable configuration.
    """
    from kubernetes.aio import client, config  # noqa: PLC0415 - importing it takes a second

    configuration = client.Configuration()
    source = _configuration_source(kubeconfig)
    refresher = None
    try:  # the library's configuration has no types
        if source is None:
            config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        else:
            _check_kubeconfig(source)
            loader = await config.load_kube_config(  # type: ignore[no-untyped-call]
                config_file=str(source), context=context, client_configuration=configuration, persist_config=False
            )
            refreshing = config.refresh_token(loader, configuration)  # type: ignore[no-untyped-call]
            refresher = asyncio.create_task(refreshing, name="kube-token")
        tls = client.rest.RESTClientObject(configuration).ssl_context
    except ConfigError:
        raise
    except Exception as error:  # the library raises many kinds of errors for a malformed file
        if refresher is not None:
            refresher.cancel()
        where = str(source) if source is not None else "service account"
        said = one_line(error) or type(error).__name__
        raise ConfigError(where, f"no usable Kubernetes configuration: {said}", _NAME_A_KUBECONFIG) from error
    connector = aiohttp.TCPConnector(limit=connections, ssl=tls, socket_factory=_socket)
    session = aiohttp.ClientSession(
        connector=connector,
        headers={"User-Agent": user_agent},
        proxy=configuration.proxy or _proxy_of_environment(str(configuration.host)),
        read_bufsize=2**20,
    )
    throttle = Throttle(qps, burst) if qps else None
    return OfficialKubeApi(configuration, session, refresher, timeout_s=timeout_s, throttle=throttle)


def own_namespace(kubeconfig: Path | str | None = None, context: str | None = None) -> str:
    """The namespace that kubectl would use: the context's, or the service account's; ``default`` if neither names one.

    Args:
        kubeconfig: As in `connect`.
        context: As in `connect`.

    Raises:
        ConfigError: The kubeconfig can't be read.
    """
    source = _configuration_source(kubeconfig)
    if source is None:
        try:
            return (_SERVICE_ACCOUNT / "namespace").read_text().strip() or "default"
        except OSError:
            return "default"
    _check_kubeconfig(source)
    content = load_mapping(read_text(source), str(source))
    wanted = context or content.get("current-context")
    entries = (entry for entry in content["contexts"] if isinstance(entry, dict) and entry.get("name") == wanted)
    found = next((entry.get("context") for entry in entries), None)
    return str(found.get("namespace") or "default") if isinstance(found, dict) else "default"


def _check_kubeconfig(file: Path) -> None:
    """Check what the library's own errors would name without file, line or key.

    Raises:
        ConfigError: The file can't be read, or is no kubeconfig.
    """
    try:
        content = load_mapping(read_text(file), str(file))
    except ConfigError as error:
        raise ConfigError(error.where, error.problem, _NAME_A_KUBECONFIG) from error
    for key in ("clusters", "contexts", "users"):
        value = content.get(key)
        if not isinstance(value, list) and not (value is None and key == "users"):
            problem = "is missing" if value is None else f"is a {kind_of(value)}, expected a list"
            raise ConfigError(f"{file}: {key}", f"{problem}, so this is no kubeconfig", _NAME_A_KUBECONFIG)


def _configuration_source(kubeconfig: Path | str | None) -> Path | None:
    """The kubeconfig file to read, or None for the pod's service account."""
    named = str(kubeconfig or os.environ.get("KUBECONFIG", ""))
    if named:
        return Path(named).expanduser()
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return None
    return Path.home() / ".kube" / "config"


def _proxy_of_environment(url: str) -> str | None:
    """The proxy for a URL from ``HTTPS_PROXY`` and similar variables; None if ``NO_PROXY`` excludes the URL.

    It is looked up once, while aiohttp's ``trust_env`` would look it up in a thread before every request, and netrc
    too. As in Go's clients, ``NO_PROXY`` may hold networks (``10.96.0.0/12``); Python's standard library ignores these.
    """
    parts = urlsplit(url)
    proxies = request.getproxies()
    if request.proxy_bypass(parts.netloc) or _in_networks(parts.hostname or "", proxies.get("no", "")):
        return None
    return proxies.get(parts.scheme) or proxies.get("all")


def _in_networks(host: str, entries: str) -> bool:
    for entry in entries.split(","):
        with suppress(ValueError):  # the entry or the host is a name
            if ipaddress.ip_address(host) in ipaddress.ip_network(entry.strip(), strict=False):
                return True
    return False


def _socket(address: tuple[Any, ...]) -> socket.socket:
    """A socket with TCP keep-alive: a dead peer is noticed in 30 s, else a watch could wait on it for minutes."""
    family, kind, proto, _, _ = address
    made = socket.socket(family, kind, proto)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    return made


def _query(**values: str) -> dict[str, str]:
    return {key: value for key, value in values.items() if value}


class _transport_errors:  # noqa: N801 - used as a with-statement only
    """Turns errors of the transport into `ApiError` with status 0."""

    def __init__(self, verb: str) -> None:
        self._verb = verb

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, TimeoutError):
            raise ApiError(self._verb, 0, "timed out", reason="Timeout") from error
        if isinstance(error, (aiohttp.ClientError, OSError)):
            raise ApiError(self._verb, 0, str(error) or type(error).__name__, reason="Unreachable") from error


async def _raise_for_status(verb: str, response: aiohttp.ClientResponse) -> None:
    if response.status < 400:
        return
    with _transport_errors(verb):
        body = await response.read()
    try:
        status = decoder(Status).decode(body)
    except msgspec.MsgspecError:
        status = Status(message=body[:512].decode("utf-8", "replace").strip())
    problem = status.message or response.reason or "refused"
    retry_after = _seconds(response.headers.get("Retry-After", ""))
    raise ApiError(verb, response.status, problem, reason=status.reason, retry_after_s=retry_after)


def _seconds(text: str) -> float:
    """Parse Retry-After into seconds, at most 60. For its date form, return 0.5 s to 1.5 s at random."""
    if not text:
        return 0.0
    return min(float(text), 60.0) if text.isdigit() else random.uniform(0.5, 1.5)  # noqa: S311 - jitter


async def _lines(content: aiohttp.StreamReader, verb: str) -> AsyncIterator[bytes]:
    """Lines of a watch stream. aiohttp's own line reader refuses long lines."""
    buffer = bytearray()
    async for chunk in content.iter_any():
        buffer += chunk
        if b"\n" in chunk:
            *lines, rest = bytes(buffer).split(b"\n")
            buffer = bytearray(rest)
            for line in lines:
                if line.strip():
                    yield line
        if len(buffer) > MAX_WATCH_LINE_BYTES:
            raise ApiError(verb, 0, f"an event is longer than {MAX_WATCH_LINE_BYTES} bytes", reason="TooLarge")
