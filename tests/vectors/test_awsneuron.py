"""AWS Neuron's split of cores and choice of neighbours against HAMi's."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def check_neighbours(case: Case, devices: int, instance_type: str, answer: str) -> None:
    """Compare the devices that are given together with the case's entry ``answer``, in which an empty list is none."""
    used: Sequence[int] = case.get("used", [])
    idle = [index for index in range(devices) if index not in used]
    found = together(reversed(idle), case["count"], instance_type)
    case.verdict("fit", found is not None, "NumaNotFit")
    assert list(found or ()) == case.get(answer, list(found or ()))


@pytest.mark.parametrize("case", cases("aws_split_cores"))
def test_cores_are_split_as_in_hami(case: Case) -> None:
    found, why = split(case.get("per_device", 0), case["cores"])
    case.verdict("fit", found is not None, why)
    assert found is not None
    assert found == (case.get("nums", found[0]), case.get("each", found[1]))


@pytest.mark.parametrize("case", cases("vendors/awsneuron.splitCores"))
def test_cores_are_split_as_hami_does_for_vendors(case: Case) -> None:
    found, why = split(case.get("perDevice", 0), case["cores"])
    case.verdict("fit", found is not None, why)
    assert found == tuple(case["out"])


@pytest.mark.parametrize("case", cases("aws_select"))
def test_neighbours_match_hami(case: Case) -> None:
    check_neighbours(case, case.head["devices"], case.get("instance_type", ""), "pick")


@pytest.mark.parametrize("case", cases("vendors/awsneuron.graphSelect"))
def test_neighbours_match_hami_for_vendors(case: Case) -> None:
    check_neighbours(case, case["n"], case.get("type", ""), "out")
