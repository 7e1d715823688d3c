"""TLS contexts of the client: trusted authorities and the client's certificate, from the system or from files.

:mod:`mcptrio.http.client.dialer` and the command line use them. This module imports no HTTP module, because the command
line needs it for every target.

Source: RFC 8446; RFC 9110 section 4.3.4.
"""

from __future__ import annotations

import os
import ssl
import sys
from pathlib import Path
from typing import Final

from mcptrio.errors import ConfigError, RequestFailed

if sys.platform == "win32" or sys.platform == "darwin":  # type checkers understand only this form
    # These systems keep certificates in a store that OpenSSL does not read.
    import truststore

__all__ = ["client_context", "system_trust"]

_BUNDLES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Alpine
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  # Fedora, RHEL
    "/etc/pki/tls/certs/ca-bundle.crt",  # the same, older
    "/etc/ssl/ca-bundle.pem",  # SUSE
    "/etc/ssl/cert.pem",  # Arch, BSD
)
"""Where distributions keep certificates. OpenSSL looks only where it was configured to when Python was built."""
_PROTOCOLS: Final = ("http/1.1",)


def client_context(
    *, ca_file: Path | None = None, certificate: Path | None = None, key: Path | None = None
) -> ssl.SSLContext:
    """Return a context for a client.

    Args:
        ca_file: Trusted authorities in PEM, instead of those of the system.
        certificate: The client's certificate in PEM, for servers that request one.
        key: The private key of the certificate in PEM, without a passphrase; by default, in the file ``certificate``.

    Raises:
        ConfigError: A file cannot be read or is invalid.
        RequestFailed: The system's authorities cannot be read.
    """
    if key is not None and certificate is None:
        raise ConfigError(f"{key}: expected a certificate too, got a key alone")
    if ca_file is None:
        context = system_trust(trust_env=True)
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.set_alpn_protocols(_PROTOCOLS)
        try:
            context.load_verify_locations(ca_file)
        except OSError as error:  # ssl.SSLError is one
            raise ConfigError(f"{ca_file}: expected certificates in PEM: {_reason(error)}") from error
    if certificate is not None:
        try:
            context.load_cert_chain(certificate, key, password=_refuse_prompt)
        except OSError as error:
            raise ConfigError(
                f"{certificate}: expected a certificate in PEM, and its key in {key or certificate}: {_reason(error)}"
            ) from error
    return context


def system_trust(*, trust_env: bool) -> ssl.SSLContext:
    """Return a context with the authorities of the environment, or else of the system.

    Raises:
        RequestFailed: The authorities cannot be read. Nothing was delivered.
    """
    file = os.environ.get("SSL_CERT_FILE") if trust_env else None
    folder = os.environ.get("SSL_CERT_DIR") if trust_env else None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not (file or folder):
        if sys.platform == "win32" or sys.platform == "darwin":
            context = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        else:
            paths = ssl.get_default_verify_paths()
            file = next((each for each in (paths.openssl_cafile, *_BUNDLES) if Path(each).is_file()), None)
            folder = paths.openssl_capath if Path(paths.openssl_capath).is_dir() else None
    if file or folder:
        try:
            context.load_verify_locations(file, folder)
        except OSError as error:  # ssl.SSLError is one
            message = f"no certificates can be read from {file or folder}: {_reason(error)}"
            raise RequestFailed(message, delivered=False) from error
    context.set_alpn_protocols(_PROTOCOLS)
    return context


def _refuse_prompt() -> bytes:
    # Without this function, OpenSSL asks for the passphrase on the terminal and waits.
    raise ConfigError("the key of the client's certificate is encrypted: expected one without a passphrase")


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return str(error.reason or "unknown error").lower().replace("_", " ")
    return error.strerror or str(error)
