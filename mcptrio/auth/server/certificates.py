"""Principals of TLS client certificates, and the thumbprints to which tokens are bound.

:mod:`mcptrio.auth.server.resource_server` uses them. TLS has verified the certificates; this module reads them.

Source: RFC 8705 sections 2.1.2 (which names) and 3.1 (``x5t#S256``); RFC 5280 section 4.2.1.6; RFC 4514.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, Literal, TypeAlias

from attrs import frozen

from mcptrio.abc import Principal

__all__ = ["CertificateNames", "CertificatePrincipals", "certificate_thumbprint"]

CertificateNames: TypeAlias = Literal["uri", "dns", "email", "subject"]
"""The kind of name that is read from a certificate."""
_KINDS: Final = ("uri", "dns", "email", "subject")
# Largest certificate in bytes.
_MAX_CERTIFICATE_BYTES: Final = 64 * 1024
# Longest name in characters.
_MAX_NAME_CHARS: Final = 1024


@frozen(kw_only=True)
class CertificatePrincipals:
    """Authenticates clients by their certificates alone.

    Args:
        name: The name that identifies the client: ``uri``, ``dns`` or ``email`` of the alternative names (SPIFFE uses
            ``uri``), or ``subject``, the whole distinguished name.
        scopes: The scopes of every such client.
    """

    name: CertificateNames
    scopes: frozenset[str] = frozenset()

    def __attrs_post_init__(self) -> None:
        if self.name not in _KINDS:
            raise ValueError(f"name: expected one of {', '.join(_KINDS)}, got {self.name!r}")

    def principal(self, certificate: bytes, now: float) -> Principal | None:
        """Return the principal of a certificate; ``None`` if it has not exactly one such name, or is not valid now.

        Args:
            certificate: The certificate in DER, verified by TLS.
            now: Seconds since 1970.
        """
        read = _read(certificate, self.name, self.scopes)
        if read is None:
            return None
        principal, begins = read
        # TLS checked the validity when the connection was opened, which may be long ago.
        return principal if begins <= now < principal.claims["exp"] else None


def certificate_thumbprint(certificate: bytes) -> str:
    """Return the thumbprint that a bound token contains as ``cnf["x5t#S256"]``."""
    return urlsafe_b64encode(sha256(certificate).digest()).rstrip(b"=").decode()


# A connection presents the same certificate with each of its requests.
@lru_cache(maxsize=1000)
def _read(certificate: bytes, kind: CertificateNames, scopes: frozenset[str]) -> tuple[Principal, float] | None:
    """Return the principal of a certificate and the start of its validity."""
    # Imported here, so that servers without client certificates do not load it.
    from cryptography import x509

    if len(certificate) > _MAX_CERTIFICATE_BYTES:
        return None
    try:
        read = x509.load_der_x509_certificate(certificate)
        names = [read.subject.rfc4514_string()] if kind == "subject" else _alternative_names(x509, read, kind)
        issuer = read.issuer.rfc4514_string()
    except ValueError:
        return None
    # With several names of the kind, the client could appear as two principals.
    if len(names) != 1 or not 0 < len(names[0]) <= _MAX_NAME_CHARS or not names[0].isprintable():
        return None
    claims = {"exp": read.not_valid_after_utc.timestamp(), "x5t#S256": certificate_thumbprint(certificate)}
    principal = Principal(subject=names[0], issuer=issuer, scopes=scopes, claims=claims)
    return principal, read.not_valid_before_utc.timestamp()


def _alternative_names(x509: Any, certificate: Any, kind: CertificateNames) -> list[str]:
    general = {"uri": x509.UniformResourceIdentifier, "dns": x509.DNSName, "email": x509.RFC822Name}[kind]
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return list(names.get_values_for_type(general))
