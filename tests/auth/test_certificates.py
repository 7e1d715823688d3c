"""The subject of a certificate: its only name of the configured kind, or none if it has several."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from mcptrio.auth.server.certificates import CertificateNames, CertificatePrincipals, certificate_thumbprint

__all__: list[str] = ["NOW", "certificate"]

NOW = 1_800_000_000.0
KEY = ec.generate_private_key(ec.SECP256R1())


def certificate(*names: x509.GeneralName, common: str = "robot") -> bytes:
    """A certificate, in DER."""
    subject = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Team"), _common(common)])
    begin = datetime.fromtimestamp(NOW, UTC) - timedelta(hours=1)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(x509.Name([_common("authority")]))
        .public_key(KEY.public_key())
        .serial_number(1)
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(hours=2))
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(list(names)), critical=False)
    return builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


def _common(name: str) -> x509.NameAttribute[str]:
    return x509.NameAttribute(NameOID.COMMON_NAME, name)


URI = x509.UniformResourceIdentifier("spiffe://team.example/robot")
DNS = x509.DNSName("robot.team.example")
EMAIL = x509.RFC822Name("robot@team.example")


@pytest.mark.parametrize(
    ("kind", "names", "subject"),
    [
        ("uri", [URI, DNS, EMAIL], "spiffe://team.example/robot"),
        ("dns", [URI, DNS, EMAIL], "robot.team.example"),
        ("email", [URI, DNS, EMAIL], "robot@team.example"),
        ("subject", [URI], "CN=robot,O=Team"),
        ("subject", [], "CN=robot,O=Team"),
        ("uri", [DNS], None),
        ("uri", [], None),
        ("uri", [URI, x509.UniformResourceIdentifier("spiffe://team.example/boss")], None),
        ("dns", [DNS, x509.DNSName("boss.team.example")], None),
        ("uri", [x509.UniformResourceIdentifier("spiffe://team.example/a\nb")], None),
        ("uri", [x509.UniformResourceIdentifier("x:" + "y" * 1100)], None),
    ],
)
def test_certificate_subject_is_its_only_name_of_the_configured_kind(
    kind: CertificateNames, names: Sequence[x509.GeneralName], subject: str | None
) -> None:
    rule = CertificatePrincipals(name=kind, scopes=frozenset({"read"}))

    principal = rule.principal(certificate(*names), NOW)

    assert (principal and principal.subject) == subject
    if principal is not None:
        assert (principal.issuer, principal.scopes) == ("CN=authority", {"read"})
        assert principal.claims["exp"] == NOW + 3600


@pytest.mark.parametrize("seconds", [-3601, 3600])
def test_connection_ends_when_its_certificate_expires(seconds: float) -> None:
    assert CertificatePrincipals(name="subject").principal(certificate(), NOW + seconds) is None


@pytest.mark.parametrize("data", [b"", b"no certificate", b"\x30\x82" * 100, b"\x30" * 100_000])
def test_malformed_certificate_has_no_principal(data: bytes) -> None:
    assert CertificatePrincipals(name="subject").principal(data, NOW) is None


def test_thumbprint_matches_the_example_of_rfc_8705() -> None:
    data = certificate()

    assert certificate_thumbprint(data) == urlsafe_b64encode(sha256(data).digest()).decode().rstrip("=")


def test_unknown_kind_of_name_is_refused() -> None:
    with pytest.raises(ValueError, match="expected one of uri, dns, email, subject, got 'serial'"):
        CertificatePrincipals(name="serial")  # type: ignore[arg-type]
