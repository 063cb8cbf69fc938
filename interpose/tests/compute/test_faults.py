"""Processes that die or stand still cost the others little, and only once."""

from __future__ import annotations

import signal

import pytest

from .cells import Tenant
from .judge import faults

KILLED = -signal.SIGKILL


def busy_after(result, at, seconds=1.0):
    """Share of the second that begins there."""
    return result.share(at, at + seconds)


@pytest.mark.parametrize("at_ms", [4000, 4003, 4011, 4017, 4026])
def test_a_killed_tenant_costs_the_other_a_moment(bench, at_ms):
    results = bench.run(at_ms, Tenant(50, "10ms", words=f"kill={at_ms}"), Tenant(50, "1ms"))
    assert results[0].statuses == [KILLED]
    assert results[0].share(5) == 0
    at = at_ms / 1000
    assert busy_after(results[1], at) >= 40 - 100 * 0.1, f"{results[1]}: {busy_after(results[1], at):.1f} %"
    assert not faults(results[1]), str(results[1])
    assert results[1].longest_wait <= 100, str(results[1])


@pytest.mark.parametrize("at_ms", [4000, 4003, 4011, 5017])
def test_threads_killed_in_line_hold_the_others_up_once(bench, at_ms):
    """Eight of them; each alone would cost the others 100 ms."""
    shape = f"kernels=a_1ms streams=8 kill={at_ms} | kernels=a_1ms"
    [result] = bench.run(at_ms, Tenant(30, shape, 2))
    assert sorted(result.statuses) == [KILLED, 0]
    assert result.longest_wait <= 100 + 9 * 1.2 * 100 / 30 + 20, str(result)
    assert 28 < result.share(5.5) < 32, str(result)


def test_killed_process_leaves_its_share_to_its_container(bench):
    for at_ms in (4000, 4007, 4013):
        both = Tenant(30, "10ms", words=f"kill={at_ms}")
        survivors = bench.run(at_ms, Tenant(30, "kernels=a_10ms", 2), both)
        assert not faults(survivors[0]), str(survivors[0])


def test_a_tenant_that_stands_still_loses_its_turn(bench):
    results = bench.run(7, Tenant(50, "1ms", words="freeze=5000:2000"), Tenant(50, "1ms"))
    assert results[0].share(5.2, 6.9) < 2, str(results[0])
    assert results[1].longest_wait <= 100, str(results[1])
    assert busy_after(results[1], 5.0, 1.5) >= 50 - 8, str(results[1])
    assert not faults(results[1]), str(results[1])
    assert results[0].share(8, 13) >= 46, str(results[0])


def test_a_process_that_stands_still_does_not_stop_its_container(bench):
    frozen = bench.run(7, Tenant(30, "1ms", 1, words="freeze=5000:3000"))[0]
    assert frozen.share(9, 13) >= 28, str(frozen)


@pytest.mark.parametrize("shape", ["100us", "1ms", "50ms"])
def test_stopped_process_leaves_its_share_to_its_container(bench, shape):
    both = bench.run(8, Tenant(40, shape, 3, words="freeze=5000:4000 victim=0"))[0]
    assert 40 - 4 <= both.share(5.5, 9) <= 40 + 4, str(both)
    assert not faults(both), str(both)


def test_stopped_process_does_not_keep_its_containers_turns(bench):
    results = bench.run(9, Tenant(40, "1ms", 2, words="freeze=5000:4000 victim=1"), Tenant(40, "kernels=a_3ms"))
    for result in results:
        assert 40 - 4 <= result.share(5.5, 9) <= 40 + 4, str(result)
        assert not faults(result), str(result)


@pytest.fixture
def faulty(bench, build_preset):
    """A bench whose processes may be told to die after the n-th store to what they share."""
    bench.preload, bench.seconds = str(build_preset("faults")), 6
    return bench


@pytest.mark.parametrize("tenants", [1, 2])
@pytest.mark.parametrize("first", [20, 60, 700])
def test_killed_at_any_store_it_costs_the_others_a_moment(faulty, first, tenants):
    """In its beginning and at work, beside another process of its container and beside another container's."""
    beside = [Tenant(40, "kernels=a_3ms", words="warm=0")] * (tenants - 1)
    for point in range(first, first + 40, 5 if tenants == 2 else 4):
        victim = {"HAMI_FAULT_AT": str(point)}
        results = faulty.run(point, Tenant(40, "100us", 2, "warm=0", first=victim), *beside)
        assert sorted(results[0].statuses) == [KILLED, 0], f"point {point}"
        for result in results:
            assert result.longest_wait <= 100 + 60, f"killed at point {point}: {result}"
            assert abs(result.share(4) - 40) < 4, f"killed at point {point}: {result}"
