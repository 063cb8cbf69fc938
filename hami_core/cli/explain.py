"""``hami explain``: why a pod is pending, where it would fit, and what would have to change."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

import click

from hami_core.cli.reaching import FILE, options, split

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from hami_core.cli.reaching import Target
    from hami_core.kube.port import KubeApi
    from hami_core.reach import PodNames, Reach

TEMPLATES = ("Deployment", "DaemonSet", "Job", "ReplicaSet", "StatefulSet")
"""Kinds whose pod template stands for the pod."""


@click.group("explain")
def command() -> None:
    """Say why a pod is pending, where it would fit, and what would have to change."""


@command.command("pod")
@click.argument("name", default="")
@click.option("-n", "--namespace", default="", help="Namespace of the pod; default: the kubeconfig's.")
@click.option(
    "-f", "--filename", type=FILE, help="Explain the pod in this file, which need not exist; - for standard input."
)
@click.option("--node", "node", multiple=True, help="Explain this node only; may be given several times.")
@click.option("--nodes", "limit", type=click.IntRange(1, 200), default=10, show_default=True, help="Most nodes shown.")
@click.option("--card", "card", default="", help="Show this card only, by index or id; needs --node.")
@click.option("--cards", "cards", is_flag=True, help="Show each card of the nodes.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@options
def pod(**values: Any) -> None:  # noqa: ANN401 - click's values
    """Explain the pod NAME, or the pod in a file, as the cluster is now.

    A file is checked as the API server would check it (a dry run), so the answer is for the pod as it would be created.
    It may hold several pods, and Deployments, DaemonSets, Jobs, ReplicaSets and StatefulSets. Asking changes nothing.
    Names of other pods are shown as far as you may list pods.
    """
    target, own = split(values)
    if bool(own["name"]) == bool(own["filename"]):
        raise click.UsageError("name a pod, or a file with -f")
    if own["card"] and not own["node"]:
        raise click.UsageError("--card needs --node")
    if own["output"] == "json" and (own["card"] or own["cards"]):
        raise click.UsageError("JSON always has the cards: leave --card and --cards out")
    asyncio.run(_run(target, own))


async def _run(target: Target, own: dict[str, Any]) -> None:
    from hami_core.cli.reaching import reaching

    query = {"nodes": str(own["limit"]), "node": ",".join(own["node"])}
    answers = []
    async with reaching(target, "hami-explain", own["namespace"]) as (reach, here):
        endpoint = await reach.scheduler()
        pods = (
            await _written(reach.api, own["filename"], here)
            if own["filename"]
            else [await _existing(reach.api, own["name"], here)]
        )
        for each in pods:
            body = await endpoint.call("/explain", query, body=json.dumps(_needed(each)).encode())
            answer = _read(body)
            names = await _names(reach, answer)
            answers.append((answer | {"kube_scheduler": _said(each)}, names))
    if own["output"] == "json":
        listed = [answer | {"names": _shown_names(answer, names)} for answer, names in answers]
        print(json.dumps(listed[0] if len(listed) == 1 else listed, indent=1))
        return
    each_card = own["cards"] or bool(own["card"])
    texts = ["\n".join(lines(answer, names, cards=each_card, card=own["card"])) for answer, names in answers]
    click.echo("\n\n".join(texts))


def _read(body: bytes) -> dict[str, Any]:
    from hami_core.reach import ReachError

    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    if not isinstance(answer, dict) or answer.get("version") != 1:
        raise ReachError("scheduler", "its answer can't be read", "use hami of the scheduler's version")
    return answer


# --- the pod


def _needed(pod: dict[str, Any]) -> dict[str, Any]:
    """The pod without what nobody has to know to place it, such as values of its environment."""
    meta, spec = _mapping(pod.get("metadata")), _mapping(pod.get("spec"))
    parts = ("nodeName", "schedulerName", "schedulingGates", "runtimeClassName")
    kept: dict[str, Any] = {part: spec[part] for part in parts if part in spec}
    for key in ("initContainers", "containers"):
        kept[key] = [
            {name: one[name] for name in ("name", "resources", "restartPolicy", "securityContext") if name in one}
            | {"env": [{"name": variable.get("name", "")} for variable in one.get("env") or []]}
            for one in spec.get(key) or []
        ]
    names = ("name", "namespace", "uid", "annotations", "labels")
    return {
        "metadata": {name: meta[name] for name in names if name in meta},
        "spec": kept,
        "status": {"phase": _mapping(pod.get("status")).get("phase", "")},
    }


async def _existing(api: KubeApi, name: str, namespace: str) -> dict[str, Any]:
    """The pod as the caller may read it."""
    from hami_core.documents import did_you_mean, one_line
    from hami_core.errors import ConfigError
    from hami_core.kube.port import PODS, ApiError, Resource

    raw: Resource[dict[str, Any]] = Resource("v1", "pods", dict)
    try:
        return await api.get(raw, name.removeprefix("pod/"), namespace)
    except ApiError as error:
        where = f"pod {one_line(namespace)}/{one_line(name)}"
        if error.status != 404:
            fix = "you need the right to get pods there" if error.status == 403 else "check the kubeconfig"
            raise ConfigError(where, one_line(error.problem), fix) from error
        try:
            page = await api.list(PODS, namespace=namespace, limit=500)
            hint = did_you_mean(name, [pod.metadata.name for pod in page.items])
        except ApiError:
            hint = ""
        raise ConfigError(where, "there is no such pod", hint or "check -n and the name") from error


async def _written(api: KubeApi, file: Path, namespace: str) -> list[dict[str, Any]]:
    """The pods in a file, as the API server would create them."""
    from hami_core.documents import decoded, load_all_yaml, read_text
    from hami_core.errors import ConfigError

    where = "standard input" if str(file) == "-" else str(file)
    text = decoded(sys.stdin.buffer.read(), where) if str(file) == "-" else read_text(file)
    documents = [document for document in load_all_yaml(text, where) if document is not None]
    pods = [await _admitted(api, _pod_of(document, where), namespace, where) for document in documents]
    if not pods:
        raise ConfigError(where, "it has no pod", "write a Pod, or an object with a pod template")
    return pods


def _pod_of(document: Any, where: str) -> dict[str, Any]:  # noqa: ANN401 - any document
    from hami_core.documents import shown
    from hami_core.errors import ConfigError

    kind = document.get("kind") if isinstance(document, dict) else None
    spec = document.get("spec") if isinstance(document, dict) else None
    if kind == "Pod" and isinstance(spec, dict):
        return {**document, "apiVersion": "v1"}
    template = spec.get("template") if kind in TEMPLATES and isinstance(spec, dict) else None
    if isinstance(template, dict) and isinstance(template.get("spec"), dict):
        meta, inner = _mapping(document.get("metadata")), _mapping(template.get("metadata"))
        made: dict[str, Any] = {key: inner[key] for key in ("labels", "annotations") if key in inner}
        made |= {"generateName": f"{meta.get('name', 'pod')}-", "namespace": meta.get("namespace", "")}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": template["spec"]}
    wanted = f"write a Pod, or one of {', '.join(TEMPLATES)}"
    problem = "is missing" if kind is None else f"{shown(kind)} has no pod to explain"
    raise ConfigError(f"{where}: kind", problem, wanted)


def _mapping(value: Any) -> dict[str, Any]:  # noqa: ANN401 - any value
    return value if isinstance(value, dict) else {}


async def _admitted(api: KubeApi, body: dict[str, Any], namespace: str, where: str) -> dict[str, Any]:
    """The pod with the API server's defaults and all webhooks' changes, by a dry run."""
    from hami_core.documents import one_line
    from hami_core.errors import ConfigError
    from hami_core.kube.port import ApiError, Resource

    meta = _mapping(body.get("metadata"))
    space = str(meta.get("namespace") or namespace)
    if not meta.get("name") and not meta.get("generateName"):
        meta = meta | {"generateName": "pod-"}
    if meta.get("name"):  # so that a pod of this name may exist
        meta = {key: value for key, value in meta.items() if key != "name"} | {"generateName": f"{meta['name']}-"}
    raw: Resource[dict[str, Any]] = Resource("v1", "pods", dict)
    try:
        made = await api.create(raw, body | {"metadata": meta | {"namespace": space}}, space, dry_run=True)
    except ApiError as error:
        fix = "correct the pod"
        if error.status == 403 and "forbidden: User" in error.problem:
            fix = f"you need the right to create pods in namespace {one_line(space)}; nothing is created"
        raise ConfigError(where, f"the API server refuses the pod: {one_line(error.problem)}", fix) from error
    own = {key: value for key, value in made["metadata"].items() if key != "uid"}  # no pod has it
    return made | {"metadata": own | {"name": _mapping(body.get("metadata")).get("name") or own.get("name", "")}}


# --- the answer

STATES = {
    "invalid": "can't be placed",
    "no-devices": "needs no devices",
    "unknown-devices": "holds unknown devices",
    "foreign": "is not ours to place",
    "hypothetical": "does not exist",
}
INDENT = "  "
SHOWN_PODS = 5
"""Most pods that a change names."""


async def _names(reach: Reach, answer: dict[str, Any]) -> PodNames:
    return await reach.names([node["node"] for node in answer.get("refused", ()) if node["pods"]])


def _said(pod: dict[str, Any]) -> str:
    """kube-scheduler's own words about a pod that it did not bind."""
    conditions = _mapping(pod.get("status")).get("conditions") or []
    unbound = (one for one in conditions if one.get("type") == "PodScheduled" and one.get("status") == "False")
    return next((str(one.get("message") or "") for one in unbound), "")


def _shown_names(answer: dict[str, Any], names: PodNames) -> dict[str, str]:
    return {uid: names.of(uid) for node in answer.get("refused", ()) for uid in node["pods"]}


def lines(answer: dict[str, Any], names: PodNames, *, cards: bool = False, card: str = "") -> Iterator[str]:
    """The answer for people.

    Args:
        answer: The scheduler's answer.
        names: Names of other pods.
        cards: Show each card of the nodes.
        card: Show this card only, by index or id.
    """
    meta, state = answer["pod"], answer["state"]
    yield _line(f"Pod {meta['namespace']}/{meta['name']} {STATES.get(state, f'is {state}')}: {answer['why']}")
    for asked in answer.get("asks", ()):
        yield _line(f"container {asked['container']} needs {asked['needs']} ({asked['family']})", INDENT)
    for container in answer.get("placed", {}).get("containers", ()):
        where = f"container {container['name']} has, on node {answer['placed']['node']}, "
        yield _line(where + _shares(container), INDENT)
    if answer["kube_scheduler"]:
        yield _line(f"kube-scheduler said: {answer['kube_scheduler']}", INDENT)
    if "nodes" in answer:
        yield ""
        yield from _fitting(answer, cards=cards, card=card)
        yield from _refused(answer, names, cards=cards, card=card)


def _fitting(answer: dict[str, Any], *, cards: bool, card: str) -> Iterator[str]:
    nodes, what = answer["nodes"], "Another pod like it" if answer["state"] in {"bound", "held"} else "It"
    total = nodes["fit"] + nodes["refused"]
    if not total:
        yield f"{what} fits nowhere: no node has devices registered (run hami doctor)"
        return
    yield f"{what} fits on {nodes['fit'] or 'none'} of {total} node{'s'[: total != 1]} now."
    if not answer["fitting"]:
        return
    rows = [("NODE", "SCORE", "IT WOULD GET")]
    for row in answer["fitting"]:
        gets = "; ".join(f"{container['name']}: {_shares(container)}" for container in row["containers"])
        rows.append((row["node"], f"{row['score']:.2f}" if "score" in row else "-", gets))
    yield from _aligned(rows)
    if answer["decided"]:
        yield _line(answer["decided"])
    for row in answer["fitting"] if cards else ():
        yield ""
        yield from _cards(row["node"], row["cards"], {}, card)


def _refused(answer: dict[str, Any], names: PodNames, *, cards: bool, card: str) -> Iterator[str]:
    rows = [("NODE", "WOULD FIT")] if answer["refused"] else []
    for node in answer["refused"]:
        changes = [_change(change, names) for change in node["changes"]]
        if node["never"]:
            changes = ["never: the pod is too large for this node even if it is idle"]
        about_cards = any(reason["id"] for reason in node["reasons"])
        none = "only if several things change at once" if about_cards else "no change of the pod helps"
        rows.append((node["node"], changes[0] if changes else none))
        rows += [("", change) for change in changes[1:]]
        rows.append(("", f"now: {_named(node['why'], node['pods'], names)}"))
    if rows:
        yield ""
        yield from _aligned(rows)
    for node in answer["refused"] if cards else ():
        yield ""
        why = {reason["id"]: _reason(reason, node, names) for reason in node["reasons"]}
        yield from _cards(node["node"], node["cards"], why, card)
    if answer["others"]:
        yield ""
        for group in answer["others"]:
            more = ", …" if group["nodes"] > len(group["examples"]) else ""
            yield _line(f"{group['nodes']} more: {group['reason']} ({', '.join(group['examples'])}{more})")
    if names.limited and any(node["pods"] for node in answer["refused"]):
        yield _line(f"Some pods have no name here: {names.limited}")


def _cards(node: str, found: Sequence[dict[str, Any]], why: dict[str, str], card: str) -> Iterator[str]:
    from hami_core.documents import one_line
    from hami_core.errors import ConfigError

    shown = [each for each in found if card in {"", each["id"], str(each["index"])}]
    if card and not shown:
        known = ", ".join(f"{each['index']} ({each['id']})" for each in found) or "none"
        raise ConfigError(f"node {one_line(node)}", f"it has no card {one_line(card)}", f"its cards: {one_line(known)}")
    rows = [("CARD", "ID", "MODEL", "SLOTS", "MEMORY (MiB)", "CORES", "WHY NOT")]
    for each in shown:
        amounts = ["/".join(map(str, each[key])) for key in ("slots", "memory_mib", "cores")]
        rows.append((str(each["index"]), each["id"], each["type"], *amounts, why.get(each["id"], "")))
    yield _line(f"Cards of {node}, in use / in all:")
    yield from _aligned(rows)


def _reason(reason: dict[str, Any], node: dict[str, Any], names: PodNames) -> str:
    amounts = f": needs {reason['needed']}, has {reason['available']}" if reason["needed"] is not None else ""
    cause = f": {_named(reason['cause'], node['pods'], names)}" if reason["cause"] else ""
    return f"{reason['code']}{amounts}{cause}"


def _change(change: dict[str, Any], names: PodNames) -> str:
    """A change in words. Pods are named as far as the caller may know them."""
    if change["kind"] != "pods":
        return str(change["text"])
    pods = [names.by_uid.get(uid, f"{names.of(uid)} ({uid})") for uid in change["pods"]]
    if len(pods) == 1:
        return f"when {'pod ' if change['pods'][0] in names.by_uid else ''}{pods[0]} has ended"
    shown = f"{', '.join(pods[:SHOWN_PODS])}{' and others' if len(pods) > SHOWN_PODS else ''}"
    return f"when {len(pods)} pods have ended: {shown}"


def _named(text: str, uids: Sequence[str], names: PodNames) -> str:
    """A text with names in place of UIDs. A pod without a name stays a UID, so that it can be asked about."""
    for uid in uids:
        text = text.replace(uid, names.by_uid.get(uid, uid))
    return text


def _shares(container: dict[str, Any]) -> str:
    return ", ".join(
        f"card {'?' if share['index'] is None else share['index']} ({share['id']}): {share['memory_mib']} MiB"
        + (f", cores {share['cores']}" if share["cores"] else "")
        for share in container["cards"]
    )


def _line(text: str, indent: str = "") -> str:
    """Text from the cluster as one printable line."""
    from hami_core.documents import one_line

    return indent + one_line(text, 2000)


def _aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    from hami_core.plain_table import table

    return table([[_line(cell) for cell in row] for row in rows])
