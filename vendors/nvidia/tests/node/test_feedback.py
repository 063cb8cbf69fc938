"""HAMi's feedback as rules: which containers wait, whose limit pauses, and whose regions are read."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hami_interpose.feedback import Words
from hami_nvidia.feedback import Tenant, feedback, tenants_to_read
from hypothesis import given
from hypothesis import strategies as st


def tenant(priority=1, *cards, **how):
    return Tenant(frozenset(cards or ("a",)), priority, **how)


def look(tenants, **recent):
    """The words after one look at containers whose switches are on."""
    return feedback(tenants, {name: Words(1, value) for name, value in recent.items()})


def test_activity_is_counted_down_and_forgotten_after_two_looks():
    alone = {"x": tenant()}
    seen = []
    words = {"x": Words(1, 2)}
    for _ in range(3):
        words = feedback(alone, words)
        seen.append(words["x"].recent_kernel)
    assert seen == [1, 0, 0]


def test_the_lower_priority_waits_while_the_higher_is_active():
    both = {"high": tenant(0), "low": tenant(1)}
    found = look(both, high=2, low=2)
    assert found == {"high": Words(0, 1), "low": Words(1, -1)}
    assert feedback(both, found) == {"high": Words(0, 0), "low": Words(0, 0)}, "it resumes when the other is idle"
    assert look(both, high=1, low=-1)["low"].recent_kernel == 0, "one look without a launch is enough"


def test_a_suspended_container_does_not_count_as_active():
    three = {"high": tenant(0, "a"), "middle": tenant(1, "a", "b"), "low": tenant(2, "b")}
    found = look(three, high=2, middle=-1, low=2)
    assert found["middle"].recent_kernel == -1
    assert found["low"] == Words(0, 1)


def test_activity_on_another_card_suspends_nobody():
    assert look({"high": tenant(0, "a"), "low": tenant(1, "b")}, high=2, low=2)["low"].recent_kernel == 1


@pytest.mark.parametrize(("other", "switch"), [(2, 1), (1, 0), (0, 0), (-1, 0)])
def test_limit_holds_while_another_of_equal_priority_is_active(other, switch):
    assert look({"x": tenant(), "y": tenant()}, x=2, y=other)["x"].utilization_switch == switch


def test_a_too_large_count_is_capped():
    assert look({"x": tenant()}, x=2**31 - 1)["x"].recent_kernel == 1
    assert look({"x": tenant()}, x=-(2**31))["x"].recent_kernel == 0


def test_containers_without_words_are_ignored():
    assert look({"high": tenant(0), "low": tenant(1)}, low=2) == {"low": Words(0, 1)}


def test_only_cards_with_limits_or_unequal_priorities_are_read():
    a, b = frozenset("a"), frozenset("b")
    plain = {"x": tenant(1, "a"), "y": tenant(1, "b"), "z": tenant(1, "c")}
    assert not tenants_to_read(plain)
    assert tenants_to_read(plain | {"x": Tenant(a, 1, limited=a), "w": tenant(1, "a", "d")}) == {"x", "w"}
    assert tenants_to_read(plain | {"w": Tenant(b, 0)}) == {"y", "w"}
    assert not tenants_to_read({"x": Tenant(a, 1, limited=a, limit_may_pause=False), "y": tenant(1, "a")}), (
        "the limit never pauses"
    )


words = st.builds(Words, st.integers(0, 1), st.integers(-(2**31), 2**31 - 1))
tenants = st.builds(tenant, st.integers(0, 9), st.sampled_from("ab"), st.sampled_from("ab"))


@given(st.dictionaries(st.text("xyz", min_size=1, max_size=3), st.tuples(tenants, words), max_size=8))
def test_feedback_is_consistent_for_any_region_content(population):
    who = {name: found for name, (found, _) in population.items()}
    found = feedback(who, {name: said for name, (_, said) in population.items()})
    assert found.keys() == population.keys()
    for name, after in found.items():
        assert after.utilization_switch in (0, 1)
        assert after.recent_kernel in (-1, 0, 1)
        if after.recent_kernel < 0:
            assert after.utilization_switch == 1
            rivals = [n for n, t in who.items() if t.priority < who[name].priority and t.cards & who[name].cards]
            assert any(population[n][1].recent_kernel > 1 for n in rivals), "it waits for nobody"
    highest = min((t.priority for t in who.values()), default=0)
    assert all(found[n].recent_kernel >= 0 for n, t in who.items() if t.priority == highest), (
        "the highest priority never waits"
    )
    quiet = {n: replace(w, recent_kernel=min(w.recent_kernel, 0)) for n, (_, w) in population.items()}
    assert all(w.recent_kernel == 0 for w in feedback(who, quiet).values()), "nobody waits while no container is active"
