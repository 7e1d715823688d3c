"""The TLS extension of ASGI scopes.

The HTTP servers call it once per connection, after the handshake. The extension contains no secrets, and contains a
client certificate only if that was verified.

Two members of the extension are missing: the server's own certificate, which Python does not return, and the
intermediate certificates of the client, which Trio does not pass on.

Source: ASGI, "TLS extension" 0.2; RFC 4514 (distinguished names as text).
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import trio

__all__ = ["tls_extension"]

_VERSIONS: Final[Mapping[str, int]] = {"TLSv1": 0x0301, "TLSv1.1": 0x0302, "TLSv1.2": 0x0303, "TLSv1.3": 0x0304}
_SHORT: Final[Mapping[str, str]] = {
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
"""The abbreviations of RFC 4514 section 3; other attributes keep OpenSSL's names."""
_SPECIAL: Final = re.compile(r'[,+"\\<>;\x00]|^[ #]| $')


def tls_extension(stream: trio.SSLStream[Any]) -> dict[str, Any]:
    """Return the value of ``scope["extensions"]["tls"]``.

    Args:
        stream: A TLS stream after its handshake.

    Returns:
        ``tls_version`` and ``cipher_suite`` as numbers of the protocol, ``None`` if unknown. For a client with a
        certificate: ``client_cert_name``, its subject, and ``client_cert_chain``, the certificate in PEM; otherwise
        ``None`` and an empty list.
    """
    encoded: bytes | None = stream.getpeercert(binary_form=True)
    subject = (stream.getpeercert() or {}).get("subject", ()) if encoded else ()
    cipher = stream.cipher()
    return {
        "server_cert": None,
        "client_cert_chain": [ssl.DER_cert_to_PEM_cert(encoded)] if encoded else [],
        "client_cert_name": _name(subject) if encoded else None,
        "client_cert_error": None,
        "tls_version": _VERSIONS.get(stream.version() or ""),
        "cipher_suite": _suites().get(cipher[0]) if cipher else None,
    }


def _name(subject: tuple[tuple[tuple[str, str], ...], ...]) -> str:
    # The text begins with the last part (RFC 4514 section 2.1).
    return ",".join(
        "+".join(f"{_SHORT.get(attribute, attribute)}={_SPECIAL.sub(_escape, value)}" for attribute, value in part)
        for part in reversed(subject)
    )


def _escape(match: re.Match[str]) -> str:
    return "\\00" if match[0] == "\x00" else "\\" + match[0]


@lru_cache(maxsize=1)
def _suites() -> dict[str, int]:
    """Return the numbers of the cipher suites by OpenSSL's names."""
    # "ALL" leaves out weak suites at a higher security level, but a connection may use any that the operator allows.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL:@SECLEVEL=0")
    return {suite["name"]: suite["id"] & 0xFFFF for suite in context.get_ciphers()}
