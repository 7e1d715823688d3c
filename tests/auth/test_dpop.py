"""Proofs of possession: signed, verified, replayed, and copied from another request."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from typing import Any

import pytest
from attrs import define, field

from mcptrio.auth.dpop import BadDPoPProof, DPoPSigner, DPoPVerifier, base64url_sha256, normal_url
from mcptrio.auth.jose import Key, peek, sign
from mcptrio.errors import Overloaded

__all__: list[str] = []

NOW = 1_800_000_000.0
URL = "https://mcp.example.com/mcp"
TOKEN = "the-token"
KEY = Key.generate()
OTHER = Key.generate()


@define
class Memory:
    seen: dict[str, float] = field(factory=dict)

    def __call__(self, name: str, until: float) -> bool:
        if name in self.seen:
            return False
        self.seen[name] = until
        return True


def clock() -> float:
    return NOW


def verifier_for(**options: Any) -> DPoPVerifier:
    return DPoPVerifier(is_new=options.pop("is_new", Memory()), clock=clock, **options)


def proof(key: Key = KEY, *, typ: str = "dpop+jwt", jwk: Any = None, **claims: Any) -> str:
    """Return a valid proof for a POST to :data:`URL` with :data:`TOKEN`, changed by the arguments."""
    good = {"jti": "1", "htm": "POST", "htu": URL, "iat": int(NOW), "ath": base64url_sha256(TOKEN)}
    payload = {name: value for name, value in {**good, **claims}.items() if value is not ...}
    return sign(
        payload, Key.from_jwk({**key.private(), "kid": None}), typ=typ, header={"jwk": key.bare if jwk is None else jwk}
    )


def test_dpop_proof_is_accepted_once() -> None:
    memory = Memory()
    prover, verifier = DPoPSigner(KEY, clock=clock), verifier_for(is_new=memory)
    made = prover.prove("POST", f"{URL}?key=x#y", token=TOKEN)

    proof_result = verifier.verify([made], method="POST", url=URL, token=TOKEN, bound_to=prover.thumbprint)

    assert proof_result.thumbprint == KEY.thumbprint
    assert peek(made).header == {"alg": "ES256", "typ": "dpop+jwt", "jwk": KEY.bare}
    assert "d" not in peek(made).header["jwk"]
    assert peek(made).claims["htu"] == URL
    [(_, until)] = memory.seen.items()
    assert until == NOW + 300
    with pytest.raises(BadDPoPProof, match="used before"):
        verifier.verify([made], method="POST", url=URL, token=TOKEN, bound_to=prover.thumbprint)


def test_each_proof_has_a_new_id() -> None:
    prover = DPoPSigner(KEY)

    assert len({peek(prover.prove("POST", URL)).claims["jti"] for _ in range(50)}) == 50


def test_token_hash_matches_the_example_of_the_rfc() -> None:
    """RFC 9449, section 7.1."""
    token = "Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU"

    assert base64url_sha256(token) == "fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo"


def test_proof_of_the_rfc_example_is_accepted() -> None:
    """RFC 9449, section 4.1, figure 2."""
    text = (
        "eyJ0eXAiOiJkcG9wK2p3dCIsImFsZyI6IkVTMjU2IiwiandrIjp7Imt0eSI6IkVDIiwieCI6Imw4dEZyaHgtMzR0VjNoUklDUkRZOXpDa0RscEJo"
        "RjQyVVFVZldWQVdCRnMiLCJ5IjoiOVZFNGpmX09rX282NHpiVFRsY3VOSmFqSG10NnY5VERWclUwQ2R2R1JEQSIsImNydiI6IlAtMjU2In19.eyJ"
        "qdGkiOiItQndDM0VTYzZhY2MybFRjIiwiaHRtIjoiUE9TVCIsImh0dSI6Imh0dHBzOi8vc2VydmVyLmV4YW1wbGUuY29tL3Rva2VuIiwiaWF0Ijo"
        "xNTYyMjYyNjE2fQ.2-GxA6T8lP4vfrg8v-FdWP0A0zdrj8igiMLvqRMUvwnQg4PtFLbdLXiOSsX0x7NVY-FNyJK70nfbV37xRZT3Lg"
    )
    verifier = DPoPVerifier(is_new=Memory(), clock=lambda: 1562262616.0)

    proof_result = verifier.verify([text], method="POST", url="https://server.example.com/token")

    assert proof_result.thumbprint == "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"


BAD: dict[str, tuple[list[str], str]] = {
    "none": ([], "got none"),
    "empty": ([""], "expected one"),
    "two": ([proof(), proof()], "got 2"),
    "no token": (["x"], "three parts"),
    "huge": (["x" * 20_000], "at most"),
    "type": ([proof(typ="JWT")], "typ"),
    "no key": ([proof(jwk={})], "JSON Web Key"),
    "private key": ([proof(jwk=KEY.private())], "public key"),
    "symmetric key": ([proof(jwk={"kty": "oct", "k": "AAAA"})], "public key"),
    "somebody else's key": ([proof(jwk=OTHER.bare)], "signature"),
    "method": ([proof(htm="GET")], "htm"),
    "method in lower case": ([proof(htm="post")], "htm"),
    "no method": ([proof(htm=...)], "htm"),
    "host": ([proof(htu="https://mcp.example.org/mcp")], "htu"),
    "scheme": ([proof(htu="http://mcp.example.com/mcp")], "htu"),
    "port": ([proof(htu="https://mcp.example.com:8443/mcp")], "htu"),
    "path": ([proof(htu="https://mcp.example.com/mcp/")], "htu"),
    "path in upper case": ([proof(htu="https://mcp.example.com/MCP")], "htu"),
    "user": ([proof(htu="https://a@mcp.example.com/mcp")], "htu"),
    "no URL": ([proof(htu=["https://mcp.example.com/mcp"])], "htu"),
    "broken URL": ([proof(htu="https://[/mcp")], "htu"),
    "old": ([proof(iat=int(NOW) - 301)], "iat"),
    "from the future": ([proof(iat=int(NOW) + 301)], "iat"),
    "no time": ([proof(iat=...)], "iat"),
    "true": ([proof(iat=True)], "iat"),
    "infinite": ([proof(iat="Infinity")], "iat"),
    "no id": ([proof(jti=...)], "jti"),
    "empty id": ([proof(jti="")], "jti"),
    "long id": ([proof(jti="x" * 257)], "jti"),
    "other token": ([proof(ath=base64url_sha256("another"))], "ath"),
    "no hash": ([proof(ath=...)], "ath"),
    "hash of another kind": ([proof(ath=1)], "ath"),
    "nonce of another kind": ([proof(nonce=1)], "nonce"),
}


@pytest.mark.parametrize(("proofs", "why"), BAD.values(), ids=BAD)
def test_invalid_proof_is_refused_and_not_remembered(proofs: list[str], why: str) -> None:
    memory = Memory()

    with pytest.raises(BadDPoPProof, match=why) as caught:
        verifier_for(is_new=memory).verify(proofs, method="POST", url=URL, token=TOKEN, bound_to=KEY.thumbprint)
    assert caught.value.error == "invalid_dpop_proof"
    assert memory.seen == {}


@pytest.mark.parametrize("algorithm", ["none", "HS256"])
def test_proof_with_a_forgeable_algorithm_is_refused(algorithm: str) -> None:
    _, payload, signature = proof().split(".")
    header = json.dumps({"typ": "dpop+jwt", "alg": algorithm, "jwk": KEY.bare}).encode()

    forged = f"{urlsafe_b64encode(header).rstrip(b'=').decode()}.{payload}.{signature}"
    with pytest.raises(BadDPoPProof, match="alg"):
        verifier_for().verify([forged], method="POST", url=URL, token=TOKEN)


def test_valid_proof_of_another_key_is_refused() -> None:
    """A thief of the token does not have the key."""
    with pytest.raises(BadDPoPProof, match="another key") as caught:
        verifier_for().verify([proof(OTHER)], method="POST", url=URL, token=TOKEN, bound_to=KEY.thumbprint)
    assert caught.value.error == "invalid_token"


def test_same_proof_id_of_another_key_is_accepted() -> None:
    verifier = verifier_for()

    for key in (KEY, OTHER):
        verifier.verify([proof(key)], method="POST", url=URL, token=TOKEN, bound_to=key.thumbprint)


def test_full_replay_cache_refuses_requests() -> None:
    def full(name: str, until: float) -> bool:
        raise Overloaded("full")

    with pytest.raises(Overloaded):
        verifier_for(is_new=full).verify([proof()], method="POST", url=URL, token=TOKEN)


@pytest.mark.parametrize("off", [-300, 300])
def test_proof_within_the_clock_skew_is_accepted(off: int) -> None:
    verifier_for().verify([proof(iat=int(NOW) + off)], method="POST", url=URL, token=TOKEN)


def test_proof_algorithm_must_be_configured() -> None:
    rsa = Key.generate("RS256")

    assert verifier_for().verify([proof(rsa)], method="POST", url=URL, token=TOKEN).thumbprint == rsa.thumbprint
    with pytest.raises(BadDPoPProof, match="alg: expected one of ES256"):
        verifier_for(algorithms=frozenset({"ES256"})).verify([proof(rsa)], method="POST", url=URL, token=TOKEN)


# Nonces


def test_proof_without_nonce_is_refused_until_the_signer_uses_it() -> None:
    prover = DPoPSigner(KEY, clock=clock)
    verifier = verifier_for(is_current=lambda nonce: nonce == "n1")

    with pytest.raises(BadDPoPProof) as caught:
        verifier.verify([prover.prove("POST", URL)], method="POST", url=URL)
    assert caught.value.error == "use_dpop_nonce"
    assert prover.take_nonce(URL, {"dpop-nonce": "n1"})
    assert verifier.verify([prover.prove("POST", URL)], method="POST", url=URL).nonce == "n1"
    assert not prover.take_nonce(URL, {"dpop-nonce": "n1"})
    assert not prover.take_nonce(URL, {})


def test_nonces_are_kept_per_origin() -> None:
    prover = DPoPSigner(KEY)
    prover.take_nonce("https://AS.example.com:443/token?x", {"dpop-nonce": "of-as"})

    assert peek(prover.prove("POST", "https://as.example.com/other")).claims["nonce"] == "of-as"
    assert "nonce" not in peek(prover.prove("POST", URL)).claims


def test_nonces_of_the_most_recent_origins_are_kept() -> None:
    prover = DPoPSigner(KEY)
    for number in range(100):
        prover.take_nonce(f"https://{number}.example.com", {"dpop-nonce": str(number)})

    kept = [
        number for number in range(100) if "nonce" in peek(prover.prove("GET", f"https://{number}.example.com")).claims
    ]
    assert kept == list(range(36, 100))


@pytest.mark.parametrize("nonce", ["", 'a"b', "a b", "a\\b", "é", "x" * 257], ids=repr)
def test_malformed_dpop_nonce_is_ignored(nonce: str) -> None:
    assert not DPoPSigner(KEY).take_nonce(URL, {"dpop-nonce": nonce})


# URLs


@pytest.mark.parametrize(
    ("url", "normal"),
    [
        ("HTTPS://Example.COM", "https://example.com/"),
        ("https://example.com:443/a?b#c", "https://example.com/a"),
        ("http://example.com:80/", "http://example.com/"),
        ("http://example.com:8080", "http://example.com:8080/"),
        ("https://[2001:DB8::1]:443/a", "https://[2001:db8::1]/a"),
        ("https://example.com/%7euser/%2f%c3%a9", "https://example.com/~user/%2F%C3%A9"),
        ("https://example.com/A//b/", "https://example.com/A//b/"),
    ],
)
def test_dpop_url_is_normalized(url: str, normal: str) -> None:
    assert normal_url(url) == normal_url(normal) == normal


@pytest.mark.parametrize(
    "url", ["", "/mcp", "ftp://a/", "https://", "https://u@a/", "https://a:99999/", "https://[::1"]
)
def test_malformed_dpop_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        normal_url(url)
