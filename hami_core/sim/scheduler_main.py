"""Command line of the kube-scheduler loop, and its leader election."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import socket
import time
import uuid
from pathlib import Path

import aiohttp
import yaml

from hami_core.sim import process
from hami_core.sim.client import CallError, Client
from hami_core.sim.extender import seconds
from hami_core.sim.resources import Object, now_micro
from hami_core.sim.scheduler import Scheduler

_LOG = logging.getLogger(__name__)
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


class Leadership:
    """Leader election by the Lease kube-system/kube-scheduler, with client-go's rules.

    Args:
        client: The API.
        config: `leaderElection` of the scheduler's configuration.
    """

    def __init__(self, client: Client, config: Object) -> None:
        self._client = client
        self._duration = seconds(config.get("leaseDuration"), 15.0)
        self._deadline = seconds(config.get("renewDeadline"), 10.0)
        self._retry = seconds(config.get("retryPeriod"), 2.0)
        self.identity = f"{socket.gethostname()}_{uuid.uuid4()}"
        self._seen: tuple[str, float] = ("", 0.0)

    async def acquire(self) -> None:
        """Waits until this process holds the Lease."""
        while not await self._try():  # noqa: ASYNC110 - the Lease is polled, as client-go does
            await asyncio.sleep(self._retry)
        _LOG.info("became leader as %s", self.identity)

    async def keep(self) -> None:
        """Renews the Lease until it is lost."""
        renewed = time.monotonic()
        while time.monotonic() - renewed < self._deadline:
            await asyncio.sleep(self._retry)
            if await self._try():
                renewed = time.monotonic()

    async def release(self) -> None:
        """Gives up the Lease, so that a successor need not wait."""
        with contextlib.suppress(CallError):
            lease = await self._client.call("GET", f"{_LEASES}/kube-scheduler")
            if lease["spec"].get("holderIdentity") == self.identity:
                spec = {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
                await self._client.call("PUT", f"{_LEASES}/kube-scheduler", {**lease, "spec": spec})

    async def _try(self) -> bool:
        stamp = now_micro()
        spec: Object = {
            "holderIdentity": self.identity, "leaseDurationSeconds": max(1, round(self._duration)),
            "acquireTime": stamp, "renewTime": stamp, "leaseTransitions": 0,
        }  # fmt: skip
        try:
            lease = await self._client.call("GET", f"{_LEASES}/kube-scheduler")
        except CallError as failure:
            return failure.code == 404 and await self._write(
                "POST", _LEASES, {"metadata": {"name": "kube-scheduler"}, "spec": spec}
            )
        old = lease["spec"]
        holder, version = old.get("holderIdentity") or "", lease["metadata"]["resourceVersion"]
        if version != self._seen[0]:
            self._seen = (version, time.monotonic())
        expired = time.monotonic() - self._seen[1] > old.get("leaseDurationSeconds", 15)
        if holder not in {"", self.identity} and not expired:
            return False
        if holder == self.identity:
            spec |= {"acquireTime": old["acquireTime"], "leaseTransitions": old.get("leaseTransitions", 0)}
        else:
            spec["leaseTransitions"] = old.get("leaseTransitions", 0) + 1
        return await self._write("PUT", f"{_LEASES}/kube-scheduler", {**lease, "spec": spec})

    async def _write(self, method: str, path: str, lease: Object) -> bool:
        try:
            await self._client.call(method, path, lease)
        except CallError as failure:
            _LOG.info("lease not written: %s", failure)
            return False
        return True


def main(argv: list[str]) -> None:
    """Schedules until told to stop or the Lease is lost."""
    parser = argparse.ArgumentParser(prog="python -m hami_core.sim scheduler", description="The kube-scheduler loop.")
    parser.add_argument("--server", required=True, help="URL of the API server")
    parser.add_argument("--config", type=Path, help="KubeSchedulerConfiguration, YAML or JSON")
    given = parser.parse_args(argv)
    config = (yaml.safe_load(given.config.read_text()) if given.config else None) or {}

    async def start() -> tuple[str, process.End]:
        client, session = Client(given.server, "kube-scheduler"), aiohttp.ClientSession()
        election = config.get("leaderElection") or {}
        elect = election.get("leaderElect", True)
        leases: list[Leadership] = []

        async def work() -> None:
            """Schedules while it leads. After losing the Lease it competes again, like a restarted pod."""
            while elect:
                leases[:] = [Leadership(client, election)]
                await leases[0].acquire()
                running = asyncio.create_task(Scheduler(client, config, session).run())
                kept = asyncio.create_task(leases[0].keep())
                await asyncio.wait({running, kept}, return_when=asyncio.FIRST_COMPLETED)
                if running.done():  # it ends only by an error
                    _LOG.error("scheduling failed; starting again", exc_info=running.exception())
                _LOG.warning("leader election lost")
                for task in (running, kept):
                    task.cancel()
                await asyncio.gather(running, kept, return_exceptions=True)
            await Scheduler(client, config, session).run()

        task = asyncio.create_task(work())

        async def stop(_: bool) -> None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            for lease in leases:
                await lease.release()
            await session.close()
            await client.close()

        return "", stop

    process.run(start, "scheduler")
