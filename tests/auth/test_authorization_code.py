"""A browser redirect is accepted only for the current authorization attempt. Most tests are attacks."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from mcptrio.auth.client.authorization_code import Attempt, exchange, read_code
from mcptrio.auth.dpop import DPoPSigner
from mcptrio.auth.metadata import ServerMetadata
from mcptrio.auth.token_requests import ClientIdentity, TokenRefused
from mcptrio.errors import AuthorizationError
from mcptrio.ground.secret import Secret

from .client_parts import BACK, answer, form

__all__: list[str] = []

ISSUER = "https://login.example.com"
RESOURCE = "https://mcp.example.com"
CLIENT = ClientIdentity(client_id="abc")


def server(**members: Any) -> ServerMetadata:
    usual = {
        "authorization_endpoint": f"{ISSUER}/authorize",
        "token_endpoint": f"{ISSUER}/token",
        "code_challenge_methods_supported": ("plain", "S256"),
        "authorization_response_iss_parameter_supported": True,
    }
    return ServerMetadata(issuer=ISSUER, **{**usual, **members})


def attempt(**options: Any) -> Attempt:
    by = options.pop("by", server())
    usual = {"server": by, "client": CLIENT, "resource": RESOURCE, "redirect_uri": BACK, "scopes": ("a", "b")}
    return Attempt(**{**usual, **options})


def redirect_for(of: Attempt, uri: str = BACK, **parameters: str | None) -> str:
    """Return a valid redirect, changed by the arguments."""
    usual = {"code": "c0de", "state": of.state, "iss": ISSUER}
    query = {name: value for name, value in {**usual, **parameters}.items() if value is not None}
    return f"{uri}?{urlencode(query)}"


def test_authorization_url_contains_pkce_state_and_resource() -> None:
    made = attempt()
    parts = urlsplit(made.url)
    digest = sha256(made.verifier.reveal().encode()).digest()

    assert made.url.startswith(f"{ISSUER}/authorize?")
    assert parse_qs(parts.query, strict_parsing=True) == {
        "response_type": ["code"],
        "client_id": ["abc"],
        "redirect_uri": [BACK],
        "state": [made.state],
        "code_challenge": [urlsafe_b64encode(digest).rstrip(b"=").decode()],
        "code_challenge_method": ["S256"],
        "resource": [RESOURCE],
        "scope": ["a b"],
    }
    assert 43 <= len(made.verifier.reveal()) <= 128
    assert made.verifier.reveal() not in made.url
    assert made.verifier.reveal() not in repr(made)


def test_attempts_have_different_state_and_verifier() -> None:
    one, other = attempt(), attempt()

    assert one.state != other.state
    assert one.verifier != other.verifier


def test_authorization_url_omits_scope_when_none_is_requested() -> None:
    assert "scope=" not in attempt(scopes=None).url


def test_authorization_request_is_bound_to_the_dpop_key() -> None:
    prover = DPoPSigner()

    assert parse_qs(urlsplit(attempt(prover=prover).url).query)["dpop_jkt"] == [prover.thumbprint]


def test_authorization_endpoint_query_is_preserved() -> None:
    made = attempt(by=server(authorization_endpoint=f"{ISSUER}/authorize?tenant=1&state=evil&client_id=evil"))
    fields = parse_qs(urlsplit(made.url).query)

    assert fields["tenant"] == ["1"]
    assert fields["state"] == [made.state]
    assert fields["client_id"] == ["abc"]


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"code_challenge_methods_supported": None}, "expected S256 to be among them, got none"),
        ({"code_challenge_methods_supported": ()}, "got an empty list"),
        ({"code_challenge_methods_supported": ("plain",)}, "got plain"),
        ({"code_challenge_methods_supported": ("s256",)}, "got s256"),
        ({"authorization_endpoint": None}, "authorization_endpoint: missing"),
        ({"authorization_endpoint": "javascript:alert(document.cookie)//"}, "authorization_endpoint: expected"),
        ({"authorization_endpoint": "http://login.example.com/"}, "authorization_endpoint: expected an https URL"),
        ({"authorization_endpoint": "https://login.example.com/#x"}, "without fragment"),
    ],
)
def test_unsuitable_authorization_server_is_refused(members: dict[str, Any], why: str) -> None:
    with pytest.raises(AuthorizationError, match=why):
        attempt(by=server(**members))


def test_code_is_read_from_the_redirect() -> None:
    made = attempt()

    assert read_code(made, redirect_for(made)) == Secret("c0de")


@pytest.mark.parametrize(
    ("supported", "iss", "good"),
    [
        (True, ISSUER, True),
        (True, None, False),
        (False, ISSUER, True),
        (False, None, True),
        *((supported, iss, False) for supported in (True, False) for iss in ("https://evil.example", "")),
        # Compared as received: these URLs are equivalent but not equal.
        (True, f"{ISSUER}/", False),
        (True, "https://LOGIN.example.com", False),
        (True, f"{ISSUER}:443", False),
        (True, "https://login.example.co%6d", False),
        (True, f" {ISSUER}", False),
    ],
)
def test_redirect_iss_must_equal_the_issuer_if_sent_or_supported(supported: bool, iss: str | None, good: bool) -> None:
    made = attempt(by=server(authorization_response_iss_parameter_supported=supported))
    if good:
        assert read_code(made, redirect_for(made, iss=iss)) == Secret("c0de")
    else:
        with pytest.raises(AuthorizationError, match=r"^iss: expected "):
            read_code(made, redirect_for(made, iss=iss))


def test_error_of_a_forged_redirect_is_not_shown() -> None:
    made = attempt()
    words = {"code": None, "error": "access_denied", "error_description": "call 555-1234 now"}
    for other in (redirect_for(made, iss="https://evil.example", **words), redirect_for(made, state="x", **words)):
        with pytest.raises(AuthorizationError) as caught:
            read_code(made, other)
        assert "555" not in str(caught.value)
        assert "denied" not in str(caught.value)
        assert not isinstance(caught.value, TokenRefused)


def test_error_of_the_authorization_server_is_raised() -> None:
    made = attempt()
    with pytest.raises(TokenRefused, match=r"access_denied: the person said no.") as caught:
        read_code(
            made, redirect_for(made, code=None, error="access_denied", error_description="the person\nsaid no\x07")
        )
    assert caught.value.code == "access_denied"
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("state", [None, "", "other", "\u00fc"])
def test_redirect_with_wrong_state_is_refused(state: str | None) -> None:
    made = attempt()
    with pytest.raises(AuthorizationError, match=r"^state: ") as caught:
        read_code(made, redirect_for(made, state=state))
    assert made.state not in str(caught.value)


def test_redirect_of_another_attempt_is_refused() -> None:
    """Login CSRF: the redirect contains the attacker's code and state."""
    victim, attacker = attempt(), attempt()
    with pytest.raises(AuthorizationError, match=r"^state: "):
        read_code(victim, redirect_for(attacker))


def test_stolen_code_is_sent_with_the_wrong_verifier() -> None:
    """Code injection: the state is right, but the verifier is that of another attempt."""
    victim, thief = attempt(), attempt()
    flow = exchange(thief, read_code(victim, redirect_for(victim)))

    assert form(next(flow))["code_verifier"] == thief.verifier.reveal() != victim.verifier.reveal()


@pytest.mark.parametrize(
    "uri",
    [
        "http://127.0.0.1:9/other",
        "http://127.0.0.1:10/callback",
        "https://127.0.0.1:9/callback",
        "http://evil.example/callback",
        "/callback",
    ],
)
def test_redirect_to_another_uri_is_refused(uri: str) -> None:
    made = attempt()
    with pytest.raises(AuthorizationError, match=r"expected a redirect to 'http://127.0.0.1:9/callback', got"):
        read_code(made, redirect_for(made, uri))


@pytest.mark.parametrize("extra", ["&state=x", "&code=other", "&iss=https://evil.example", "&error=x&error=y"])
def test_repeated_redirect_parameter_is_refused(extra: str) -> None:
    made = attempt()
    with pytest.raises(AuthorizationError, match="expected each parameter of the redirect once"):
        read_code(made, redirect_for(made) + extra)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a" * 20_000, "expected a redirect of at most 16384 characters"),
        ("&".join(f"p{number}=1" for number in range(60)), "at most 50 parameters"),
    ],
)
def test_oversized_redirect_is_refused(text: str, why: str) -> None:
    made = attempt()
    with pytest.raises(AuthorizationError, match=why):
        read_code(made, f"{redirect_for(made)}&{text}")


@pytest.mark.parametrize("code", [None, ""])
def test_redirect_without_a_code_is_refused(code: str | None) -> None:
    made = attempt()
    with pytest.raises(AuthorizationError, match=r"^code: missing"):
        read_code(made, redirect_for(made, code=code))


def test_code_exchange_sends_verifier_and_resource() -> None:
    made = attempt()
    flow = exchange(made, Secret("c0de"))
    request = next(flow)

    assert request.url == f"{ISSUER}/token"
    assert form(request) == {
        "grant_type": "authorization_code",
        "code": "c0de",
        "redirect_uri": BACK,
        "code_verifier": made.verifier.reveal(),
        "resource": RESOURCE,
        "client_id": "abc",
    }
    with pytest.raises(StopIteration) as done:
        flow.send(answer({"access_token": "t", "token_type": "Bearer"}))
    assert done.value.value.access_token == Secret("t")
