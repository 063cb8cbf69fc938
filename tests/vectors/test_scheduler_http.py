"""The scheduler over HTTP against the vectors: admission, malformed payloads, node locks at Bind."""

from __future__ import annotations

import base64
import io
import json
from typing import TYPE_CHECKING

import msgspec
import pytest

from hami_core import hookimpl
from hami_core.kube.objects import Pod
from hami_core.tests.kube.apiserver import Fault
from hami_core.tests.kube.apiserver import pod as plain_pod
from hami_core.tests.scheduler.conftest import api, load, server, signing_key, start  # noqa: F401 - fixtures
from hami_core.tests.scheduler.vendor import Acme, node, pod
from hami_core.wire import keys

from .cases import Case, cases, head, value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hami_core.model import PodFacts

pytestmark = pytest.mark.vectors


@pytest.mark.parametrize("case", cases("webhook_pipeline"))
async def test_webhook_pipeline_matches_hami(start, case: Case) -> None:  # noqa: F811
    made = pod("a") if case.get("gpu", False) else plain_pod("a")
    spec = made["spec"]
    spec["schedulerName"], spec["nodeName"] = case.get("schedulerName", ""), case.get("nodeName", "")
    if "privileged_container" in case:
        name = case["privileged_container"]
        spec["containers"].append({"name": name, "securityContext": {"privileged": True}})
    if case.get("ephemeral_privileged"):
        spec["ephemeralContainers"] = [{"name": "e", "securityContext": {"privileged": True}}]
    overwrite = case.get("force_overwrite", True)
    config = case.head.get("config", head("webhook_pipeline")["config"]) | case.get("config", {})
    client = await start(overwrite_default=overwrite, scheduler_name=config["scheduler_name"])
    response = await client.admit(made)
    result = "allowed" if response["allowed"] else "denied"
    assert result == case.get("result", result)
    # Our messages begin with HAMi's words; the fix follows in parentheses.
    words = response.get("status", {}).get("message", "").partition(" (")[0]
    case.verdict("", result == "allowed", words)
    operations = json.loads(base64.b64decode(response.get("patch", "W10=")))
    if "message" in case:
        assert words == case["message"]
    if "patched" in case:
        assert bool(operations) == case["patched"]
    if "schedulerName_out" in case:
        names = [op["value"] for op in operations if op["path"] == "/spec/schedulerName"]
        assert (names or [spec["schedulerName"]]) == [case["schedulerName_out"]]


@pytest.mark.parametrize("case", cases("extender_http"))
async def test_extender_http_matches_hami(server, start, case: Case) -> None:  # noqa: F811
    if "client_cancelled" in case:
        await _client_goes_away(server, start, case)
        return
    client = await start()
    if "body_bytes" in case:
        # HAMi cuts bodies at 1 MiB and reports it. We read them whole, so the answer is about their content.
        assert case.get("error_contains", "EOF") == "EOF"
        body: bytes | None = b'{"PodName":"a","Node":"' + b"n" * (case["body_bytes"] - 25) + b'"}'
    else:
        text = case.get("body")
        body = None if text is None else (text if isinstance(text, str) else json.dumps(text)).encode()
    status, answer = await client.raw("POST", case["route"], body)
    assert status == case.get("status", 200), answer
    error = answer
    if status == 200:
        decoded = json.loads(answer)
        error = decoded["Error"] if isinstance(decoded, dict) else ""
        assert "error_nonempty" not in case or bool(error) == case["error_nonempty"]
    if "body_bytes" not in case and case.fails:
        assert case.get("error", True) in ("", True) or error
        case.check_error(error)


async def _client_goes_away(server, start, case: Case) -> None:  # noqa: F811
    """The caller has gone, so nobody reads the answer, for which HAMi has a text. No hold may remain."""
    assert case["client_cancelled"]
    assert not case.get("synced", False)
    assert case.get("status", 200) == 200
    if case.fails:
        case.check_error("context cancelled")
    away = [Fault(status=503)]
    server.faults.append(lambda *_: away[0] if away else None)
    client = await start(wait=False)
    data = io.BytesIO(json.dumps({"Pod": pod("a"), "NodeNames": ["n1"]}).encode())
    with pytest.raises(TimeoutError):
        await client._session.post(client.url + case["route"], data=data, timeout=client.timeout(0.2))
    away.clear()
    await client.scheduler.cluster.synced()
    assert not list(client.scheduler.cluster.inventory.holds())
    assert (await client.raw("GET", "/readyz"))[0] == 200


@pytest.mark.parametrize("case", cases("pod_group_member"))
def test_pod_group_member_matches_hami(case: Case) -> None:
    label = head("pod_group_member")["label"]
    manifest = plain_pod("a", metadata={"labels": {} if case.get("label") is None else {label: case["label"]}})
    if case.get("spec_group") is not None:
        manifest["spec"]["schedulingGroup"] = {"podGroupName": case["spec_group"]}
    assert msgspec.convert(manifest, Pod).is_in_group is case["out"]


class Locking(Acme):
    """A vendor whose node plugin uses several locks."""

    locks: tuple[str, ...] = (keys.NODE_LOCK,)

    @hookimpl
    def lock_annotations(self, node: str, pod: PodFacts) -> Mapping[str, str]:
        return dict.fromkeys(self.locks, "hami")


@pytest.mark.parametrize("case", cases("node_lock.bind_retry"))
async def test_bind_retry_matches_hami(server, start, case: Case) -> None:  # noqa: F811
    """HAMi waits for a lock only for pod groups. Here a setting decides: 0 is HAMi's behaviour for other pods."""
    await server.put("nodes", node("n1"))
    wait = case.get("retry_timeout_s", 2.0) if case.get("pod_group", False) else 0.0
    client = await start(loaded=load(Locking), lock_wait_s=wait)
    results = case.get("lock_results", [])
    always = results == "always contention"
    reads: list[str] = []

    def answer(method: str, path: str) -> Fault | None:
        if method != "GET" or not path.endswith("/nodes/n1"):
            return None
        reads.append(path)
        word = "contention" if always else (results[len(reads) - 1 :] or ["ok"])[0]
        annotations = server.objects["nodes"]["n1"]["metadata"]["annotations"]
        annotations.pop(keys.NODE_LOCK, None)
        if word == "contention":
            annotations[keys.NODE_LOCK] = "2999-01-01T00:00:00Z,default,holder"
        return Fault(status=500, message="apiserver 500") if word == "apiserver 500" else None

    await server.put("pods", plain_pod("holder"))
    server.faults.append(answer)
    error = await client.bind(await server.put("pods", pod("a")), "n1")
    assert (error == "") == case.get("bound", not case.fails)
    if case.fails:
        assert error
        case.check_error(error, *error.split(": "))
    if "attempts" in case:
        assert len(reads) == case["attempts"]
    assert len(reads) >= case.get("attempts_min", 1)


async def test_locks_are_taken_by_name_and_released_in_reverse(server, start) -> None:  # noqa: F811
    """Locks are taken in the order of their names, and released in reverse."""
    row = value("node_lock.lock_all_order")
    names = {f"lock.io/{vendor}": vendor for vendor in row["vendors"]}

    class Several(Locking):
        locks = tuple(reversed(names))

    await server.put("nodes", node("n1"))
    client = await start(loaded=load(Several), lock_wait_s=0.0)
    refused = next(key for key, vendor in names.items() if vendor == row["fail_at"])
    seen = server.objects["nodes"]["n1"]["metadata"]["annotations"]
    seen[refused] = "2999-01-01T00:00:00Z,default,holder"
    await server.put("pods", plain_pod("holder"))
    assert await client.bind(await server.put("pods", pod("a")), "n1")
    events = []
    for method, _, body in server.requests:
        if method == "PATCH" and body.get("metadata", {}).get("annotations"):
            ((key, written),) = body["metadata"]["annotations"].items()
            events.append(f"{'lock' if written else 'release'}:{names[key]}")
    # The refused lock was only read, so no write shows it.
    assert events == [event for event in row["events"] if event != f"lock:{row['fail_at']}"]
