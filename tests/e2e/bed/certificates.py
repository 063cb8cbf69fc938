"""The cluster's certificates: an authority, and a certificate for each part."""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

LIFE = dt.timedelta(days=30)
PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True)
class Authority:
    """A certificate authority. Its files are ``<name>.crt`` and ``<name>.key`` in a folder."""

    folder: Path
    name: str
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def create(cls, folder: Path, name: str) -> Self:
        """Create an authority and write its files."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _subject(name)
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        builder = _builder(subject, subject, key).add_extension(x509.BasicConstraints(True, None), critical=True)
        certificate = builder.add_extension(usage, critical=True).sign(key, hashes.SHA256())
        _write(folder, name, key, certificate)
        return cls(folder, name, key, certificate)

    @classmethod
    def load(cls, folder: Path, name: str) -> Self:
        """Read an authority from its files."""
        key = serialization.load_pem_private_key((folder / f"{name}.key").read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return cls(folder, name, key, x509.load_pem_x509_certificate((folder / f"{name}.crt").read_bytes()))

    def issue(
        self, file: str, common_name: str, *, group: str = "", names: Sequence[str] = (), client: bool = True
    ) -> None:
        """Write a certificate and its key.

        Args:
            file: Name of the files, without suffix.
            common_name: Common name, which is the user for Kubernetes.
            group: Organization, which is the group for Kubernetes.
            names: Host names and addresses of a server. With names, a server may use the certificate.
            client: Whether a client may use the certificate.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_subject(common_name, group), self.certificate.subject, key)
        uses = [ExtendedKeyUsageOID.CLIENT_AUTH] * client + [ExtendedKeyUsageOID.SERVER_AUTH] * bool(names)
        builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName([_name(name) for name in names]), False)
        _write(self.folder, file, key, builder.sign(self.key, hashes.SHA256()))


def token_keys(folder: Path) -> None:
    """Write the key pair that signs service-account tokens, ``sa.key`` and ``sa.pub``."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    _write_key(folder / "sa.key", key)
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    (folder / "sa.pub").write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, form))


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
    # Valid from two hours ago, because tests set clocks back.
    return builder.not_valid_before(now - dt.timedelta(hours=2)).not_valid_after(now + LIFE)


def _subject(common_name: str, group: str = "") -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)] if group else []
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _write(folder: Path, name: str, key: PrivateKey, certificate: x509.Certificate) -> None:
    (folder / f"{name}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    _write_key(folder / f"{name}.key", key)


def _write_key(path: Path, key: PrivateKey) -> None:
    path.touch(mode=0o600)
    form = serialization.PrivateFormat.PKCS8
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
