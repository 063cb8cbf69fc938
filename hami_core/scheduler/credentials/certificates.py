"""Certificates of the webhook: make a pair, read one back, decide when to renew it. No I/O; the time is passed in.

Each pair has its own certificate authority. The authority's key signs that one certificate and is then discarded, so
nobody can sign another. A renewal therefore makes a new authority, and the API server must trust it before its
certificate is served. The authorities of earlier certificates are kept until those certificates have expired.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

BACKDATE: Final = timedelta(hours=1)
"""A certificate's validity begins so long before it is made, since the clocks of other machines may be behind."""
OVERLAP: Final = timedelta(minutes=5)
"""After a new pair is made, authorities that only the webhook configuration names stay there for this time."""
_BEGIN: Final = b"-----BEGIN CERTIFICATE-----"


class DamagedError(Exception):
    """A pair can't be used; the message names the entry and the problem."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A server certificate with its key and the authorities to trust, in PEM form.

    Attributes:
        certificate: The server certificate.
        key: Its private key.
        authorities: Certificates to trust: this certificate's authority first, then earlier ones.
        names: DNS names and addresses of the server.
        issued: When it was made.
        expires: When it expires.
    """

    certificate: bytes
    key: bytes
    authorities: tuple[bytes, ...]
    names: frozenset[str]
    issued: datetime
    expires: datetime

    @property
    def renew_at(self) -> datetime:
        """The time after two thirds of its life."""
        return self.issued + (self.expires - self.issued) * 2 / 3

    def due(self, names: Iterable[str], now: datetime) -> str:
        """Why a new pair is needed; empty: this one will do."""
        missing = sorted(set(names) - self.names)
        if missing:
            return f"it is not valid for {', '.join(missing)}"
        if now >= self.renew_at:
            return f"two thirds of its life are over, it expires at {self.expires.isoformat()}"
        return ""


def issue(names: Sequence[str], now: datetime, lifetime: timedelta, *, beside: Iterable[bytes] = ()) -> Pair:
    """Make a pair.

    Args:
        names: DNS names and addresses of the server, the main one first.
        now: The present time.
        lifetime: How long it is valid from now on.
        beside: Authorities of earlier certificates. Expired ones are left out.
    """
    now = now.replace(microsecond=0)
    start, end = now - BACKDATE, now + lifetime
    serial = x509.random_serial_number()
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = _name(f"HAMi webhook authority {serial:x}"[:64])
    identifier = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())
    authority = (
        _builder(issuer, issuer, authority_key, start, end)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    certificate = (
        _builder(_name(names[0][:64]), issuer, key, start, end)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier),
            critical=False,
        )
        .sign(authority_key, hashes.SHA256())
    )
    earlier = [pem for pem in beside if not _is_over(pem, now)]
    return Pair(
        _pem(certificate),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
        (_pem(authority), *earlier),
        frozenset(names),
        now,
        certificate.not_valid_after_utc,
    )


def read(certificate: bytes, key: bytes, authorities: bytes) -> Pair:
    """Read a pair back.

    Raises:
        DamagedError: An entry is malformed, or the entries don't belong together.
    """
    found = _certificates(certificate, "tls.crt")
    trusted = _certificates(authorities, "ca.crt")
    try:
        private = serialization.load_pem_private_key(key, password=None)
    except (ValueError, TypeError) as error:
        raise DamagedError(f"tls.key is not a private key in PEM form: {error}") from error
    leaf = found[0]
    if private.public_key() != leaf.public_key():
        raise DamagedError("tls.key does not belong to tls.crt")
    try:
        leaf.verify_directly_issued_by(trusted[0])
    except (ValueError, TypeError, InvalidSignature) as error:
        raise DamagedError("tls.crt was not signed by the first certificate of ca.crt") from error
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError) as error:
        raise DamagedError(f"tls.crt has no subject alternative names: {error}") from error
    texts = [str(name.value) for name in names if isinstance(name, x509.DNSName | x509.IPAddress)]
    return Pair(
        _pem(leaf),
        key,
        tuple(_pem(one) for one in trusted),
        frozenset(texts),
        leaf.not_valid_before_utc + BACKDATE,
        leaf.not_valid_after_utc,
    )


def bundle(pair: Pair, present: bytes, now: datetime) -> bytes:
    """The authorities that a webhook configuration should name.

    Args:
        pair: The pair that is served, or will be once its authority is trusted.
        present: The authorities that the configuration names now.
        now: The present time.

    Returns:
        The pair's authorities. For `OVERLAP` after the pair was made, also the present ones that have not expired:
        another replica may still serve a certificate of theirs. Malformed entries are dropped.
    """
    wanted = list(pair.authorities)
    if abs(now - pair.issued) < OVERLAP:
        wanted += [pem for pem in split(present) if pem not in wanted and not _is_over(pem, now)]
    return b"".join(wanted)


def split(text: bytes) -> tuple[bytes, ...]:
    """Every certificate of a PEM text, in normal form. Malformed ones are left out."""
    found = []
    for part in text.split(_BEGIN)[1:]:
        try:
            found.append(_pem(x509.load_pem_x509_certificate(_BEGIN + part)))
        except ValueError:
            continue
    return tuple(found)


def _certificates(text: bytes, entry: str) -> list[x509.Certificate]:
    if not text:
        raise DamagedError(f"{entry} is missing")
    try:
        return x509.load_pem_x509_certificates(text)
    except ValueError as error:
        raise DamagedError(f"{entry} holds no certificate in PEM form: {error}") from error


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, start: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _is_over(pem: bytes, now: datetime) -> bool:
    """Whether a certificate has expired, even if our clock is up to `BACKDATE` ahead."""
    return x509.load_pem_x509_certificate(pem).not_valid_after_utc + BACKDATE < now


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
