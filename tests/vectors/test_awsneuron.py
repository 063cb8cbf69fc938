"""AWS Neuron's split of cores and choice of neighbours against HAMi's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hami_awsneuron.layout import split_cores, together

from .cases import Case, cases

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.vectors


def split(per_device: int, cores: int) -> tuple[tuple[int, int] | None, str]:
    """Devices and cores of each, or HAMi's words for why there are none."""
    try:
        return split_cores(cores, per_device), ""
    except ValueError as error:
        return None, f"aws.amazon.com/neuroncore {error}"


def neighbours(count: int, used: Sequence[int], case: Case, devices: int, key: str) -> list[int]:
    idle = [index for index in range(devices) if index not in used]
    return list(together(reversed(idle), count, case.get(key, "")) or ())


@pytest.mark.parametrize("case", cases("aws_split_cores"))
def test_cores_are_split_as_in_hami(case: Case) -> None:
    found, why = split(case.get("per_device", 0), case["cores"])
    case.verdict("fit", found is not None, why)
    assert found == (case["nums"], case["each"])


@pytest.mark.parametrize("case", cases("vendors/awsneuron.splitCores"))
def test_cores_are_split_as_hami_does_for_vendors(case: Case) -> None:
    found, why = split(case.get("perDevice", 0), case["cores"])
    case.verdict("fit", found is not None, why)
    assert found == tuple(case["out"])


@pytest.mark.parametrize("case", cases("aws_select"))
def test_neighbours_match_hami(case: Case) -> None:
    used: Any = case.get("used", [])
    assert neighbours(case["count"], used, case, case.head["devices"], "instance_type") == case.get("pick", [])


@pytest.mark.parametrize("case", cases("vendors/awsneuron.graphSelect"))
def test_neighbours_match_hami_for_vendors(case: Case) -> None:
    used: Any = case.get("used", [])
    assert neighbours(case["count"], used, case, case["n"], "type") == case.get("out", [])
