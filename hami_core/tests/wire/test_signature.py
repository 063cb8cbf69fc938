"""Allocation signatures: what they cover, what they leave out, and what is refused."""

from __future__ import annotations

import contextlib

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hami_nvidia import rules
from hypothesis import given
from hypothesis import strategies as st

from hami_core.errors import ConfigError, WireError
from hami_core.model import Family, Resources
from hami_core.wire import keys, signature
from hami_core.wire.signature import SignedStatement

PRIVATE = signature.generate_private_key()
PUBLIC = PRIVATE.public_key()
OTHER = signature.generate_private_key()
ODD = Family("Odd", Resources("odd"), "odd.io/slices")

ANNOTATIONS = {
    keys.NODE: "n1",
    rules.ALLOCATED: "GPU-a,NVIDIA,1,1:;",
    rules.TO_ALLOCATE: "GPU-a,NVIDIA,1,1:;",
    keys.BIND_PHASE: "allocating",
    "odd.io/slices": "x",
    keys.MIG_ALLOCATIONS: '[{"containerIndex":0,"deviceIndex":0,"gpuUUID":"GPU-a","profile":"1g.5gb",'
    '"placement":{"start":6,"size":1}}]',
}


def statement(annotations, uid="uid-1", epoch=0):
    return signature.statement_of(uid, annotations, [ODD], epoch=epoch)


SIGNED = signature.sign(PRIVATE, statement(ANNOTATIONS, epoch=4))


def test_the_epoch_comes_back():
    assert signature.verify([OTHER.public_key(), PUBLIC], SIGNED, statement(ANNOTATIONS)) == 4
    assert signature.epoch_of(SIGNED) == 4
    assert SIGNED.startswith(f"v1:4:{signature.key_id(PUBLIC)}:")


def test_signature_excludes_what_node_plugins_write_later():
    later = {
        **ANNOTATIONS,
        rules.TO_ALLOCATE: ";",
        keys.BIND_PHASE: "success",
        keys.SIGNATURE: SIGNED,
        keys.MIG_ALLOCATIONS: ANNOTATIONS[keys.MIG_ALLOCATIONS].replace(
            "}}]", '},"migUUID":"MIG-a","gpuInstanceID":4,"computeInstanceID":0}]'
        ),
    }
    assert signature.verify([PUBLIC], SIGNED, statement(later)) == 4


@pytest.mark.parametrize(
    "change",
    [
        {keys.NODE: "n2"},
        {rules.ALLOCATED: "GPU-a,NVIDIA,2,1:;"},
        {rules.ALLOCATED: None},
        {rules.ALLOCATED: None, "hami.io/other-devices-allocated": ANNOTATIONS[rules.ALLOCATED]},
        {"hami.io/other-devices-allocated": "x,Y,1,1:;"},
        {"odd.io/slices": "y"},
        {keys.MIG_ALLOCATIONS: ""},
        {keys.MIG_ALLOCATIONS: ANNOTATIONS[keys.MIG_ALLOCATIONS].replace('"start":6', '"start":5')},
    ],
)
def test_any_change_of_the_allocation_breaks_the_signature(change):
    changed = {k: v for k, v in {**ANNOTATIONS, **change}.items() if v is not None}
    with pytest.raises(WireError, match="does not belong to this allocation"):
        signature.verify([PUBLIC], SIGNED, statement(changed))


def test_another_pod_or_epoch_breaks_the_signature():
    with pytest.raises(WireError, match="uid-2"):
        signature.verify([PUBLIC], SIGNED, statement(ANNOTATIONS, uid="uid-2"))
    with pytest.raises(WireError, match="does not belong"):
        signature.verify([PUBLIC], SIGNED.replace("v1:4:", "v1:5:"), statement(ANNOTATIONS))


def test_a_key_that_is_not_valid_is_named():
    with pytest.raises(
        WireError,
        match=f"signed with key {signature.key_id(PUBLIC)}, valid keys: {signature.key_id(OTHER.public_key())}",
    ):
        signature.verify([OTHER.public_key()], SIGNED, statement(ANNOTATIONS))


statements = st.builds(
    SignedStatement,
    st.text(max_size=6),
    st.text(max_size=6),
    st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=3),
    st.text(max_size=4),
    st.integers(0, 2**63 - 1),
)


@given(st.text("a1", min_size=1, max_size=8), st.data())
def test_no_two_statements_share_their_bytes(text, data):
    """Without lengths, the same characters cut into fields in two ways would have one signature."""

    def cut():
        ends = sorted(data.draw(st.lists(st.integers(0, len(text)), min_size=4, max_size=4)))
        uid, node, planned, key, value = (text[i:j] for i, j in zip([0, *ends], [*ends, len(text)], strict=True))
        return SignedStatement(uid, node, {key: value}, planned, epoch=1)

    one, two = cut(), cut()
    assert (one.canonical() == two.canonical()) == (one == two)


@given(statements)
def test_every_statement_verifies(wanted):
    assert signature.verify([PUBLIC], signature.sign(PRIVATE, wanted), wanted) == wanted.epoch


@given(st.text(max_size=140) | st.integers(0, len(SIGNED) - 1).map(lambda n: SIGNED[:n] + "A" + SIGNED[n + 1 :]))
def test_no_other_text_verifies(text):
    with contextlib.suppress(WireError):
        assert signature.verify([PUBLIC], text, statement(ANNOTATIONS)) == 4
        assert text == SIGNED


def test_an_epoch_is_at_most_a_signed_64_bit_number():
    largest = signature.sign(PRIVATE, statement(ANNOTATIONS, epoch=signature.MAX_EPOCH))
    assert signature.verify([PUBLIC], largest, statement(ANNOTATIONS)) == signature.MAX_EPOCH
    beyond = largest.replace(str(signature.MAX_EPOCH), str(signature.MAX_EPOCH + 1))
    assert signature.epoch_of(beyond) == -1
    with pytest.raises(WireError, match="malformed"):
        signature.verify([PUBLIC], beyond, statement(ANNOTATIONS))
    with pytest.raises(WireError, match="out of range"):
        signature.sign(PRIVATE, statement(ANNOTATIONS, epoch=signature.MAX_EPOCH + 1))


def test_one_signature_has_one_text():
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    verified = set()
    for letter in letters:
        with contextlib.suppress(WireError):
            signature.verify([PUBLIC], SIGNED[:-1] + letter, statement(ANNOTATIONS))
            verified.add(letter)
    assert verified == {SIGNED[-1]}


def test_keys_come_back_from_pem():
    private = signature.load_private_key(signature.private_key_pem(PRIVATE), where="f")
    assert signature.key_id(private.public_key()) == signature.key_id(PUBLIC)
    both = signature.public_key_pem(PUBLIC) + signature.public_key_pem(OTHER.public_key())
    assert [signature.key_id(k) for k in signature.load_public_keys(both, where="f")] == [
        signature.key_id(PUBLIC),
        signature.key_id(OTHER.public_key()),
    ]
    (half,) = signature.load_public_keys(signature.private_key_pem(PRIVATE), where="f")
    assert signature.key_id(half) == signature.key_id(PUBLIC)


def test_other_files_are_refused_by_name():
    curve = ec.generate_private_key(ec.SECP256R1())
    pem = curve.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = curve.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    for content in (pem, b"", b"nonsense", b"-----BEGIN PRIVATE KEY-----\n"):
        with pytest.raises(ConfigError, match=r"^key.pem: "):
            signature.load_private_key(content, where="key.pem")
    for content in (public, b"", b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"):
        with pytest.raises(ConfigError, match=r"^key.pem: "):
            signature.load_public_keys(content, where="key.pem")


CONSUMED = "hami.io/Eater-devices-allocated"
EATER = Family("Eater", Resources("eater"), "hami.io/Eater-devices-kept", to_allocate_key=CONSUMED)
EATEN = {
    **ANNOTATIONS,
    EATER.allocated_key: "E-0,Eater,1,1:;",
    CONSUMED: "E-0,Eater,1,1:;",
}


def signed_with_consumed_key():
    found = signature.statement_of("uid-1", EATEN, [ODD, EATER], epoch=4)
    return {**EATEN, keys.SIGNATURE: signature.sign(PRIVATE, found)}


@pytest.mark.parametrize("families", [[ODD, EATER], [ODD], []])
@pytest.mark.parametrize("left", ["E-0,Eater,1,1:;", ";", None])
def test_signature_leaves_out_an_allocated_key_that_is_consumed(families, left):
    signed = signed_with_consumed_key()
    later = {key: value for key, value in {**signed, CONSUMED: left}.items() if value is not None}
    found = signature.statement_of("uid-1", later, families)
    assert signature.verify([PUBLIC], signed[keys.SIGNATURE], found) == 4


@pytest.mark.parametrize("key", [EATER.allocated_key, rules.ALLOCATED, "odd.io/slices"])
@pytest.mark.parametrize("value", ["changed", None])
def test_keys_that_a_signature_names_are_covered(key, value):
    signed = signed_with_consumed_key()
    later = {k: v for k, v in {**signed, key: value}.items() if v is not None}
    with pytest.raises(WireError, match="does not belong to this allocation"):
        signature.verify([PUBLIC], signed[keys.SIGNATURE], signature.statement_of("uid-1", later, [ODD]))


def test_signature_that_leaves_out_the_family_of_its_reader_is_refused():
    text = f"{SIGNED}:{','.join(sorted(statement(ANNOTATIONS).values))}"
    added = {**ANNOTATIONS, "hami.io/acme-devices-allocated": "A-0,ACME,1,1:;", keys.SIGNATURE: text}
    acme = Family("ACME", Resources("acme"), "hami.io/acme-devices-allocated")
    with pytest.raises(WireError, match=r"does not cover hami\.io/acme-devices-allocated"):
        signature.statement_of("uid-1", added, [acme])
    with pytest.raises(WireError, match="does not belong"):
        signature.verify([PUBLIC], SIGNED, statement(added | {keys.SIGNATURE: SIGNED}))


KEEPER = Family(
    "Keeper", Resources("keeper"), CONSUMED, "hami.io/Keeper-to-allocate", kept_key="hami.io/Keeper-kept-allocated"
)


@pytest.mark.parametrize("families", [[ODD, KEEPER], [ODD], []])
@pytest.mark.parametrize("left", [";", None])
def test_signature_covers_the_kept_list_and_not_the_consumed_one(families, left):
    text = "K-0,Keeper,1,1:;"
    written = {**ANNOTATIONS, CONSUMED: text, KEEPER.kept_key: text}
    signed = signature.sign(PRIVATE, signature.statement_of("uid-1", written, [ODD, KEEPER], epoch=4))
    later = {k: v for k, v in {**written, CONSUMED: left, keys.SIGNATURE: signed}.items() if v is not None}
    assert signature.verify([PUBLIC], signed, signature.statement_of("uid-1", later, families)) == 4
    forged = signature.statement_of("uid-1", later | {KEEPER.kept_key: ";"}, families)
    with pytest.raises(WireError, match="does not belong to this allocation"):
        signature.verify([PUBLIC], signed, forged)
