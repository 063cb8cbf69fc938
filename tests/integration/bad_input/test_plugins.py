"""Vendor plugins that misbehave beside NVIDIA's are reported by name and harm nobody else."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest

from tests.integration.bad_input import distributions
from tests.integration.bed import container, pod

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(60)]


async def test_hami_plugins_names_plugins_that_cannot_be_loaded(checked_scene):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "hami_core", "plugins", "--json", stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    told = json.loads(output)
    assert process.returncode == 1
    assert {"nvidia", *distributions.LOADABLE} <= {vendor["name"] for vendor in told["vendors"]}
    assert {source["name"] for source in told["refused"]} == set(distributions.BROKEN)
    problems = {problem["plugin"]: problem for problem in told["problems"] if problem["severity"] == "error"}
    assert problems["sleeper"]["distribution"] == "rogue-sleeper 6.6"
    assert "librogue.so.7" in problems["sleeper"]["text"]
    assert "must name a class" in problems["texter"]["text"]
    assert problems["teller"]["hook"] == "families"


async def test_scheduler_continues_and_names_failed_plugin_and_hook(checked_scene):
    for name in distributions.BROKEN:
        await checked_scene.wait_for_log("scheduler", name, f"rogue-{name} 6.6")
    for name in distributions.LOADABLE:
        await checked_scene.wait_for_log("scheduler", f"rogue-{name} 6.6", "register")
        assert await checked_scene.metrics(
            "scheduler", "hami_plugin_failures_total", f'plugin="{name}"', 'hook="register"'
        )
    for name in distributions.BROKEN:
        assert await checked_scene.metrics("scheduler", "hami_plugin_refused", f'plugin="{name}"', "rogue")


@pytest.mark.parametrize("name", sorted(distributions.LOADABLE))
async def test_pod_that_asks_a_broken_vendor_is_refused_with_its_name(checked_scene, name):
    asking = pod("asks-broken", [container("main", None)])
    asking["spec"]["containers"][0]["resources"] = {"limits": {f"{name}.example/gpu": 1}}
    words = await checked_scene.submit_refused(asking)
    assert f"vendor {name} (rogue-{name} 6.6)" in words
    assert "mutate_admission" in words
