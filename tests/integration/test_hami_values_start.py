"""HAMi's complete values files start: the scheduler runs with exactly the arguments that the chart renders for them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

import aiohttp
import pytest

from hami_core.sim.cluster import Cluster
from hami_core.testing.parts import free_port
from tests.integration.test_unserved import HOOKS, call, ready
from tests.test_hami_values import complete, container, made


@pytest.mark.parametrize("version", ["2.4.0", "2.10.0"])
async def test_scheduler_starts_with_complete_values_of_hami(version, short_folder):
    objects = made(complete(version))
    scheduler: dict[str, Any] = container(objects, "vgpu-scheduler-extender")
    device_config = short_folder / "device-config.yaml"
    device_config.write_text(objects["ConfigMap/hami-scheduler-device"]["data"]["device-config.yaml"])
    metrics = free_port()
    async with Cluster(short_folder / "c", nodes=[]) as cluster, aiohttp.ClientSession(cluster.url) as session:
        await call(session, HOOKS, objects["MutatingWebhookConfiguration/hami-webhook"])
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "hami_core", *scheduler["args"]),
            # What differs on this machine: the cluster, free ports, and folders of the container.
            *(f"--kubeconfig={cluster.kubeconfig}", f"--metrics-bind-address=127.0.0.1:{metrics}"),
            *(f"--http-bind=127.0.0.1:{free_port()}", f"--webhook-bind=127.0.0.1:{free_port()}"),
            *(f"--device-config-file={device_config}", f"--closed-vendors-file={short_folder / 'closed.json'}"),
            env={k: v for k, v in os.environ.items() if not k.startswith(("HAMI_", "KUBE", "POD_"))}
            | {"POD_NAME": "hami-scheduler-0", "POD_NAMESPACE": "kube-system"},
        )
        try:
            async with asyncio.timeout(30):
                await ready(f"http://127.0.0.1:{metrics}/readyz")
        finally:
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
