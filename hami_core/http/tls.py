"""TLS for our listeners: loads certificates, reloads them while serving, makes self-signed ones for a first start.

A listener keeps its context object. A new certificate is loaded into that object, and the next handshake uses it. If a
new pair does not load, a warning is logged and the old pair stays.
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
import ssl
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import structlog
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from watchfiles import awatch

from hami_core import clock as wall
from hami_core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

log = structlog.get_logger(__name__)

RECHECK_S: Final = 60.0
"""Files are compared this often even without a notification, because some mounts send none."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Files with certificate chain and key (PEM). With ``client_ca``, clients need a certificate of that CA (mTLS)."""

    certificate: Path
    key: Path
    client_ca: Path | None = None

    def digest(self) -> bytes:
        """A fingerprint of the files' content."""
        paths = [self.certificate, self.key, *([self.client_ca] if self.client_ca else [])]
        return hashlib.sha256(b"\0".join(path.read_bytes() for path in paths)).digest()


def context(files: TlsFiles) -> ssl.SSLContext:
    """A server context, TLS 1.2 and later.

    Raises:
        ConfigError: A file is missing, or key and certificate don't belong together.
    """
    made = empty_context()
    _load(made, files)
    return made


def empty_context() -> ssl.SSLContext:
    """A server context, TLS 1.2 and later, without a certificate; `load_pair` loads the first and later ones."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    return made


def load_pair(target: ssl.SSLContext, certificate: bytes, key: bytes, *, where: str) -> None:
    """Load a PEM pair from memory without writing the key to a disk. The next handshake uses it.

    Args:
        target: The context, which may be in use.
        certificate: Certificate chain.
        key: Its private key.
        where: Source of the pair, for errors.

    Raises:
        ConfigError: The pair does not load; the context keeps its old one.
    """
    # Python's ssl module loads files only. A memfd has no name and disappears with its descriptor.
    descriptor = os.memfd_create("hami-tls")
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(key.rstrip() + b"\n" + certificate)
        path = f"/proc/self/fd/{descriptor}"
        empty_context().load_cert_chain(path)  # try it first: a bad pair must not damage a live context
        target.load_cert_chain(path)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(where, f"certificate and key don't load: {error}") from error
    finally:
        os.close(descriptor)


async def reload_on_change(
    live: ssl.SSLContext, files: TlsFiles, *, recheck_s: float = RECHECK_S, loaded: Callable[[], None] | None = None
) -> None:
    """Reload ``live`` whenever its files change, until cancelled. Calls ``loaded`` after each reload."""
    current = files.digest()
    folders = {files.certificate.parent, files.key.parent}
    timeout_ms = int(recheck_s * 1000)
    async for _ in awatch(*folders, watch_filter=None, rust_timeout=timeout_ms, yield_on_timeout=True, recursive=False):
        try:
            digest = files.digest()
            if digest == current:
                continue
            context(files)  # try it first: a bad pair must not damage the live context
            _load(live, files)
        except (ConfigError, OSError) as error:
            log.warning("new TLS files don't load; the old certificate stays", error=str(error))
            continue
        current = digest
        log.info("TLS files reloaded", certificate=str(files.certificate))
        if loaded:
            loaded()


def _load(target: ssl.SSLContext, files: TlsFiles) -> None:
    try:
        target.load_cert_chain(files.certificate, files.key, password=_no_password)
    except (OSError, ValueError) as error:
        where, problem = _faulty(files) or (f"--cert-file {files.certificate} with --key-file {files.key}", str(error))
        raise ConfigError(where, problem, "give PEM files that exist and belong together") from error
    if files.client_ca is None:
        return
    try:
        target.load_verify_locations(files.client_ca)
    except (OSError, ValueError) as error:
        where = f"--extender-client-ca-file {files.client_ca}"
        problem = _certificate_fault(files.client_ca) or str(error)
        raise ConfigError(where, problem, "give a PEM file with the CA's certificates") from error
    target.verify_mode = ssl.CERT_REQUIRED


def _no_password() -> str:
    """Refuse encrypted keys; without this callback OpenSSL would ask for a password on the terminal."""
    raise ValueError("the key is encrypted")


def _faulty(files: TlsFiles) -> tuple[str, str] | None:
    """The bad file of a pair that does not load, and what is wrong; None if each file is good by itself."""
    if problem := _certificate_fault(files.certificate):
        return f"--cert-file {files.certificate}", problem
    try:
        serialization.load_pem_private_key(files.key.read_bytes(), password=None)
    except OSError as error:
        return f"--key-file {files.key}", f"can't be read: {error.strerror}"
    except TypeError:
        return f"--key-file {files.key}", "is encrypted"
    except (ValueError, UnsupportedAlgorithm):
        return f"--key-file {files.key}", "holds no private key in PEM form"
    return None


def _certificate_fault(path: Path) -> str:
    """Why a file holds no usable certificate; empty if it holds one."""
    try:
        x509.load_pem_x509_certificates(path.read_bytes())
    except OSError as error:
        return f"can't be read: {error.strerror}"
    except ValueError:
        return "holds no certificate in PEM form, or a damaged one"
    return ""


def self_sign(names: Sequence[str], *, days: int = 3650) -> tuple[bytes, bytes]:
    """A new self-signed certificate for these DNS names and addresses. Returns certificate and key, PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, names[0][:64])])
    now = wall.now()
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoded = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM), encoded


def ensure_self_signed(folder: Path, names: Sequence[str]) -> TlsFiles:
    """The pair ``tls.crt`` and ``tls.key`` in ``folder``; a new pair is made if either is missing."""
    files = TlsFiles(folder / "tls.crt", folder / "tls.key")
    if not (files.certificate.exists() and files.key.exists()):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        certificate, key = self_sign(names)
        _write(files.key, key, 0o600)
        _write(files.certificate, certificate, 0o644)
    return files


def _write(path: Path, content: bytes, mode: int) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    temporary.replace(path)


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
