"""The signature over a pod's allocation: the scheduler signs at Bind, the node agent verifies before it acts.

The signature covers pod UID, node, the leader's epoch, the value of every ``…-allocated`` annotation, and the planned
MIG placements. It does not cover what node plugins write later: to-allocate, phase, ids of MIG instances.
The text is ``v1:<epoch>:<key id>:<base64url>``. If a node plugin consumes an annotation whose key ends in
``-allocated``, the signature leaves it out, and the text ends in ``:`` and a comma list of the keys that it covers.
Each signed part has its length in front, so two different statements never have the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from hami_core.errors import ConfigError, WireError
from hami_core.wire import keys, mig

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hami_core.model import Family

_CONTEXT: Final = b"hami.io/allocation-signature v1"
_TEXT = re.compile(
    r"v1:(0|[1-9][0-9]{0,18}):([0-9a-f]{16}):([A-Za-z0-9_-]{85}[AQgw])(?::([A-Za-z0-9_./,-]{1,8192}))?", re.ASCII
)
"""The last character of a signature carries only two bits, and other values are refused. So each signature has exactly
one text."""
_PUBLIC_PEM = re.compile(rb"-----BEGIN PUBLIC KEY-----.+?-----END PUBLIC KEY-----\n?", re.DOTALL)
MAX_EPOCH: Final = 2**63 - 1

PrivateKey = Ed25519PrivateKey
PublicKey = Ed25519PublicKey


@dataclass(frozen=True, slots=True)
class SignedStatement:
    """The content that a signature covers.

    Attributes:
        pod_uid: The pod's UID.
        node: The node that the pod is bound to.
        values: Allocation annotations by key.
        mig: Planned MIG reservations in canonical form; empty: none.
        epoch: The leader's epoch. `verify` takes it from the text instead.
        names_keys: Whether the text of the signature names the covered keys.
    """

    pod_uid: str
    node: str
    values: Mapping[str, str] = field(default_factory=dict)
    mig: str = ""
    epoch: int = 0
    names_keys: bool = False

    def canonical(self) -> bytes:
        """Return the bytes to sign."""
        parts: list[bytes | str] = [_CONTEXT, self.pod_uid, self.node, str(self.epoch), self.mig, str(len(self.values))]
        for key in sorted(self.values):
            parts += (key, self.values[key])
        return b"".join(_prefixed(part) for part in parts)


def statement_of(
    pod_uid: str, annotations: Mapping[str, str], families: Iterable[Family] = (), *, epoch: int = 0
) -> SignedStatement:
    """Build the statement of a pod's annotations, for the signer and for the verifier.

    The statement has every annotation whose key has HAMi's form (``hami.io/…-allocated``), and the ``allocated_key`` of
    the given families. So a verifier needs only families whose key has another form.

    An annotation that a node plugin may consume is left out, even if its key has that form: a family's
    ``to_allocate_key``, and its ``allocated_key`` if it has a ``kept_key``. Since a verifier may not know this family,
    the signature's text then names the keys that it covers.

    Args:
        pod_uid: The pod's UID.
        annotations: The pod's annotations.
        families: Families whose allocation keys are included.
        epoch: The leader's epoch.

    Raises:
        WireError: The MIG reservations are malformed, or the text of the signature leaves out a family's allocation.
    """
    families = tuple(families)
    own = {key for family in families if (key := family.kept_key or family.allocated_key)}
    covered = {key for key in annotations if key in own or keys.is_allocated_key(key)}
    match = _TEXT.fullmatch(annotations.get(keys.SIGNATURE, ""))
    named = match[4] if match else None
    if named is None:
        consumed = covered & {key for f in families for key in (f.to_allocate_key, f.allocated_key)} - own
        names_keys = bool(consumed)
        covered -= consumed
    else:
        names_keys = True
        covered = annotations.keys() & set(named.split(","))
        if missing := sorted(own & annotations.keys() - covered):
            raise WireError(keys.SIGNATURE, -1, f"does not cover {missing[0]}")
    values = {key: annotations[key] for key in covered}
    reserved = mig.decode_reservations(annotations.get(keys.MIG_ALLOCATIONS, ""))
    planned = sorted((r.planned for r in reserved), key=lambda r: (r.container_index, r.device_index))
    text = mig.encode_reservations(planned) if planned else ""
    return SignedStatement(pod_uid, annotations.get(keys.NODE, ""), values, text, epoch, names_keys)


def sign(private_key: PrivateKey, statement: SignedStatement) -> str:
    """Sign a statement, and return the value of the annotation `keys.SIGNATURE`."""
    if not 0 <= statement.epoch <= MAX_EPOCH:
        raise WireError(keys.SIGNATURE, -1, f"epoch {statement.epoch} is out of range")
    signature = private_key.sign(statement.canonical())
    named = f":{','.join(sorted(statement.values))}" if statement.names_keys else ""
    return f"v1:{statement.epoch}:{key_id(private_key.public_key())}:{_text(signature)}{named}"


def verify(public_keys: Sequence[PublicKey], text: str, statement: SignedStatement) -> int:
    """Verify a signature text against a statement.

    Args:
        public_keys: Keys that are valid now; two during a rotation.
        text: The annotation.
        statement: The statement of the pod as read. Its epoch is ignored.

    Returns:
        The epoch that was signed.

    Raises:
        WireError: The text is malformed, its key is not valid, or it is not the signature of this statement.
    """
    match = _TEXT.fullmatch(text)
    epoch = int(match[1]) if match else -1
    if match is None or epoch > MAX_EPOCH:
        raise WireError(keys.SIGNATURE, 0, "malformed, expected v1:<epoch>:<key id>:<signature>")
    chosen = [key for key in public_keys if key_id(key) == match[2]]
    if not chosen:
        known = ", ".join(key_id(key) for key in public_keys) or "none"
        raise WireError(keys.SIGNATURE, match.start(2), f"signed with key {match[2]}, valid keys: {known}")
    signature = base64.b64decode(match[3] + "==", altchars=b"-_", validate=True)
    try:
        chosen[0].verify(signature, replace(statement, epoch=epoch).canonical())
    except InvalidSignature:
        problem = f"does not belong to this allocation (pod UID {statement.pod_uid}, node {statement.node})"
        raise WireError(keys.SIGNATURE, match.start(3), problem) from None
    return epoch


def epoch_of(text: str) -> int:
    """Return the epoch in a signature text, without verifying it; -1: the text is malformed."""
    match = _TEXT.fullmatch(text)
    return int(match[1]) if match and int(match[1]) <= MAX_EPOCH else -1


def signer_of(text: str) -> str:
    """Return the key id in a signature text, without verifying it; empty: the text is malformed."""
    match = _TEXT.fullmatch(text)
    return match[2] if match else ""


def key_id(key: PublicKey) -> str:
    """Return the short name of a public key: 16 hexadecimal digits of its SHA-256."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()[:16]


def generate_private_key() -> PrivateKey:
    """Make a new signing key."""
    return Ed25519PrivateKey.generate()


def private_key_pem(key: PrivateKey) -> bytes:
    """Encode a signing key as unencrypted PKCS #8 PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def public_key_pem(key: PublicKey) -> bytes:
    """Encode a public key as PEM."""
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def load_private_key(pem: bytes, *, where: str) -> PrivateKey:
    """Read a signing key from PEM.

    Args:
        pem: Content of the file.
        where: Setting or file name, for errors.

    Raises:
        ConfigError: Not PEM, or not an Ed25519 private key.
    """
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError(where, f"not a private key in PEM form: {error}", "generate an Ed25519 key") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(where, f"a {type(key).__name__}, not an Ed25519 key", "generate an Ed25519 key")
    return key


def load_public_keys(pem: bytes, *, where: str) -> tuple[PublicKey, ...]:
    """Read all public keys of a PEM file; there are several during a rotation. A private key gives its public key.

    Args:
        pem: Content of the file.
        where: Setting or file name, for errors.

    Raises:
        ConfigError: The file has no key, a key that is not Ed25519, or a private key together with other blocks.
    """
    blocks = max(pem.count(b"-----BEGIN"), pem.count(b"-----END"))
    if b"PRIVATE KEY-----" in pem:
        if blocks > 1:
            raise ConfigError(where, "holds a private key and more", "write public keys alone into it")
        return (load_private_key(pem, where=where).public_key(),)
    found: list[PublicKey] = []
    for block in _PUBLIC_PEM.findall(pem):
        try:
            key = serialization.load_pem_public_key(block)
        except (ValueError, UnsupportedAlgorithm) as error:
            raise ConfigError(where, f"not a public key in PEM form: {error}") from None
        if not isinstance(key, Ed25519PublicKey):
            raise ConfigError(where, f"a {type(key).__name__}, not an Ed25519 key")
        found.append(key)
    if found and len(found) < blocks:
        problem = f"holds {blocks} blocks, of which {len(found)} are whole public keys"
        raise ConfigError(where, problem, "write '-----BEGIN PUBLIC KEY-----' blocks alone, each with its end")
    if not found:
        raise ConfigError(where, "holds no PEM public key", "write '-----BEGIN PUBLIC KEY-----' blocks")
    return tuple(found)


def _text(signature: bytes) -> str:
    return base64.urlsafe_b64encode(signature).rstrip(b"=").decode()


def _prefixed(part: bytes | str) -> bytes:
    raw = part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass")
    return len(raw).to_bytes(8, "big") + raw
