from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_core.agent.judge import Claim, is_whole, misfit
from hami_core.model import ContainerKind, ContainerSlices, Device, MigPlacement, MigProfile, Slice

APP, INIT, SIDECAR = ContainerKind.APP, ContainerKind.INIT, ContainerKind.SIDECAR
CARD = Device("c0", 0, 4, 1000, 100, "T", "F")
CARDS = {"c0": CARD}


def held(kind, mib, cores=0, card="c0"):
    return ContainerSlices("x", kind, (Slice(card, "F", mib, cores),) if mib else ())


def claim(uid, *containers, epoch=0):
    return Claim(uid, f"ns/{uid}", tuple(containers), epoch)


def least_memory(*containers):
    """MiB of the smallest card that the containers fit on."""
    asked = claim("a", *containers)
    return next(mib for mib in range(2000) if not misfit(asked, [], {"c0": replace(CARD, memory_mib=mib, slots=9)}))


def test_init_containers_run_one_after_the_other_beside_sidecars():
    containers = [held(INIT, 500), held(SIDECAR, 100), held(INIT, 300), held(APP, 200), held(APP, 150)]
    assert least_memory(*containers) == 500
    assert least_memory(held(SIDECAR, 100), held(INIT, 500), held(APP, 50)) == 600
    assert not misfit(claim("a", *containers), [], {"c0": replace(CARD, slots=3)})
    assert "needs 3 slots" in misfit(claim("a", *containers), [], {"c0": replace(CARD, slots=2)})


KINDS = st.sampled_from([APP, INIT, SIDECAR])


@given(st.lists(st.tuples(KINDS, st.integers(1, 99)), min_size=1, max_size=6))
def test_the_peak_is_the_highest_use_at_any_moment(containers):
    early = [c for c in containers if c[0] is not APP]
    apps = [c for c in containers if c[0] is APP]
    moments, sidecars = [0], 0
    for kind, mib in early:
        moments.append(sidecars + mib)
        sidecars += mib if kind is SIDECAR else 0
    moments.append(sidecars + sum(mib for _, mib in apps))
    assert least_memory(*(held(kind, mib) for kind, mib in (*early, *apps))) == max(moments)


def test_a_card_named_in_two_families_counts_for_both():
    both = ContainerSlices("x", APP, (Slice("c0", "F", 600, 0), Slice("c0", "G", 500, 0)))
    assert "needs 600 MiB, 500 of 1000 MiB are free" in misfit(claim("a", both), [], CARDS)
    assert "(held by ns/a)" in misfit(claim("b", held(APP, 1)), [claim("a", both)], CARDS)


def test_a_misfit_names_the_amount_and_the_holders():
    others = [claim("a", held(APP, 600, 50))]
    assert misfit(claim("b", held(APP, 400, 50)), others, CARDS) == ""
    assert "needs 401 MiB, 400 of 1000 MiB are free (held by ns/a)" in misfit(claim("b", held(APP, 401)), others, CARDS)
    assert "needs 51 % of its cores, 50 % are free" in misfit(claim("b", held(APP, 1, 51)), others, CARDS)
    four = [claim(str(i), held(APP, 1)) for i in range(4)]
    assert "needs 1 slots, 0 of 4 are free" in misfit(claim("b", held(APP, 1)), four, CARDS)
    assert "is not on this node" in misfit(claim("b", held(APP, 1, card="c9")), [], CARDS)


def test_seven_instances_of_a_seventh_fit_on_a_card():
    """HAMi rounds an instance's share of the cores up."""
    card = replace(CARD, slots=7, mig_profiles=(MigProfile("1g.10gb", 100, 15, 1, ()),))
    holders = [claim(str(n), held(APP, 100, 15)) for n in range(6)]
    assert not misfit(claim("last", held(APP, 100, 15)), holders, {"c0": card})
    assert "needs 15 % of its cores, 10 % are free" in misfit(claim("last", held(APP, 100, 15)), holders, CARDS)


def test_a_pod_does_not_compete_with_itself():
    assert misfit(claim("a", held(APP, 600)), [claim("a", held(APP, 600))], CARDS) == ""


def test_all_cores_of_a_card_exclude_other_pods():
    alone = [claim("a", held(APP, 10, 100))]
    assert "to itself" in misfit(claim("b", held(APP, 10, 0)), alone, CARDS)
    assert "to itself" in misfit(claim("b", held(APP, 10, 100)), [claim("a", held(APP, 10, 0))], CARDS)


@given(st.lists(st.tuples(st.integers(1, 400), st.integers(0, 60)), max_size=12))
def test_admitted_pods_never_exceed_a_card(asked):
    admitted: list[Claim] = []
    for number, (mib, cores) in enumerate(asked):
        one = claim(f"p{number}", held(APP, mib, cores))
        if not misfit(one, admitted, CARDS):
            admitted.append(one)
    slices = [s for c in admitted for one in c.containers for s in one.slices]
    assert sum(s.memory_mib for s in slices) <= 1000
    assert sum(s.cores for s in slices) <= 100
    assert len(slices) <= 4


def test_whole_devices():
    whole = claim("a", held(APP, 1000, 100))
    slices = whole.containers[0].slices
    assert is_whole(slices, whole, [], CARDS)
    assert not is_whole(slices, whole, [claim("b", held(APP, 0), held(APP, 1))], CARDS)
    assert not is_whole((Slice("c0", "F", 999, 100),), whole, [], CARDS)
    assert not is_whole((Slice("c0", "F", 1000, 50),), whole, [], CARDS)
    twice = claim("a", held(INIT, 1000, 100), held(APP, 1000, 100))
    assert not is_whole(slices, twice, [], CARDS)
    assert not is_whole((), whole, [], CARDS)
    scaled = {"c0": replace(CARD, cores=200)}
    assert not is_whole(slices, whole, [], scaled)


@pytest.mark.parametrize(
    ("mib", "cores", "slots", "whole"),
    [
        (900, 100, 4, True),
        (899, 100, 4, False),
        (950, 100, 4, True),
        (900, 0, 4, False),  # 100 MiB are left in the register: another pod may come
        (1000, 0, 4, True),
        (900, 0, 1, True),
    ],
)
def test_whole_means_all_usable_memory_and_no_later_pod(mib, cores, slots, whole):
    cards = {"c0": replace(CARD, reserved_mib=100, slots=slots)}
    asked = claim("a", held(APP, mib, cores))
    assert is_whole(asked.containers[0].slices, asked, [], cards) == whole
    if whole and slots > 1:
        assert misfit(claim("b", held(APP, 1)), [asked], cards)


def test_a_device_that_is_not_offered_admits_no_pod():
    cards = {"c0": replace(CARD, healthy=False, not_offered="card is in MIG mode")}
    assert "does not fit on device c0: card is in MIG mode" in misfit(claim("a", held(APP, 1)), [], cards)


def test_claims_are_ordered_by_epoch_then_uid():
    order = sorted([claim("b", epoch=1), claim("a", epoch=1), claim("z", epoch=2)], key=lambda c: c.order)
    assert [c.uid for c in order] == ["z", "a", "b"]


def test_two_instances_never_share_a_place():
    def part(start, size):
        piece = Slice("c0", "F", 100, 15, mig_profile="1g", mig_placement=MigPlacement(start, size))
        return ContainerSlices("x", APP, (piece,))

    card = {"c0": replace(CARD, slots=7, mig_profiles=(MigProfile("1g.10gb", 100, 15, 1, ()),))}
    assert not misfit(claim("a", part(2, 2)), [claim("b", part(0, 2)), claim("c", part(4, 4))], card)
    text = misfit(claim("a", part(3, 1)), [claim("b", part(2, 2))], card)
    assert (
        text
        == "its allocation does not fit on device c0: the place of its MIG instance, 3 to 3, is taken (held by ns/b)"
    )
