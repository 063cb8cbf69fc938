"""NVIDIA's requests and admission, against the vectors."""

from __future__ import annotations

from typing import Any

import pytest
from hami_nvidia import Nvidia, NvidiaConfig

from hami_core.errors import RequestError
from hami_core.model import ContainerKind, ContainerSpec, Mutation, PodFacts, Request

from .cases import Case, cases, head, value
from .placing import UNSET

pytestmark = pytest.mark.vectors

POD = PodFacts("default", "p", "uid")


def _container(case: Any) -> ContainerSpec:
    limits, requests = ({name: str(amount) for name, amount in case.get(k, {}).items()} for k in ("limits", "requests"))
    return ContainerSpec("c", ContainerKind.APP, limits, requests)


def _nvidia(**config: Any) -> Nvidia:
    nvidia = Nvidia()
    nvidia.families(NvidiaConfig.model_validate(config), None)
    return nvidia


def _parse(nvidia: Nvidia, container: ContainerSpec) -> Request | None:
    (family,) = nvidia.families(nvidia._config, None)
    return nvidia.parse_request(container, POD, family)


def _numbers(request: Request | None) -> dict[str, int]:
    if request is None:
        return {}
    percent = UNSET if request.memory_percent is None else request.memory_percent
    return {"nums": request.count, "mem": request.memory_mib, "pct": percent, "cores": request.cores}


@pytest.mark.parametrize("case", cases("request_nvidia"))
def test_requests_match_hami(case: Case) -> None:
    """We refuse amounts that HAMi can't read and treats as no request. All else is as in HAMi."""
    settings = ("memoryFactor", "defaultMemory", "defaultCores", "defaultGPUNum")
    nvidia = _nvidia(**{**case.get("config", {}), **{key: case[key] for key in settings if key in case}})
    container = _container(case)
    unreadable = any(text.endswith("Gi") for text in container.limits.values())
    if unreadable and not case.fails:
        assert case.get("request", {}) == {}
        with pytest.raises(RequestError, match=r"container c: nvidia.com/gpumem: .*write"):
            _parse(nvidia, container)
        return
    found = _numbers(case.ask(lambda: _parse(nvidia, container)))
    wanted = case.get("request", {})
    unset = {"nums": 1, "mem": 0, "pct": UNSET, "cores": 0}
    assert found == ({**unset, **wanted} if wanted else {})


def _names(row: dict[str, Any]) -> dict[str, Any]:
    return {
        key: {f"nvidia.com/{name}": v for name, v in row[key].items()} for key in ("limits", "requests") if key in row
    }


@pytest.mark.parametrize("row", value("vendors/nvidia.generateRequests"))
def test_requests_of_the_vendor_tables_match_hami(row: dict[str, Any]) -> None:
    container = _container(_names(row))
    if any(text.endswith("Gi") for text in container.limits.values()):
        assert row["want"] is None
        with pytest.raises(RequestError, match="unit"):
            _parse(_nvidia(), container)
        return
    numbers = _numbers(_parse(_nvidia(), container))
    assert value("vendors/nvidia.generateRequestsColumns") == ["nums", "memreq", "memPercent", "cores"]
    assert (list(numbers.values()) or None) == row["want"]


@pytest.mark.parametrize("case", cases("webhook_nvidia"))
def test_admission_matches_hami(case: Case) -> None:
    names = {"count": "CountName", "mem": "MemoryName", "pct": "MemoryPercentageName", "core": "CoreName"}
    names["priority"] = "PriorityName"
    given = case.head.get("config", head("webhook_nvidia")["config"]) | case.get("config", {})
    config = {f"resource{names[key]}" if key in names else key: entry for key, entry in given.items()}
    container = _container(case)
    mutation = case.ask(lambda: _nvidia(**config).mutate_admission(container, POD)) or Mutation(False)
    assert mutation.uses_devices is case.get("has_resource", mutation.uses_devices)
    for key, before, after in (
        ("limits_out", container.limits, mutation.limits),
        ("requests_out", container.requests, mutation.requests),
    ):
        if key in case:
            assert {**before, **after} == {name: str(amount) for name, amount in case[key].items()}
    if "env_added" in case:
        assert [list(pair) for pair in mutation.env] == case["env_added"]


@pytest.mark.parametrize("row", value("vendors/nvidia.admissionExclusiveCore"))
def test_exclusive_default_of_the_vendor_tables_matches_hami(row: dict[str, Any]) -> None:
    container = _container(_names(row))
    mutation = _nvidia().mutate_admission(container, POD) or Mutation(False)
    cores = {**container.limits, **mutation.limits}.get("nvidia.com/gpucores")
    wanted = row["cores"] if "cores" in row else row["limitsCores"]
    assert cores == (None if wanted is None else str(wanted))


def test_chart_defaults_match_hami() -> None:
    table = value("vendors/nvidia.chartDefaults")
    config = NvidiaConfig().model_dump(by_alias=True)
    node_only = {"gpuHookPath", "deviceListStrategy"}
    for key, wanted in table.items():
        if key not in node_only:
            assert config[key] == type(config[key])(wanted), key
    resources = value("vendors/nvidia.resources")
    (family,) = Nvidia().families(None, None)
    names = (
        resources["count"],
        resources["mem"],
        resources["memPercentage"],
        resources["cores"],
        resources["priority"],
    )
    assert family.resources.names() == names
    assert value("vendors/nvidia.memPercentUnsetSentinel") == UNSET
    assert head("webhook_nvidia")["config"]["defaultGPUNum"] == 1
