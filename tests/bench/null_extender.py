"""An extender that accepts every node and decides nothing, to measure the cost of any extender.

Run ``python -m tests.bench.null_extender PORT`` beside the control plane. Filter returns 16 of the names, like ours.
Bind uses the node that the caller names.
"""

from __future__ import annotations

import sys
from pathlib import Path

import orjson
from aiohttp import web

from tests.bench.hollow import connect

RETURNED = 16


def main() -> None:
    """Serve until killed."""
    kubeconfig = Path(sys.argv[2])
    app = web.Application(client_max_size=64 << 20)

    async def session(app: web.Application):
        async with connect(kubeconfig) as api:
            app["api"] = api
            yield

    async def filter_(request: web.Request) -> web.Response:
        names = orjson.loads(await request.read())["NodeNames"][:RETURNED]
        return web.Response(body=orjson.dumps({"NodeNames": names}), content_type="application/json")

    async def prioritize(request: web.Request) -> web.Response:
        names = orjson.loads(await request.read())["NodeNames"]
        scores = [{"Host": name, "Score": 0} for name in names]
        return web.Response(body=orjson.dumps(scores), content_type="application/json")

    async def bind(request: web.Request) -> web.Response:
        args = orjson.loads(await request.read())
        body = {
            "metadata": {"name": args["PodName"], "namespace": args["PodNamespace"], "uid": args["PodUID"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": args["Node"]},
        }
        path = f"/api/v1/namespaces/{args['PodNamespace']}/pods/{args['PodName']}/binding"
        async with request.app["api"].post(path, json=body) as answer:
            error = "" if answer.status < 300 else await answer.text()
        return web.Response(body=orjson.dumps({"Error": error}), content_type="application/json")

    async def ready(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    app.cleanup_ctx.append(session)
    app.add_routes([
        web.post("/filter", filter_), web.post("/prioritize", prioritize), web.post("/bind", bind),
        web.get("/readyz", ready),
    ])  # fmt: skip
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None)


if __name__ == "__main__":
    main()
