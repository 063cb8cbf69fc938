"""Cost of a call through the plugin layer, compared with a direct call of the same method."""

from __future__ import annotations

import statistics

from hami_core.model import ContainerKind, ContainerSpec, DeviceKind, PodFacts, Request
from hami_core.plugins import load
from tests.bench.figures import Figure, timings


def run(*, quick: bool) -> list[Figure]:
    """Measure the microseconds of each call."""
    rounds = 300 if quick else 3000
    loaded = load(only=["nvidia"])
    rules = loaded.rules()[0]
    request = Request("NVIDIA", 1, 3000, cores=30)
    kind = DeviceKind("NVIDIA", "NVIDIA-H100", "hami-core")
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"}
    container = ContainerSpec("main", ContainerKind.APP, limits)
    pod = PodFacts("default", "p", "u")
    everything = load()
    cases = {
        "check_type through the rules": lambda: rules.check_type(request, kind),
        "parse a container, one vendor": lambda: loaded.parse(container, pod),
        "parse a container, every vendor installed": lambda: everything.parse(container, pod),
    }
    return [Figure("hooks", case, statistics.median(timings(call, rounds)) * 1e6, "µs") for case, call in cases.items()]
