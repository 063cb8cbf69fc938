"""The embedded API server stores amounts in the form of Go's ``resource.Quantity``."""

from __future__ import annotations

import pytest

from hami_core.errors import WireError
from hami_core.sim import strategy
from hami_core.sim.quantity import canonical
from hami_core.sim.resources import BY_PATH, NODES, PODS, ApiError

QUOTAS = BY_PATH["", "v1", "resourcequotas"]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (2000, "2k"), ("2000", "2k"), (16384, "16384"), ("1000000", "1M"), ("40000", "40k"), ("1500000", "1500k"),
        ("3000m", "3"), ("500m", "500m"), ("0.5", "500m"), (0.25, "250m"), (2.0, "2"), ("0", "0"), (None, "0"),
        ("-0.5", "-500m"), ("10Gi", "10Gi"), ("1024Mi", "1Gi"), ("1Ki", "1Ki"), ("512Ki", "512Ki"), ("0.5Ki", "512"),
        ("1.5Gi", "1536Mi"), ("1e3", "1e3"), ("1e4", "10e3"), ("1E", "1E"), ("3000M", "3G"), ("1n", "1n"),
        ("0.0000000001", "1n"), (" 7 ", "7"),
    ],
)  # fmt: skip
def test_amount_is_stored_in_gos_canonical_form(given: object, kept: str) -> None:
    assert canonical(given) == kept


@pytest.mark.parametrize("given", ["many", "", "1 Gi", True, [1], {"a": 1}])
def test_value_that_is_no_quantity_is_refused(given: object) -> None:
    with pytest.raises(WireError):
        canonical(given)


def test_numbers_become_text_in_pods_nodes_and_quotas() -> None:
    container = {"name": "c", "resources": {"limits": {"x.com/mem": 2000, "cpu": "1000m"}}}
    pod = strategy.prepare_create(PODS, "ns", {"metadata": {"name": "p"}, "spec": {"containers": [container]}})
    resources = pod["spec"]["containers"][0]["resources"]
    assert resources == {"limits": {"x.com/mem": "2k", "cpu": "1"}, "requests": {"x.com/mem": "2k", "cpu": "1"}}
    status = {"capacity": {"x.com/gpu": 40}, "allocatable": {"x.com/gpu": 1000}}
    node = strategy.prepare_create(NODES, "", {"metadata": {"name": "n"}, "status": status})
    assert node["status"] == {"capacity": {"x.com/gpu": "40"}, "allocatable": {"x.com/gpu": "1k"}}
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"limits.x.com/mem": 2000, "pods": 5}}}
    made = strategy.prepare_create(QUOTAS, "ns", quota)
    assert made["spec"]["hard"] == {"limits.x.com/mem": "2k", "pods": "5"}


@pytest.mark.parametrize(
    ("hard", "code"),
    [
        ({"limits.x.com/mem": "many"}, 400), ({"limits.x.com/mem": True}, 400), ({"limits.x.com/mem": "-1"}, 422),
        ({"limits.x.com/mem": "500m"}, 422),
    ],
)  # fmt: skip
def test_quota_with_an_invalid_amount_is_refused(hard: dict[str, object], code: int) -> None:
    with pytest.raises(ApiError) as caught:
        strategy.complete(
            QUOTAS, strategy.prepare_create(QUOTAS, "ns", {"metadata": {"name": "q"}, "spec": {"hard": hard}})
        )
    assert caught.value.code == code
