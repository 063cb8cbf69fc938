"""The inventory's Filter and Bind against a naive second implementation, on random clusters and requests."""

from __future__ import annotations

import random

import pytest

from hami_core.inventory import Inventory, Rejection
from hami_core.model import Allocation

from .oracle import OPod, filter_pod, place_pod
from .worlds import World


def check(world: World, rounds: int) -> None:
    rng = world.rng
    world.set_quota()
    for _ in range(rounds):
        request, theirs = world.pod()
        names = list(world.cluster)
        if rng.random() < 0.3:
            names = [*rng.sample(names, rng.randint(0, len(names))), "nobody"]
        fits, refused = filter_pod(world.cluster, theirs, names, world.rooms)
        everything = world.inventory.filter(request, names, limit=1000)
        context = f"{request}\n{world.rooms}"
        assert everything.best == fits, context
        assert dict(everything.refused) == refused, context
        limit = rng.choice([1, 2, 16])
        few = world.inventory.filter(request, names, limit=limit)
        assert few.best == fits[:limit], context
        if len(fits) < limit:
            assert dict(few.refused) == refused, context
        else:
            assert few.refused.items() <= refused.items(), context
        for name in names[:2]:
            _check_cards(world.inventory, world, request, theirs, name)


def _check_cards(inventory: Inventory, world: World, request, theirs: OPod, name: str) -> None:
    held = inventory.hold(request, name, until=1.0)
    expected = place_pod(world.cluster[name], theirs, world.rooms) if name in world.cluster else "node unregistered"
    if isinstance(expected, str):
        assert isinstance(held, Rejection)
        assert held.short == expected
    else:
        assert isinstance(held, Allocation)
        got = [
            [
                (s.device_id, s.memory_mib, s.cores, s.mig_placement and (s.mig_placement.start, s.mig_placement.size))
                for s in c.slices
            ]
            for c in held.containers
        ]
        assert got == expected
    inventory.release_hold(request.uid)


@pytest.mark.parametrize("seed", range(60))
def test_every_shape(seed: int) -> None:
    check(World(random.Random(seed)), 25)


@pytest.mark.parametrize("seed", range(40))
def test_shapes_that_stay_in_columns(seed: int) -> None:
    check(World(random.Random(10_000 + seed), nodes=40, plain=True), 25)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(100))
def test_long(seed: int) -> None:
    """Check more than 10⁵ requests."""
    for part in range(20):
        plain = part % 2 == 0
        check(World(random.Random(1_000_000 + seed * 100 + part), nodes=30, plain=plain), 51)
