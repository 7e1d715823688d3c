"""Signed tokens and keys: valid ones, and attacks."""

from __future__ import annotations

import hmac
import json
import subprocess
import sys
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from mcptrio.auth.jose import ALGORITHMS, BadKey, BadToken, Key, KeySet, peek, sign, verify

__all__: list[str] = []

CLAIMS = {"sub": "ann", "n": 1}
EC = Key.generate("ES256")
RSA = Key.generate("RS256")
KEYS = {"ES256": EC, "RS256": RSA, "PS256": Key.generate("PS256"), "Ed25519": Key.generate("Ed25519")}


def encoded(part: object) -> str:
    data = part if isinstance(part, bytes) else json.dumps(part).encode()
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def made(header: object, claims: object = CLAIMS, signature: bytes = b"") -> str:
    return f"{encoded(header)}.{encoded(claims)}.{encoded(signature)}"


def pem(key: Any, password: bytes | None = None) -> str:
    how = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    text: bytes = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how)
    return text.decode()


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_signed_token_is_verified(algorithm: str) -> None:
    key = Key.generate(algorithm)
    published = KeySet.read(json.dumps({"keys": [EC.public, key.public]}).encode())

    seen = verify(sign(CLAIMS, key, typ="at+jwt"), published, algorithms=[algorithm], typ=["at+jwt"])

    assert seen.claims == CLAIMS
    assert seen.header == {"alg": algorithm, "typ": "at+jwt", "kid": key.id}
    assert not published.keys[1].is_private
    assert Key.from_jwk(key.private()).thumbprint == published.keys[1].thumbprint == key.thumbprint


def test_thumbprint_matches_the_example_of_the_rfc() -> None:
    """RFC 7638, section 3.1."""
    modulus = (
        "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3okn"
        "jhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qM"
        "QvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJ"
        "zKnqDKgw"
    )
    key = Key.from_jwk({"kty": "RSA", "n": modulus, "e": "AQAB", "alg": "RS256", "kid": "2011-04-29"})

    assert key.thumbprint == "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"
    assert (key.id, key.is_private, key.can("RS256"), key.can("PS256")) == ("2011-04-29", False, True, False)


# Attacks


def confused_with_public_key() -> str:
    """Return a token with HS256, keyed with the published form of the public RSA key."""
    start = f"{encoded({'alg': 'HS256', 'kid': RSA.id})}.{encoded(CLAIMS)}"
    public = RSA._key.as_pem(private=False)
    return f"{start}.{encoded(hmac.digest(public, start.encode(), sha256))}"


def re_signed(**header: object) -> str:
    """Return a token that an attacker has signed, with the attacker's key in the header."""
    return sign(CLAIMS, Key.from_jwk({**Key.generate().private(), "kid": EC.id}), header=header)


TOKEN = sign(CLAIMS, EC)
HEAD, BODY, SIGNATURE = TOKEN.split(".")
DEEP = b'{"a":' * 900 + b"1" + b"}" * 900

ATTACKS = {
    "none": made({"alg": "none"}),
    "none, written otherwise": made({"alg": "nOnE", "kid": EC.id}),
    "no algorithm": made({"kid": EC.id}),
    "algorithm of another type": made({"alg": ["ES256"], "kid": EC.id}),
    "symmetric, keyed with a public key": confused_with_public_key(),
    "own key in the header": re_signed(jwk=Key.generate().bare),
    "own keys elsewhere": re_signed(jku="https://attacker.example/keys"),
    "same id, another key": re_signed(),
    "unknown id": sign(CLAIMS, Key.from_jwk({**EC.private(), "kid": "other"})),
    "other claims": f"{HEAD}.{encoded({'sub': 'bob'})}.{SIGNATURE}",
    "other header": f"{encoded({'alg': 'ES256', 'kid': EC.id, 'typ': 'x'})}.{BODY}.{SIGNATURE}",
    "no signature": f"{HEAD}.{BODY}.",
    "half a signature": f"{HEAD}.{BODY}.{SIGNATURE[:43]}",
    "empty numbers": f"{HEAD}.{BODY}.{encoded(bytes(64))}",  # CVE-2022-21449
    "padded": f"{TOKEN}==",
    "another alphabet": f"{HEAD}.{BODY}.{'+' + SIGNATURE[1:]}",
    "critical extension": made({"alg": "ES256", "kid": EC.id, "crit": ["exp"], "exp": 1}),
    "critical extension, well signed": sign(CLAIMS, EC, header={"crit": ["b64"], "b64": True}),
    "two parts": f"{HEAD}.{BODY}",
    "four parts": f"{TOKEN}.x",
    "encrypted": f"{TOKEN}.x.y",
    "empty": "",
    "no JSON": f"{encoded(b'{')}.{BODY}.{SIGNATURE}",
    "no object": made([1]),
    "no object in it": f"{HEAD}.{encoded([1])}.{SIGNATURE}",
    "UTF-16": f"{encoded(json.dumps({'alg': 'none'}).encode('utf-16'))}.{BODY}.{SIGNATURE}",
    "not ASCII": f"{TOKEN}é",
    "deep": f"{HEAD}.{encoded(DEEP)}.{SIGNATURE}",
    "deeper than the parser": f"{HEAD}.{encoded(b'[' * 20_000)}.{SIGNATURE}",
    "huge": f"{HEAD}.{'A' * 100_000}.{SIGNATURE}",
    "huge header": f"{'A' * 10_000}.{BODY}.{SIGNATURE}",
}


@pytest.mark.parametrize("token", ATTACKS.values(), ids=ATTACKS)
def test_forged_token_is_refused(token: str) -> None:
    keys = KeySet.read({"keys": [key.public for key in KEYS.values()]})

    with pytest.raises(BadToken) as caught:
        verify(token, keys, algorithms=ALGORITHMS)
    assert len(str(caught.value)) < 300
    assert BODY not in str(caught.value)


def test_disallowed_algorithm_is_refused() -> None:
    with pytest.raises(BadToken, match="alg: expected one of RS256, got 'ES256'"):
        verify(TOKEN, EC, algorithms=["RS256"])
    with pytest.raises(BadToken, match="alg: expected one of , got 'none'"):
        verify(made({"alg": "none"}), EC, algorithms=["none", "HS256"])  # never allowed


def test_key_verifies_only_its_own_algorithm() -> None:
    pss = Key.from_jwk({**RSA.private(), "alg": "PS256"})

    with pytest.raises(BadToken, match="no key"):
        verify(sign(CLAIMS, pss), KeySet.read({"keys": [RSA.public]}), algorithms=ALGORITHMS)


@pytest.mark.parametrize(("typ", "good"), [("JWT", True), ("application/jwt", True), ("at+jwt", False), ("", False)])
def test_token_type_must_be_expected(typ: str | None, good: bool) -> None:
    token = sign(CLAIMS, EC, header={"typ": typ})

    if good:
        verify(token, EC, algorithms=ALGORITHMS, typ=["jwt"])
    else:
        with pytest.raises(BadToken, match="typ: expected jwt"):
            verify(token, EC, algorithms=ALGORITHMS, typ=["jwt"])


def test_unknown_header_members_are_ignored() -> None:
    assert verify(sign(CLAIMS, EC, header={"x": 1, "nonce": "y"}), EC, algorithms=ALGORITHMS).claims == CLAIMS


def test_keys_without_an_id_are_all_tried() -> None:
    def nameless(key: Key) -> dict[str, Any]:
        return {name: value for name, value in key.public.items() if name != "kid"}

    others = [nameless(Key.generate()) for _ in range(3)]
    keys = KeySet.read({"keys": [*others, nameless(EC)]})

    assert verify(TOKEN, keys, algorithms=ALGORITHMS).claims == CLAIMS
    assert len(KeySet.read({"keys": others * 10}).candidates({"alg": "ES256"})) == 8


def test_peek_returns_unverified_claims() -> None:
    assert peek(ATTACKS["none"]).claims == CLAIMS
    assert "ann" not in repr(peek(TOKEN))


# Keys

SMALL = rsa.generate_private_key(65537, 1024)

BAD_KEYS: dict[str, Any] = {
    "symmetric": {"kty": "oct", "k": "AAAA"},
    "for encryption": {**EC.public, "use": "enc"},
    "for other operations": {**EC.public, "use": None, "key_ops": ["encrypt"]},
    "other curve": {**EC.public, "crv": "secp256k1"},
    "type and curve do not fit": {**EC.public, "kty": "OKP"},
    "not on the curve": {**EC.public, "y": EC.public["x"]},
    "algorithm of another key": {**EC.public, "alg": "RS256"},
    "symmetric algorithm": {**RSA.public, "alg": "HS256"},
    "short": {"kty": "RSA", "n": encoded(SMALL.public_key().public_numbers().n.to_bytes(128, "big")), "e": "AQAB"},
    "too long": {"kty": "RSA", "n": encoded(b"\xff" * 2048), "e": "AQAB"},
    "exponent of 1": {**RSA.public, "e": "AQ"},
    "exponent of 64 bits": {**RSA.public, "e": encoded(b"\xff" * 8)},
    "half of it": {"kty": "EC", "crv": "P-256", "x": EC.public["x"]},
    "no text": {**EC.public, "x": 1},
    "no base64": {**EC.public, "x": "+/="},
    "long id": {**EC.public, "kid": "k" * 1000},
    "no type": {"x": "AAAA"},
    "no object": [],
}


@pytest.mark.parametrize("jwk", BAD_KEYS.values(), ids=BAD_KEYS)
def test_invalid_key_is_refused_and_left_out_of_a_set(jwk: Any) -> None:
    with pytest.raises(BadKey):
        Key.from_jwk(jwk)
    assert [key.id for key in KeySet.read({"keys": [jwk, EC.public]}).keys] == [EC.id]


def test_published_private_key_is_ignored() -> None:
    assert KeySet.read({"keys": [EC.private()]}).keys == ()


@pytest.mark.parametrize(
    "document",
    [b"", b"[]", b"{}", b'{"keys": {}}', b"x" * 300_000, json.dumps({"keys": [{}] * 101}).encode(), b"[" * 100_000],
    ids=["empty", "list", "no keys", "keys that are no list", "huge", "many", "deep"],
)
def test_invalid_key_set_is_refused(document: bytes) -> None:
    with pytest.raises(BadKey):
        KeySet.read(document)


def test_public_form_of_a_private_key_has_no_secret() -> None:
    for key in KEYS.values():
        assert not {"d", "p", "q", "dp", "dq", "qi", "k"} & {*key.public, *key.bare}
        assert key.private()["d"] not in repr(key)
    with pytest.raises(BadKey, match="expected a private key"):
        Key.from_jwk(EC.public).private()
    with pytest.raises(BadKey, match="expected a private key"):
        sign(CLAIMS, Key.from_jwk(EC.public))


def test_keys_are_read_from_pem() -> None:
    own = ec.generate_private_key(ec.SECP384R1())
    key = Key.from_pem(pem(own), id="mine")

    assert (key.algorithm, key.id, key.is_private) == ("ES384", "mine", True)
    assert Key.from_pem(pem(rsa.generate_private_key(65537, 2048)), algorithm="PS512").algorithm == "PS512"
    public = own.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    assert Key.from_pem(public.decode()).thumbprint == key.thumbprint


@pytest.mark.parametrize(
    ("text", "algorithm"),
    [
        ("", None),
        ("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----", None),
        (pem(ec.generate_private_key(ec.SECP256R1()), b"x"), None),
        (pem(ec.generate_private_key(ec.SECP256K1())), None),
        (pem(SMALL), None),
        (pem(ec.generate_private_key(ec.SECP256R1())), "RS256"),
        (pem(ec.generate_private_key(ec.SECP256R1())), "HS256"),
    ],
    ids=["empty", "rubbish", "encrypted", "other curve", "short", "other algorithm", "symmetric"],
)
def test_invalid_pem_is_refused(text: str, algorithm: str | None) -> None:
    with pytest.raises(BadKey) as caught:
        Key.from_pem(text, algorithm=algorithm)
    assert "AAAA" not in str(caught.value)


def test_unknown_algorithm_is_refused_for_a_new_key() -> None:
    with pytest.raises(BadKey, match="expected one of ES256"):
        Key.generate("HS256")


def test_crypto_libraries_are_not_imported_with_the_modules() -> None:
    code = "import sys, mcptrio.auth.jose, mcptrio.auth.dpop; print({'joserfc', 'cryptography'} & {*sys.modules})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

    assert result.stdout == "set()\n"
