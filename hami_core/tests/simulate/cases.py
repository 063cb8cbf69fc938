"""Small clusters and workloads of the tests."""

from __future__ import annotations

import logging
from functools import cache
from itertools import count

from hami_core.plugins import load
from hami_core.policies import PolicyDefaults
from hami_core.simulate.clusterfile import described_world
from hami_core.simulate.run import Policy, simulate
from hami_core.simulate.workload import Job, admitted

PACK = Policy("binpack", "binpack")


@cache
def vendors():
    logging.getLogger("hami.plugins").setLevel(logging.CRITICAL)
    return load({}, only=["nvidia"])


def world(*rows, quotas=()):
    """A cluster of rows; each gets what it lacks: one node with one card of 10,000 MiB."""
    plain = {"family": "NVIDIA", "cards": 1, "memoryMiB": 10000}
    made = [{"name": f"n{number}-{{}}", **plain, **row} for number, row in enumerate(rows or ({},))]
    return described_world({"nodes": made, "quotas": list(quotas)}, vendors(), "cluster.yaml")


def pod(memory=4000, cores=0, cards=1, share=None, **annotations):
    """A pod; ``share`` is a percentage of the cards' memory. Without memory and share it takes all."""
    limits = {"nvidia.com/gpu": cards, "nvidia.com/gpucores": cores}
    if memory is not None:
        limits["nvidia.com/gpumem"] = memory
    if share is not None:
        limits["nvidia.com/gpumem-percentage"] = share
    return {
        "metadata": {"annotations": annotations},
        "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]},
    }


def job(arrival=0.0, duration=100.0, **more):
    """A job; what its pod asks for stands beside the job's own keys."""
    own = {key: more.pop(key) for key in ("name", "namespace", "every", "count") if key in more}
    return Job(arrival=float(arrival), duration=duration, pod=pod(**more), **own)


def workload(cluster, *jobs):
    return admitted(cluster.open(PolicyDefaults()), [(one, f"w.yaml: jobs[{n}]") for n, one in enumerate(jobs)])


def run(cluster, *jobs, policy=PACK):
    """One run, with a clock that goes on by a second with each call."""
    ticks = count()
    return simulate(cluster, workload(cluster, *jobs), policy, clock=lambda: float(next(ticks)))


def starts(result):
    return [None if start != start else start for start in result.outcome.start_s]
