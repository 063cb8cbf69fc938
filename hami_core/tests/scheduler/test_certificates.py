"""Decisions about credentials, by stored state and time: certificates, and the ring of signing keys."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st

from hami_core.scheduler.credentials import certificates, ring
from hami_core.scheduler.credentials.ring import Ring, Times
from hami_core.wire.signature import generate_private_key, key_id, private_key_pem, public_key_pem

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
YEAR, HOUR = timedelta(days=365), timedelta(hours=1)
NAMES = ("hami-scheduler.hami.svc", "127.0.0.1")


def stored(pair):
    return pair.certificate, pair.key, b"".join(pair.authorities)


def test_a_pair_reads_back_as_it_was_made():
    pair = certificates.issue(NAMES, NOW, YEAR)
    assert certificates.read(*stored(pair)) == pair
    assert pair.expires == NOW + YEAR
    leaf = x509.load_pem_x509_certificate(pair.certificate)
    assert leaf.not_valid_before_utc == NOW - HOUR, "clocks may be behind"
    ssl.create_default_context(cadata=pair.authorities[0].decode())


def test_pair_is_due_after_two_thirds_or_for_a_new_name():
    pair = certificates.issue(NAMES, NOW, YEAR)
    assert pair.due(NAMES, NOW) == ""
    assert pair.due(NAMES[:1], NOW) == "", "an additional name does no harm"
    assert pair.due(NAMES, NOW + YEAR * 2 / 3 - timedelta(seconds=1)) == ""
    assert "two thirds" in pair.due(NAMES, NOW + YEAR * 2 / 3)
    assert "other.svc" in pair.due((*NAMES, "other.svc"), NOW)


def test_earlier_authorities_stay_until_they_have_run_out():
    first = certificates.issue(NAMES, NOW, YEAR)
    second = certificates.issue(NAMES, NOW + YEAR * 2 / 3, YEAR, beside=first.authorities)
    assert second.authorities[1:] == first.authorities
    third = certificates.issue(NAMES, NOW + YEAR * 4 / 3, YEAR, beside=second.authorities)
    assert third.authorities[1:] == second.authorities[:1], "the first has expired"


def test_bundle_keeps_other_authorities_during_the_overlap():
    other = certificates.issue(NAMES, NOW, YEAR)
    pair = certificates.issue(NAMES, NOW, YEAR)
    mine = b"".join(pair.authorities)
    present = b"".join(other.authorities) + b"-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n"
    assert certificates.bundle(pair, present, NOW) == mine + b"".join(other.authorities)
    assert certificates.bundle(pair, present, NOW + certificates.OVERLAP) == mine
    assert certificates.bundle(pair, mine, NOW) == mine


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda c, k, a: (b"", k, a), "tls.crt is missing"),
        (lambda c, k, a: (c[:80], k, a), "tls.crt holds no certificate"),
        (lambda c, k, a: (c, k[:60], a), "tls.key is not a private key"),
        (lambda c, k, a: (c, certificates.issue(NAMES, NOW, YEAR).key, a), "tls.key does not belong to tls.crt"),
        (lambda c, k, a: (c, k, certificates.issue(NAMES, NOW, YEAR).authorities[0]), "was not signed by the first"),
        (lambda c, k, a: (c, k, b""), "ca.crt is missing"),
    ],
)
def test_damage_is_named(spoil, words):
    with pytest.raises(certificates.DamagedError, match=words):
        certificates.read(*spoil(*stored(certificates.issue(NAMES, NOW, YEAR))))


@given(st.binary(max_size=300), st.binary(max_size=300), st.binary(max_size=300))
def test_random_bytes_are_always_reported_as_damaged(certificate, key, authorities):
    with pytest.raises(certificates.DamagedError):
        certificates.read(certificate, key, authorities)


def test_one_bundle_verifies_old_and_new_certificates(tmp_path: Path):
    first = certificates.issue(NAMES, datetime.now(UTC), YEAR)
    second = certificates.issue(NAMES, datetime.now(UTC), YEAR, beside=first.authorities)
    for pair in (first, second):
        assert handshake(pair, b"".join(second.authorities))
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(second, b"".join(first.authorities))


def handshake(pair, trusted: bytes) -> bool:
    from hami_core.http.tls import empty_context, load_pair

    server = empty_context()
    load_pair(server, pair.certificate, pair.key, where="test")
    client = ssl.create_default_context(cadata=trusted.decode())
    a, b = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(a, b, server_hostname=NAMES[0]),
        server.wrap_bio(b, a, server_side=True),
    )
    done = [False, False]
    for _ in range(10):
        for number, end in enumerate(ends):
            try:
                end.do_handshake()
                done[number] = True
            except ssl.SSLWantReadError:
                continue
    return all(done)


# --- signing keys --------------------------------------------------------------------------------------------------

TIMES = Times(timedelta(days=90), timedelta(minutes=5))


def step(state: Ring, now, *, in_use=frozenset(), signs=None):
    """One step, with the ring written to a Secret and read back."""
    newest = state.private[-1].id if state.private else ""
    moved = ring.advance(state, TIMES, now, in_use=in_use, signs=newest if signs is None else signs)
    again = ring.read(moved.entries())
    assert [(k.id, k.made, k.private is None) for k in again.keys] == [
        (k.id, k.made, k.private is None) for k in moved.keys
    ]
    return again


def test_key_goes_from_next_to_gone():
    first = step(Ring(), NOW)
    assert len(first.private) == 1
    assert step(first, NOW + TIMES.lifetime - HOUR).entries() == first.entries(), "nothing to do"
    later = NOW + TIMES.lifetime
    both = step(first, later)
    assert both.private[0].id == first.keys[0].id
    assert len(both.private) == 2
    old, new = both.keys
    assert set(both.published()) == {f"{old.stem}.pem", f"{new.stem}.pem"}
    assert ring.choose(both, TIMES, later, {old.id: 1e6, new.id: 0.0}) == old, "agents have not read the new one yet"
    assert ring.choose(both, TIMES, later, {old.id: 1e6, new.id: 300.0}) == new
    settled = later + TIMES.delay + TIMES.skew
    retired = step(both, settled, in_use={old.id})
    assert [k.private is None for k in retired.keys] == [True, False]
    assert set(retired.published()) == set(both.published())
    assert step(retired, settled + TIMES.skew, in_use={old.id}).entries() == retired.entries(), "a live pod needs it"
    assert step(retired, settled + TIMES.skew, in_use=None).entries() == retired.entries(), "key use is unknown"
    assert [k.id for k in step(retired, settled + TIMES.skew).keys] == [new.id]


def test_no_new_key_is_made_before_the_next_one_signs():
    both = step(step(Ring(), NOW), NOW + TIMES.lifetime)
    much_later = NOW + 3 * TIMES.lifetime
    assert step(both, much_later, signs=both.keys[0].id).entries() == both.entries()


def test_clock_that_is_an_hour_off_does_no_harm():
    first = step(Ring(), NOW + HOUR)  # made by a replica that is ahead
    assert step(first, NOW).entries() == first.entries()
    assert ring.choose(first, TIMES, NOW, {first.keys[0].id: 0.0}) == first.keys[0]
    both = step(first, NOW + HOUR + TIMES.lifetime)
    old, new = both.keys
    behind = NOW + TIMES.lifetime
    assert ring.choose(both, TIMES, behind, {old.id: 500.0, new.id: 299.0}) == old
    assert ring.choose(both, TIMES, behind, {old.id: 500.0, new.id: 300.0}) == new, "this replica saw the delay pass"
    assert step(both, behind).entries() == both.entries()


def test_new_replica_signs_at_once_with_an_old_published_key():
    both = step(step(Ring(), NOW), NOW + TIMES.lifetime)
    old, new = both.keys
    fresh = {old.id: 0.0, new.id: 0.0}
    assert ring.choose(both, TIMES, new.made + TIMES.delay, fresh) == old
    assert ring.choose(both, TIMES, new.made + TIMES.delay + TIMES.skew, fresh) == new
    assert ring.choose(both, TIMES, NOW, {}) is None, "nothing is published"


def test_damaged_entries_are_named_and_left_alone():
    key = generate_private_key()
    other = generate_private_key()
    good = step(Ring(), NOW)
    damaged = {
        f"20260101T000000Z-{key_id(key.public_key())}.key": private_key_pem(key)[:50],
        f"20260101T000000Z-{key_id(key.public_key())}.pub": public_key_pem(other.public_key()),
        "20261301T000000Z-0123456789abcdef.key": b"",
        "notes.txt": b"mine",
    }
    read = ring.read({**good.entries(), **damaged})
    assert [k.id for k in read.keys] == [k.id for k in good.keys]
    assert read.damaged.keys() == damaged.keys()
    assert not damaged.keys() & read.entries().keys()
    assert ring.advance(read, TIMES, NOW, in_use=frozenset(), signs="") == read


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 1), st.floats(0, 40 * 86400), st.integers(-3600, 3600)), min_size=1, max_size=40),
    st.integers(0, 3),
)
def test_replicas_with_any_clocks_sign_with_published_keys(steps, kept):
    """Time passes; the replicas act in turn, each with its own clock; some pods keep an old key in use."""
    state, now = Ring(), NOW
    seen: list[dict[str, datetime]] = [{}, {}]
    signs = ["", ""]
    pods: list[str] = []
    for who, pause, offset in steps:
        now += timedelta(seconds=pause)
        clock = now + timedelta(seconds=offset)
        state = ring.read(ring.advance(state, TIMES, clock, in_use=frozenset(pods), signs=signs[who]).entries())
        seen[who] = {k.id: seen[who].get(k.id, now) for k in state.keys}
        chosen = ring.choose(state, TIMES, clock, {i: (now - at).total_seconds() for i, at in seen[who].items()})
        assert chosen is not None
        assert chosen.private is not None
        signs[who] = chosen.id
        pods = [*pods, chosen.id][-kept:] if kept else []
        published = {name.split("-")[1][:16] for name in state.published()}
        assert {chosen.id, *pods} <= published
        assert len(state.keys) <= 3 + kept
