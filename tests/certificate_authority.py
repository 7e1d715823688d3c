"""A certificate authority for tests of TLS, and the settings of servers and clients with its certificates.

test_tls.py, http/test_http2.py and the TLS tests of the stores use it.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from mcptrio.serve.tls import TLSFiles

__all__ = ["Authority", "client_context", "tls_files"]

Key = ec.EllipticCurvePrivateKey


class Authority:
    """A certificate authority and its certificates, in files of a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.path = folder / f"{name}.pem"
        self.path.write_bytes(_pem(self._sign(self._name, self._key, ca=True)))

    def issue(self, name: str, *more: x509.NameAttribute[str], passphrase: bytes | None = None) -> tuple[Path, Path]:
        """Return the files of a new certificate and its key. It is valid for ``localhost`` and 127.0.0.1."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([*more, x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate, key_file = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if passphrase is not None:
            encryption = serialization.BestAvailableEncryption(passphrase)
        certificate.write_bytes(_pem(self._sign(subject, key, ca=False)))
        key_file.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        )
        return certificate, key_file

    def _sign(self, subject: x509.Name, key: Key, *, ca: bool) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(_LOOPBACK)])
        # The default context of Python 3.13 requires these three extensions. Source: RFC 5280, 4.2.1.
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=ca,
            crl_sign=ca,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        own_key = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca, None), critical=True)
            .add_extension(names, critical=False)
            .add_extension(usage, critical=True)
            .add_extension(own_key, critical=False)
            .add_extension(issuer_key, critical=False)
            .sign(self._key, hashes.SHA256())
        )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


_LOOPBACK = ipaddress.ip_address("127.0.0.1")


def client_context(authority: Authority, shows: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    """Return a client's context that trusts the authority, and shows a certificate if the server asks for one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(authority.path)
    if shows is not None:
        context.load_cert_chain(*shows)
    return context


def tls_files(pair: tuple[Path, Path], **more: Any) -> TLSFiles:
    """Return a server's TLS files with a certificate and its key."""
    return TLSFiles(certificate=pair[0], key=pair[1], **more)
