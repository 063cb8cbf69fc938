"""Payloads as Go writes them, and malformed payloads. Each gets an answer, and the process keeps running."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hami_core.tests.scheduler.vendor import node, pod


async def test_a_body_beyond_hamis_mebibyte_is_served(server, start):
    await server.put("nodes", node("n1"))
    client = await start()
    names = [f"{n:0200d}" for n in range(6000)] + ["n1"]
    answer = await client.filter(await server.put("pods", pod("a")), names)
    assert answer["NodeNames"] == ["n1"]


async def test_a_body_over_the_limit_is_413(start):
    client = await start(body_limit=10_000)
    assert (await client.raw("POST", "/filter", b"x" * 10_001))[0] == 413


async def test_keys_are_read_without_regard_to_case(server, start):
    await server.put("nodes", node("n1"))
    client = await start()
    p = await server.put("pods", pod("a"))
    answer = await client.post("/filter", {"pod": p, "nodenames": ["n1"], "NODES": None})
    assert answer["NodeNames"] == ["n1"]
    assert answer.keys() == {"Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"}


async def test_a_filter_before_the_first_sync_waits_for_it(server, start):
    await server.put("nodes", node("n1"))
    gate = asyncio.Event()
    from hami_core.tests.kube.apiserver import Fault

    server.faults.append(lambda method, path: None if gate.is_set() else Fault(status=503))
    client = await start(wait=False)
    assert (await client.raw("GET", "/readyz"))[0] == 503
    assert (await client.raw("GET", "/healthz"))[0] == 200
    asking = asyncio.create_task(client.filter(pod("a"), ["n1"]))
    await asyncio.sleep(0.1)
    assert not asking.done()
    gate.set()
    assert (await asking)["NodeNames"] == ["n1"]
    assert (await client.raw("GET", "/readyz"))[0] == 200


async def test_requests_fail_if_the_first_sync_takes_too_long(server, start):
    from hami_core.tests.kube.apiserver import Fault

    server.faults.append(lambda *_: Fault(status=503))
    client = await start(wait=False, sync_wait_s=0.1)
    assert "has not read the cluster" in (await client.filter(pod("a"), ["n1"]))["Error"]
    review = {"uid": "1", "object": pod("a")}
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": review}
    assert (await client.raw("POST", "/webhook", json.dumps(body).encode()))[0] == 503


async def test_wrong_method_and_path(start):
    client = await start()
    assert (await client.raw("GET", "/filter"))[0] == 405
    assert (await client.raw("POST", "/preempt", b"{}"))[0] == 404


@pytest.mark.parametrize("amount", ["-1", "1.5", "1e30", "0x10", "", "9" * 400])
async def test_filter_reports_bad_amounts_that_bypassed_the_webhook(server, start, amount):
    await server.put("nodes", node("n1"))
    client = await start()
    p = await server.put("pods", pod("a", mem=amount))
    assert "acme.com/mem" in (await client.filter(p, ["n1"]))["Error"]
    assert "acme.com/mem" in await client.bind(p, "n1")


async def test_a_pod_with_a_hundred_containers(server, start):
    await server.put("nodes", node("n1", cards=8, memory=100_000))
    client = await start()
    made = pod("a", mem=100, cores=0)
    first = made["spec"]["containers"][0]
    made["spec"]["containers"] = [{**first, "name": f"c{n}"} for n in range(60)]
    made["spec"]["initContainers"] = [{**first, "name": f"i{n}"} for n in range(40)]
    p = await server.put("pods", made)
    assert (await client.filter(p, ["n1"]))["NodeNames"] == ["n1"]
    assert await client.bind(p, "n1") == ""
    made["spec"]["containers"] *= 20
    assert "at most 1000" in (await client.filter(made, ["n1"]))["Error"]


@pytest.mark.parametrize("nested", ['{"a":' * 100_000, "[" * 100_000, '"\\ud800"', "1e999999", "\xff"])
async def test_bodies_made_to_break_decoders(start, nested):
    client = await start()
    pods = [f'{{"metadata":{nested}', f'{{"spec":{{"containers":[{{"name":{nested}}}]}}}}', f'{{"x":{nested}']
    for inner in [nested, *pods]:
        data = f'{{"Pod":{inner},"NodeNames":["n1"]}}'.encode("latin-1")
        status, answer = await client.raw("POST", "/filter", data)
        assert status == 200
        assert json.loads(answer)["Error"]
        review = '{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","object":%s}}'
        status, answer = await client.raw("POST", "/webhook", (review % inner).encode("latin-1"))
        assert status == 400 or not json.loads(answer)["response"]["allowed"]


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
TEXT = st.text(max_size=30) | st.sampled_from(["1", "-1", "1Gi", "n1", "NaN", "1e999", "٣", "\x00", "1,2", "slot=1"])
ANNOTATIONS = st.dictionaries(
    st.sampled_from(
        [
            "hami.io/node-scheduler-policy",
            "hami.io/gpu-scheduler-policy",
            "hami.io/device-scoring-weights",
            "hami.io/acme-devices-allocated",
            "hami.io/vgpu-node",
        ]
    )
    | st.text(max_size=5),
    TEXT,
    max_size=4,
)
CONTAINER = st.fixed_dictionaries(
    {},
    optional={
        "name": TEXT | JUNK,
        "restartPolicy": st.sampled_from(["Always", "Never", ""]) | JUNK,
        "resources": st.fixed_dictionaries(
            {},
            optional={
                name: st.dictionaries(
                    st.sampled_from(["acme.com/gpu", "acme.com/mem", "acme.com/cores", "cpu"]),
                    TEXT | st.integers() | JUNK,
                    max_size=4,
                )
                for name in ("limits", "requests")
            },
        )
        | JUNK,
    },
)
POD = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.fixed_dictionaries(
            {}, optional={"name": TEXT, "namespace": TEXT, "uid": TEXT, "annotations": ANNOTATIONS | JUNK}
        )
        | JUNK,
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "containers": st.lists(CONTAINER | JUNK, max_size=4),
                "initContainers": st.lists(CONTAINER, max_size=3) | JUNK,
                "schedulerName": TEXT,
                "nodeName": TEXT,
            },
        )
        | JUNK,
        "status": JUNK,
    },
)
BODIES = st.one_of(
    st.tuples(
        st.sampled_from(["/filter", "/prioritize"]),
        st.fixed_dictionaries(
            {}, optional={"Pod": POD, "NodeNames": st.lists(TEXT, max_size=3) | JUNK, "Nodes": JUNK, "pod": JUNK}
        ).map(json.dumps),
    ),
    st.tuples(
        st.just("/bind"),
        st.fixed_dictionaries(
            {}, optional=dict.fromkeys(("PodName", "PodNamespace", "PodUID", "Node"), TEXT | JUNK)
        ).map(json.dumps),
    ),
    st.tuples(
        st.just("/webhook"),
        st.builds(
            lambda object_, uid: json.dumps(
                {
                    "apiVersion": "admission.k8s.io/v1",
                    "kind": "AdmissionReview",
                    "request": {"uid": uid, "object": object_, "namespace": "default"},
                }
            ),
            POD | JUNK,
            TEXT | JUNK,
        ),
    ),
    st.tuples(st.sampled_from(["/filter", "/bind", "/webhook", "/prioritize"]), JUNK.map(json.dumps)),
    st.tuples(st.sampled_from(["/filter", "/bind", "/webhook", "/prioritize"]), st.binary(max_size=60)),
)


async def fuzz(client: Any, examples: int) -> None:
    """Run hypothesis in a thread. Each example is one request, which this loop sends while the thread waits."""
    loop = asyncio.get_running_loop()

    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(BODIES)
    def each(case: tuple[str, str | bytes]) -> None:
        path, body = case
        data = body if isinstance(body, bytes) else body.encode("utf-8", "surrogatepass")
        status, text = asyncio.run_coroutine_threadsafe(client.raw("POST", path, data), loop).result(20)
        assert status in {200, 400}, (status, text)
        if status == 200 and path in {"/filter", "/bind"}:
            assert "Error" in json.loads(text)
        if status == 200 and path == "/webhook":
            assert isinstance(json.loads(text)["response"]["allowed"], bool)

    await asyncio.to_thread(each)
    inventory = client.scheduler.cluster.inventory
    assert inventory.drift() == 0
    assert not list(inventory.bookings())
    p = pod("sane")
    assert (await client.filter(p, ["n1"]))["NodeNames"] == ["n1"]
    assert (await client.raw("GET", "/readyz"))[0] == 200


async def test_any_body_gets_an_answer_and_changes_nothing(server, start):
    await server.put("nodes", node("n1"))
    await fuzz(await start(), 2000)


@pytest.mark.soak
@pytest.mark.timeout(1800)
async def test_any_body_gets_an_answer_and_changes_nothing_for_long(server, start):
    await server.put("nodes", node("n1"))
    await fuzz(await start(), 100_000)
