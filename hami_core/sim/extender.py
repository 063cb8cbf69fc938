"""kube-scheduler's side of the extender protocol, v1: filter, prioritize, bind over HTTP(S)."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import aiohttp
import orjson

from hami_core.errors import WireError
from hami_core.wire import extender as wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from hami_core.sim.resources import Object

T = TypeVar("T")

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class ExtenderError(Exception):
    """The extender could not be asked, or answered with an error."""


def seconds(text: object, default: float) -> float:
    """A Go duration such as ``5s`` or ``1m30s``; a bare number counts as seconds."""
    if text is None:
        return default
    if isinstance(text, int | float):
        return float(text)
    found = _DURATION.findall(str(text))
    if "".join(n + u for n, u in found) != str(text):
        raise ValueError(f"{text!r} is not a duration such as 5s or 1m30s")
    return float(sum(float(number) * _UNITS[unit] for number, unit in found))


@dataclass(slots=True)
class Filtered:
    """The nodes that passed a filter, and why others failed. `failed` includes the nodes of `unresolvable`."""

    nodes: list[str]
    failed: dict[str, str] = field(default_factory=dict)
    unresolvable: frozenset[str] = frozenset()


class Extender:
    """One entry of `KubeSchedulerConfiguration.extenders`.

    Args:
        config: The entry.
        session: HTTP session for the calls.
    """

    def __init__(self, config: Object, session: aiohttp.ClientSession) -> None:
        if not config.get("urlPrefix"):
            raise ValueError("extenders[].urlPrefix is required")
        self.url = str(config["urlPrefix"]).rstrip("/")
        self._verbs = {verb: config.get(f"{verb}Verb", "") for verb in ("filter", "prioritize", "bind")}
        self.weight = int(config.get("weight") or 1)
        self.ignorable = bool(config.get("ignorable"))
        self._by_name = bool(config.get("nodeCacheCapable"))
        self._timeout = aiohttp.ClientTimeout(total=seconds(config.get("httpTimeout"), 5.0))
        self._managed = {m["name"] for m in config.get("managedResources") or []}
        self.ignored = {m["name"] for m in config.get("managedResources") or [] if m.get("ignoredByScheduler")}
        self._trust = _trust(config)
        self._session = session

    def does(self, verb: str) -> bool:
        """Whether a verb (``filter``, ``prioritize``, ``bind``) is configured."""
        return bool(self._verbs[verb])

    def interested(self, pod: Object) -> bool:
        """Whether to call it for a pod: the pod names a managed resource, or the extender manages no resources."""
        spec = pod["spec"]
        containers = [*(spec.get("initContainers") or []), *spec["containers"]]
        parts = [(c.get("resources") or {}).get(p) or {} for c in containers for p in ("requests", "limits")]
        return not self._managed or any(self._managed & part.keys() for part in parts)

    async def _ask(self, verb: str, body: bytes, decode: Callable[[bytes], T]) -> T:
        url = f"{self.url}/{self._verbs[verb].strip('/')}"
        try:
            headers = {"Content-Type": "application/json"}
            async with self._session.post(
                url, data=body, headers=headers, timeout=self._timeout, ssl=self._trust
            ) as answer:
                content = await answer.read()
                if answer.status != 200:
                    raise ExtenderError(f"failed {verb} with extender at URL {url}, code {answer.status}")
                return decode(content)
        except TimeoutError as error:
            why = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
            raise ExtenderError(f'Post "{url}": {why}') from error
        except aiohttp.ClientError as error:
            raise ExtenderError(f'Post "{url}": {type(error).__name__}: {error}') from error
        except WireError as error:
            raise ExtenderError(str(error)) from error

    def _args(self, pod: Object, nodes: dict[str, Object], names: list[str]) -> bytes:
        if self._by_name:
            return wire.encode_filter_args(orjson.dumps(_bare(pod)), names=names)
        listed = {"metadata": {}, "items": [_bare(nodes[n]) for n in names]}
        return wire.encode_filter_args(orjson.dumps(_bare(pod)), nodes=orjson.dumps(listed))

    async def filter(self, pod: Object, nodes: dict[str, Object], names: list[str]) -> Filtered:
        """Asks which of the named nodes pass.

        Raises:
            ExtenderError: The extender gave no usable answer.
        """
        answer = await self._ask("filter", self._args(pod, nodes, names), wire.decode_filter_result)
        if answer.error:
            raise ExtenderError(answer.error)
        if self._by_name and answer.names is not None:
            left = answer.names
        elif answer.nodes is not None:
            left = [n["metadata"]["name"] for n in orjson.loads(bytes(answer.nodes)).get("items") or []]
        else:
            left = []
        unknown = [n for n in left if n not in nodes]
        if unknown:
            raise ExtenderError(
                f'extender "{self.url}" claims a filtered node "{unknown[0]}" which is not found in the input node list'
            )
        return Filtered(left, {**answer.failed, **answer.unresolvable}, frozenset(answer.unresolvable))

    async def prioritize(self, pod: Object, nodes: dict[str, Object], names: list[str]) -> dict[str, int]:
        """Asks for scores: whole numbers from 0 to 10, by node.

        Raises:
            ExtenderError: The extender gave no usable answer.
        """
        answer = await self._ask("prioritize", self._args(pod, nodes, names), wire.decode_priorities)
        return {entry.host: entry.score for entry in answer}

    async def bind(self, pod: Object, node: str) -> None:
        """Asks the extender to bind a pod.

        Raises:
            ExtenderError: The extender did not bind it.
        """
        meta = pod["metadata"]
        body = wire.encode_binding_args(wire.BindingArgs(meta["name"], meta["namespace"], meta["uid"], node))
        error = await self._ask("bind", body, wire.decode_error)
        if error:
            raise ExtenderError(error)


def _bare(obj: Object) -> Object:
    """An object without its kind, as Go prints objects of a cache."""
    return {k: v for k, v in obj.items() if k not in {"apiVersion", "kind"}}


def _trust(config: Object) -> ssl.SSLContext | bool:
    """TLS settings of an extender; True is the default trust."""
    given = config.get("tlsConfig") or {}
    if not config.get("enableHTTPS") and not str(config["urlPrefix"]).startswith("https"):
        return True
    trust = ssl.create_default_context(cafile=given.get("caFile") or None)
    if given.get("insecure"):
        trust.check_hostname = False
        trust.verify_mode = ssl.CERT_NONE
    if given.get("certFile"):
        trust.load_cert_chain(given["certFile"], given.get("keyFile"))
    return trust
