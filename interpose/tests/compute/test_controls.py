"""The judge is not blind: what does not hold a container to its share is found to fail."""

from __future__ import annotations

from .cells import Device, Tenant
from .judge import faults

BLOCKS_A_SECOND = 3_168_000  # what launches of 1,056 blocks and 100 us take at 30 %


def test_no_limiter_fails(bench):
    [result] = bench.run(7, Tenant(30, "100us", controlled=False))
    assert faults(result), str(result)


def test_blocks_as_tokens_fail(bench):
    tokens = f"tokens={BLOCKS_A_SECOND}"
    [fits] = bench.run(7, Tenant(30, "100us", words=tokens, controlled=False))
    assert not faults(fits), str(fits)
    [other] = bench.run(7, Tenant(30, "10ms", words=tokens, controlled=False))
    assert faults(other), str(other)


def test_spans_without_turns_fail_beside_another_tenant(bench):
    results = bench.run(7, Tenant(30, "10ms"), Tenant(70, "50ms"), device=Device(turns=False))
    assert any(faults(result) for result in results), "; ".join(map(str, results))
    for result in results:
        assert not faults(result, at_most=True), str(result)
