"""Checks of the webhook's certificate: trust, name and expiry."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from hami_core.doctor.checks.context import some
from hami_core.doctor.checks.webhook import hooks, name_of
from hami_core.doctor.finding import Finding, fail, ok, unknown, warn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hami_core.doctor.checks.context import Context
    from hami_core.doctor.objects import TlsSecret, Webhook

EXPIRES_SOON: Final = timedelta(days=7)
_CERTIFICATE_END: Final = b"-----END CERTIFICATE-----"
_RENEW: Final = "delete the TLS Secret: a new one is made, and the bundle is written again"


def certificates(context: Context) -> Iterator[Finding]:
    """Does the API server trust the certificate that the webhook serves, and until when?"""
    for configuration, hook in hooks(context):
        name, field = name_of(configuration), f"webhooks[{hook.name}].clientConfig.caBundle"
        if not hook.client_config.ca_bundle:
            fix = "give our scheduler --webhook-configuration, so that it writes the bundle; or use cert-manager"
            yield fail(name, field, "empty: the API server does not trust the webhook's certificate", fix)
            continue
        bundle = _certificates(hook.client_config.ca_bundle)
        if not bundle:
            yield fail(name, field, "holds no certificate", _RENEW)
            continue
        yield from _served(context, name, field, bundle, hook)


def _served(
    context: Context, name: str, field: str, bundle: Sequence[x509.Certificate], hook: Webhook
) -> Iterator[Finding]:
    valid = [c for c in bundle if c.not_valid_after_utc > context.facts.now]
    if not valid:
        seen = f"expired {max(c.not_valid_after_utc for c in bundle):%Y-%m-%d}"
        yield fail(name, field, seen, _RENEW)
        return
    looked = False
    for part in context.install.schedulers[:1]:
        source = part.volume_of(part.setting("cert_file"))
        secret_name = part.setting("tls_secret") or (source[1] if source and source[0] == "Secret" else "")
        if not secret_name:
            continue
        looked = True
        where = f"Secret {part.namespace}/{secret_name}"
        secret = context.facts.tls_secrets.get(part.namespace, secret_name)
        if secret is None:
            problem = context.facts.tls_secrets.problem(part.namespace, secret_name)
            yield (
                unknown(where, "tls.crt", problem)
                if problem
                else fail(where, "", "does not exist", "look at the scheduler's log: it makes the Secret at start")
            )
        else:
            yield from _leaf(context, where, secret, valid, hook)
    if not looked:
        yield ok(name, field, f"valid until {max(c.not_valid_after_utc for c in valid):%Y-%m-%d}")


def _leaf(
    context: Context, where: str, secret: TlsSecret, authorities: Sequence[x509.Certificate], hook: Webhook
) -> Iterator[Finding]:
    chain = _certificates(secret.data.certificate)
    if not chain:
        yield fail(where, "tls.crt", "holds no certificate", "delete the Secret; the scheduler makes a new one")
        return
    leaf, left = chain[0], chain[0].not_valid_after_utc - context.facts.now
    until = f"{leaf.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
    if not any(_issued(a, leaf) for a in authorities):
        fix = "let our scheduler or cert-manager write both Secret and caBundle; delete the Secret to renew it"
        yield fail(where, "tls.crt", "not issued by a certificate of the webhook's caBundle", fix)
    elif left <= timedelta():
        yield fail(
            where, "tls.crt", f"expired {until}", "look at the scheduler's log: it renews after two thirds of the life"
        )
    elif left < min(EXPIRES_SOON, (leaf.not_valid_after_utc - leaf.not_valid_before_utc) / 4):
        fix = "look at the log of the scheduler or cert-manager: renewal is due after two thirds of the life"
        yield warn(where, "tls.crt", f"expires {until}", fix)
    else:
        yield ok(where, "tls.crt", f"trusted, valid until {until}")
    reference = hook.client_config.service
    host = f"{reference.name}.{reference.namespace}.svc" if reference else ""
    if host and host not in (names := _names(leaf)):
        yield fail(where, "tls.crt", f"is for {some(sorted(names)) or 'no name'}, not for {host}", "delete the Secret")


def _certificates(pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem) if _CERTIFICATE_END in pem else []
    except ValueError:
        return []


def _issued(authority: x509.Certificate, leaf: x509.Certificate) -> bool:
    if authority == leaf:
        return True
    try:
        leaf.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _names(leaf: x509.Certificate) -> set[str]:
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return set(names.get_values_for_type(x509.DNSName))
