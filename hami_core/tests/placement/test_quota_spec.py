"""ResourceQuota entries: amounts that are read or refused, and reports about wrong entries."""

from __future__ import annotations

import pytest

from hami_core.model import Family, Resources
from hami_core.placement.quota_spec import Fault, findings, limited, read_limits

GPU = Family(
    "GPU", Resources("nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"), "a"
)
MLU = Family("MLU", Resources("cambricon.com/vmlu", "cambricon.com/mlu.smlu.vmemory"), "b", memory_factor=256)
FAMILIES = (GPU, MLU)
MEMORY, CORES, COUNT = "limits.nvidia.com/gpumem", "limits.nvidia.com/gpucores", "limits.nvidia.com/gpu"
UNITS = "limits.cambricon.com/mlu.smlu.vmemory"


def read(entry: str, value: object):
    (limit,) = read_limits("team/q", {entry: value}, limited(FAMILIES)).values()
    return limit


@pytest.mark.parametrize(
    ("entry", "value", "amount"),
    [
        (MEMORY, "40000", 40000), (MEMORY, "40k", 40000), (MEMORY, "1M", 10**6), (MEMORY, "10M", 10**7),
        (MEMORY, 2000, 2000), (MEMORY, 2000.0, 2000), (MEMORY, "0", 0), (MEMORY, "10e3", 10000),
        (MEMORY, "999999999", 999999999),
        (UNITS, "40", 40 * 256), (CORES, "200", 200), (CORES, "1k", 1000), (CORES, "1M", 10**6),
        (COUNT, "2", 2), (COUNT, 2, 2), (COUNT, "1k", 1000),
    ],
)  # fmt: skip
def test_a_plain_amount_is_read_in_its_own_unit(entry: str, value: object, amount: int) -> None:
    limit = read(entry, value)
    assert (limit.amount, limit.problem) == (amount, "")


@pytest.mark.parametrize(
    ("entry", "value", "meant"),
    [
        (MEMORY, "10Gi", "10240"), (MEMORY, "10G", "9537"), (MEMORY, "8G", "7630"), (MEMORY, "1G", "954"),
        (MEMORY, "500M", "477"), (MEMORY, "16Mi", "16"), (MEMORY, "1Ti", "1048576"), (MEMORY, "2000Ki", "2"),
        (MEMORY, "10737418240", "10240"), (MEMORY, "500m", "1"), (MEMORY, "-5", "from 0 up"),
        (MEMORY, "many", "plain whole number"), (MEMORY, True, ""), (MEMORY, None, ""),
        (MEMORY, [5], ""), (MEMORY, {"a": 1}, ""), (MEMORY, 0.5, "1"),
        (UNITS, "10Gi", "40"), (CORES, "500m", "1"), (CORES, "1Ki", ""), (CORES, "-1", "from 0 up"), (COUNT, "2Gi", ""),
        (COUNT, "", ""), (COUNT, "1" * 30, ""), (COUNT, "1" * 70 + "M", ""),
        (CORES, "\u0661M", ""), (CORES, "9" * 20 + "G", ""),
    ],
)  # fmt: skip
def test_an_unreadable_amount_allows_nothing_and_says_the_fix(entry: str, value: object, meant: str) -> None:
    limit = read(entry, value)
    assert limit.amount == 0
    assert meant in limit.fix
    assert str(limit).startswith(f"ResourceQuota team/q: spec.hard[{entry}]: ")
    (found,) = findings("team/q", {entry: value}, FAMILIES, lambda _: False)
    assert (found.fault, found.entry, found.fix) == (Fault.UNREADABLE, entry, limit.fix)


@pytest.mark.parametrize(
    ("entry", "fault", "fix"),
    [
        ("limits.nvidia.com/gpumem-percentage", Fault.UNENFORCED, "did you mean limits.nvidia.com/gpumem?"),
        ("limits.nvidia.com/gpumemory", Fault.UNENFORCED, "did you mean limits.nvidia.com/gpumem?"),
        ("limits.nvidia.com/gpucore", Fault.UNENFORCED, "did you mean limits.nvidia.com/gpucores?"),
        ("requests.nvidia.com/gpucore", Fault.UNENFORCED, "did you mean limits.nvidia.com/gpucores?"),
        ("requests.nvidia.com/gpumemory", Fault.UNENFORCED, "did you mean limits.nvidia.com/gpumem?"),
        ("limits.nvidia.com/xyz", Fault.UNENFORCED, "existing limits: limits.nvidia.com/gpu, limits.nvidia.com/gpuc"),
        ("nvidia.com/gpu", Fault.UNENFORCED, "write limits.nvidia.com/gpu"),
        ("nvidia.com/gpumem", Fault.UNENFORCED, "write limits.nvidia.com/gpumem"),
        ("requests.nvidia.com/gpumem", Fault.PARTIAL, "write limits.nvidia.com/gpumem"),
        ("requests.nvidia.com/gpumem-percentage", Fault.PARTIAL, "remove it"),
        ("limits.cambricon.com/mlu.smlu.vmem", Fault.UNENFORCED, "did you mean limits.cambricon.com/mlu.smlu.vmemory?"),
    ],
)  # fmt: skip
def test_entry_that_is_not_enforced_is_reported(entry: str, fault: Fault, fix: str) -> None:
    (found,) = findings("team/q", {entry: "50"}, FAMILIES, {"nvidia.com/gpu"}.__contains__)
    assert (found.fault, found.entry) == (fault, entry)
    assert fix in found.fix


@pytest.mark.parametrize(
    "entry",
    [
        MEMORY, CORES, COUNT, "requests.nvidia.com/gpu", "pods", "limits.cpu", "requests.memory", "count/pods",
        "count/deployments.apps", "limits.amd.com/gpu", "requests.nvidia.com/mig-1g.5gb",
    ],
)  # fmt: skip
def test_enforced_entry_is_not_reported(entry: str) -> None:
    assert not findings("team/q", {entry: "50"}, FAMILIES, {"nvidia.com/mig-1g.5gb"}.__contains__)
