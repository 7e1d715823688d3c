"""The principal of a signed token, and a table of invalid tokens, including attacks."""

from __future__ import annotations

import base64
import hmac
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from attrs import evolve

from mcptrio.abc import Principal
from mcptrio.auth.jose import Key, sign
from mcptrio.auth.server import jwt_tokens
from mcptrio.auth.server.issuer_keys import IssuerKeys
from mcptrio.auth.server.jwt_tokens import ClaimRules, JWTTokens
from mcptrio.errors import AuthorizationError
from tests.auth.server_parts import ISSUER, JWKS, KEY, OTHER_KEY, RESOURCE, Clock, Issuer

__all__: list[str] = []

AUDIENCE = [RESOURCE, "api://mcp"]


def verifier(issuer: Issuer, rules: ClaimRules | None = None, ticks: Clock | None = None) -> JWTTokens:
    keys = IssuerKeys(ISSUER, issuer, ticks=ticks or issuer.clock)
    return JWTTokens(keys, audience=AUDIENCE, rules=rules, clock=issuer.clock, ticks=ticks or issuer.clock)


async def test_valid_token_yields_its_principal() -> None:
    issuer = Issuer()

    principal = await verifier(issuer).verify(issuer.token(scope="read write", extra={"team": 1}))

    assert principal == Principal(subject="ada", issuer=ISSUER, client_id="cli", scopes=frozenset({"read", "write"}))
    assert principal is not None
    assert principal.claims["extra"] == {"team": 1}
    assert principal.claims["exp"] == int(issuer.clock()) + 300


NOW = int(Clock().now)


@pytest.mark.parametrize(
    ("claims", "is_valid"),
    [
        ({"aud": "api://mcp"}, True),
        ({"aud": ["https://other.example", RESOURCE]}, True),
        ({"aud": "https://other.example/mcp"}, False),
        ({"aud": RESOURCE + "/"}, False),
        ({"aud": RESOURCE.upper()}, False),
        ({"aud": [RESOURCE[:-1], 1, None]}, False),
        ({"aud": {RESOURCE: 1}}, False),
        ({"aud": []}, False),
        ({"aud": None}, False),
        ({"iss": "https://evil.example"}, False),
        ({"iss": ISSUER + "/"}, False),
        ({"iss": [ISSUER]}, False),
        ({"iss": None}, False),
        ({"exp": NOW - 59}, True),
        ({"exp": None}, False),
        ({"exp": str(NOW + 300)}, False),
        ({"exp": True}, False),
        ({"nbf": NOW + 60}, True),
        ({"nbf": NOW + 61}, False),
        ({"nbf": "soon"}, False),
        ({"iat": NOW + 61}, False),
        ({"iat": None}, True),
        ({"sub": None}, True),  # without a subject, the client is the principal
        ({"sub": None, "client_id": None}, False),
        ({"sub": ""}, False),
        ({"sub": 7}, False),
        ({"sub": "x" * 1025}, False),
        ({"typ": "Refresh"}, False),
        ({"typ": "ID"}, False),
        ({"typ": "Bearer"}, True),
        ({"token_use": "id"}, False),
        ({"token_use": "access"}, True),
        ({"at_hash": "x"}, False),
        ({"nonce": "x"}, True),  # its header says at+jwt
        ({"scope": " ".join(map(str, range(1001)))}, False),
    ],
)
async def test_token_claims_decide_whether_the_token_is_valid(claims: Mapping[str, Any], is_valid: bool) -> None:
    issuer = Issuer()

    # The ``typ`` claim is not the ``typ`` of the header.
    rest = {name: value for name, value in claims.items() if name != "typ"}
    token = issuer.token(**rest) if "typ" not in claims else _with_claim(issuer, "typ", claims["typ"])
    assert (await verifier(issuer).verify(token) is not None) == is_valid


@pytest.mark.parametrize(("kind", "is_valid"), [(None, False), ("ID", False), ("Bearer", True)])
async def test_token_with_a_nonce_is_an_id_token_unless_typed(kind: str | None, is_valid: bool) -> None:
    issuer = Issuer()
    claims = json.loads(_decode(issuer.token(nonce="x").split(".")[1]))

    token = sign({**claims, **({"typ": kind} if kind else {})}, KEY, typ="JWT")
    assert (await verifier(issuer).verify(token) is not None) == is_valid


def _with_claim(issuer: Issuer, name: str, value: object) -> str:
    claims = json.loads(_decode(issuer.token().split(".")[1]))
    return sign({**claims, name: value}, KEY, typ="JWT")


@pytest.mark.parametrize(
    ("claims", "scopes"),
    [
        ({"scope": None}, set()),
        ({"scope": None, "scp": "read write"}, {"read", "write"}),
        ({"scope": None, "scp": ["read", 1]}, {"read"}),
        ({"scope": "  a   b "}, {"a", "b"}),
        ({"scope": "x\u00a0a y\u2003a z\x1ca"}, {"x\u00a0a", "y\u2003a", "z\x1ca"}),
        ({"scope": None, "roles": ["boss"]}, set()),
    ],
)
async def test_scopes_are_read_from_the_claims_that_issuers_use(claims: Mapping[str, Any], scopes: set[str]) -> None:
    issuer = Issuer()

    principal = await verifier(issuer).verify(issuer.token(**claims))

    assert principal is not None
    assert principal.scopes == scopes


async def test_configured_role_claim_yields_scopes() -> None:
    issuer = Issuer()

    rules = ClaimRules(scope_claims=("scope", "roles"))
    principal = await verifier(issuer, rules).verify(issuer.token(roles=["boss"]))

    assert principal is not None
    assert principal.scopes == {"read", "boss"}


@pytest.mark.parametrize(
    ("typ", "is_valid"),
    [
        ("at+jwt", True),
        ("application/at+jwt", True),
        ("AT+JWT", True),
        ("JWT", True),
        ("", True),
        ("dpop+jwt", False),
        ("oauth-id-jag+jwt", False),
        ("logout+jwt", False),
        ("secevent+jwt", False),
    ],
)
async def test_token_type_of_the_header_is_checked(typ: str, is_valid: bool) -> None:
    issuer = Issuer()

    assert (await verifier(issuer).verify(issuer.token(typ=typ)) is not None) == is_valid


def _encode(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def _decode(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _unsigned(issuer: Issuer, alg: str) -> str:
    return f"{_encode({'alg': alg, 'typ': 'at+jwt'})}.{issuer.token().split('.')[1]}."


def _confused(issuer: Issuer) -> str:
    """Return a token signed with the public key as a shared secret."""
    head = f"{_encode({'alg': 'HS256', 'typ': 'at+jwt', 'kid': KEY.id})}.{issuer.token().split('.')[1]}"
    code = hmac.digest(json.dumps(KEY.public).encode(), head.encode(), "sha256")
    return f"{head}.{base64.urlsafe_b64encode(code).rstrip(b'=').decode()}"


def _tampered(issuer: Issuer) -> str:
    head, claims, signature = issuer.token().split(".")
    return f"{head}.{_encode({**json.loads(_decode(claims)), 'sub': 'root'})}.{signature}"


ATTACKS: Mapping[str, Callable[[Issuer], str]] = {
    "alg none": lambda issuer: _unsigned(issuer, "none"),
    "alg None": lambda issuer: _unsigned(issuer, "None"),
    "no signature": lambda issuer: _unsigned(issuer, "ES256"),
    "key confusion": _confused,
    "another claim": _tampered,
    "another key of the same name": lambda issuer: issuer.token(OTHER_KEY, header={"kid": KEY.id}),
    "key in the header": lambda issuer: issuer.token(OTHER_KEY, header={"jwk": OTHER_KEY.bare, "kid": KEY.id}),
    "a key somewhere else": lambda issuer: issuer.token(OTHER_KEY, header={"jku": "https://evil.example/keys"}),
    "a critical extension": lambda issuer: issuer.token(header={"crit": ["b64"], "b64": True}),
    "another algorithm of the key": lambda issuer: issuer.token().replace(
        issuer.token().split(".")[0], _encode({"alg": "ES384", "typ": "at+jwt", "kid": KEY.id})
    ),
    "no token": lambda _: "opaque",
    "two parts": lambda issuer: ".".join(issuer.token().split(".")[:2]),
    "five parts": lambda issuer: issuer.token() + ".a.b",
    "no JSON": lambda _: "a.b.c",
    "too long": lambda issuer: issuer.token(padding="x" * 20_000),
    "deep": lambda issuer: f"{_encode({'alg': 'ES256'})}.{_deep()}.c",
}


def _deep() -> str:
    nested = "[" * 5000 + "]" * 5000
    return base64.urlsafe_b64encode(f'{{"iss":"{ISSUER}","a":{nested}}}'.encode()).rstrip(b"=").decode()


@pytest.mark.parametrize("attack", ATTACKS)
async def test_forged_token_is_refused(attack: str, caplog: pytest.LogCaptureFixture) -> None:
    issuer = Issuer()
    tokens = verifier(issuer)
    token = ATTACKS[attack](issuer)

    with caplog.at_level(logging.DEBUG):
        assert await tokens.verify(token) is None
    assert "evil.example" not in " ".join(issuer.asked)
    assert all(part not in caplog.text for part in token.split(".") if len(part) > 20)
    assert await tokens.verify(issuer.token()) is not None


async def test_algorithm_outside_the_configured_ones_is_refused() -> None:
    issuer = Issuer()

    assert await verifier(issuer, ClaimRules(algorithms=("RS256",))).verify(issuer.token()) is None


@pytest.mark.parametrize("algorithms", [(), ("HS256",), ("none",), ("ES256", "HS512")])
def test_unsafe_algorithm_cannot_be_configured(algorithms: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="algorithms: expected some of"):
        ClaimRules(algorithms=algorithms)


@pytest.mark.parametrize("audience", [[], [""], RESOURCE])
def test_empty_audience_cannot_be_configured(audience: Any) -> None:
    with pytest.raises(ValueError, match="audience"):
        JWTTokens(IssuerKeys(ISSUER, Issuer()), audience=audience)


async def test_valid_token_is_verified_once_per_cache_lifetime(monkeypatch: pytest.MonkeyPatch) -> None:
    issuer, verified = Issuer(), []
    verify = jwt_tokens.verify

    def counting(*args: Any, **named: Any) -> Any:
        verified.append(1)
        return verify(*args, **named)

    monkeypatch.setattr(jwt_tokens, "verify", counting)
    tokens, token = verifier(issuer), issuer.token(exp=int(issuer.clock()) + 70)

    for _ in range(5):
        assert await tokens.verify(token) is not None
    assert len(verified) == 1
    issuer.clock.now += 61
    assert await tokens.verify(token) is not None
    assert len(verified) == 2
    issuer.clock.now += 60
    assert await tokens.verify(token) is not None  # within the clock skew
    issuer.clock.now += 9
    with pytest.raises(AuthorizationError, match="the access token has expired"):
        await tokens.verify(token)


async def test_only_a_genuine_token_for_this_server_is_reported_as_expired() -> None:
    issuer = Issuer()

    with pytest.raises(AuthorizationError, match="the access token has expired"):
        await verifier(issuer).verify(issuer.token(exp=NOW - 60))
    assert await verifier(issuer).verify(issuer.token(OTHER_KEY, exp=NOW - 60)) is None
    assert await verifier(issuer).verify(issuer.token(exp=NOW - 60, aud="https://other.example")) is None


async def test_token_of_another_issuer_causes_no_request() -> None:
    issuer = Issuer()

    assert await verifier(issuer).verify(issuer.token(iss="https://other.example")) is None
    assert not issuer.asked


@pytest.mark.parametrize("name", [None, "key-1"])
async def test_replaced_key_with_the_same_id_is_fetched(name: str | None) -> None:
    one, other = (evolve(Key.generate("ES256"), id=name) for _ in range(2))
    issuer = Issuer(keys=[one])
    tokens = verifier(issuer)
    assert await tokens.verify(issuer.token(one)) is not None
    issuer.keys = [other]

    assert await tokens.verify(issuer.token(other)) is None  # fetched a moment ago
    issuer.clock.now += 30
    assert await tokens.verify(issuer.token(other)) is not None
    for number in range(20):
        assert await tokens.verify(issuer.token(one, jti=str(number))) is None
    assert issuer.asked[JWKS] == 2


@pytest.mark.parametrize("algorithm", ["ES256", "ES384", "RS256", "PS256", "EdDSA", "Ed25519"])
async def test_token_is_verified_with_each_algorithm(algorithm: str) -> None:
    key = Key.generate(algorithm)
    issuer = Issuer(keys=[OTHER_KEY, key])

    rules = ClaimRules(algorithms=(algorithm,))
    assert await verifier(issuer, rules).verify(issuer.token(key)) is not None
    assert issuer.asked[JWKS] == 1


async def test_expired_keys_and_results_are_dropped_when_the_wall_clock_is_set_back() -> None:
    issuer, ticks = Issuer(), Clock()
    tokens = verifier(issuer, ticks=ticks)
    issuer.clock.now += 86400  # wrong until it is set
    old = issuer.token(exp=int(issuer.clock()) + 10**6, iat=None)
    assert await tokens.verify(old) is not None

    issuer.clock.now -= 86400
    issuer.keys = [OTHER_KEY]
    ticks.now += 3601
    assert await tokens.verify(old) is None
    assert await tokens.verify(issuer.token(OTHER_KEY)) is not None
    assert issuer.asked[JWKS] == 2
