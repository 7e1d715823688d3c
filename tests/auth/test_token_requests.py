"""Requests to a token endpoint, and the parts of its response that are accepted."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

import pytest

from mcptrio.abc import FetchRequest, FetchResponse
from mcptrio.auth.dpop import DPoPSigner
from mcptrio.auth.flows import Flow
from mcptrio.auth.jose import Key, peek, verify
from mcptrio.auth.metadata import ServerMetadata
from mcptrio.auth.token_requests import (
    ClientIdentity,
    TokenRefused,
    Tokens,
    choose_method,
    refresh_tokens,
    request_tokens,
    revoke_token,
)
from mcptrio.errors import AuthorizationError, RequestFailed
from mcptrio.ground.secret import Secret

from .client_parts import Clock, answer, form

__all__: list[str] = []

ISSUER = "https://login.example.com"
ENDPOINT = f"{ISSUER}/token"
GRANT = {"grant_type": "client_credentials", "resource": "https://mcp.example.com/"}
GIVEN = {"access_token": "t0ken", "token_type": "bearer", "expires_in": 60, "refresh_token": "r", "scope": "a  b"}
SECRET = ClientIdentity(client_id="my id", client_secret=Secret("s3:cret+"))


def server(**members: Any) -> ServerMetadata:
    return ServerMetadata(issuer=ISSUER, token_endpoint=ENDPOINT, **members)


def asked(flow: Flow[Tokens], *responses: FetchResponse) -> tuple[list[FetchRequest], Tokens]:
    requests = [next(flow)]
    for response in responses:
        try:
            requests.append(flow.send(response))
        except StopIteration as done:
            return requests, done.value
    raise AssertionError("expected an end")


def test_token_response_is_read() -> None:
    [request], tokens = asked(request_tokens(server(), None, GRANT, clock=Clock(1000)), answer(GIVEN))

    assert (request.method, request.url) == ("POST", ENDPOINT)
    assert request.headers["content-type"] == "application/x-www-form-urlencoded"
    assert form(request) == GRANT
    assert tokens == Tokens(access_token=Secret("t0ken"), expires_at=1060, refresh_token=Secret("r"), scopes=("a", "b"))
    assert "t0ken" not in repr(tokens)
    assert Tokens.read(json.loads(json.dumps(tokens.write()))) == tokens


@pytest.mark.parametrize(
    ("client", "supported", "method"),
    [
        (SECRET, None, "client_secret_basic"),
        (SECRET, ("client_secret_post", "client_secret_basic"), "client_secret_basic"),
        (SECRET, ("client_secret_post",), "client_secret_post"),
        (SECRET, ("none",), "none"),
        (ClientIdentity(client_id="my id"), None, "none"),
        (ClientIdentity(client_id="my id"), ("none", "client_secret_basic"), "none"),
        (
            ClientIdentity(client_id="my id", client_secret=Secret("s3:cret+"), method="client_secret_post"),
            None,
            "client_secret_post",
        ),
    ],
)
def test_client_authenticates_with_the_supported_method(
    client: ClientIdentity, supported: tuple[str, ...] | None, method: str
) -> None:
    flow = request_tokens(server(token_endpoint_auth_methods_supported=supported), client, GRANT)
    [request], _ = asked(flow, answer(GIVEN))
    fields, header = form(request), request.headers.get("authorization", "")

    if method == "client_secret_basic":
        # The parts are form-urlencoded first, so that a colon in one of them does not separate the two.
        assert b64decode(header.removeprefix("Basic ")) == b"my%20id:s3%3Acret%2B"
    else:
        assert header == ""
    assert fields["client_id"] == "my id"
    assert fields.get("client_secret") == ("s3:cret+" if method == "client_secret_post" else None)


def test_private_key_jwt_authenticates_the_client() -> None:
    key = Key.generate("ES256")
    client = ClientIdentity(client_id="abc", key=key)
    flow = request_tokens(
        server(token_endpoint_auth_methods_supported=("client_secret_basic", "private_key_jwt")),
        client,
        GRANT,
        clock=Clock(1000),
    )
    [request], _ = asked(flow, answer(GIVEN))
    fields = form(request)
    claims = verify(fields["client_assertion"], key, algorithms=("ES256",)).claims

    assert fields["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    assert (claims["iss"], claims["sub"], claims["aud"]) == ("abc", "abc", ISSUER)
    assert (claims["iat"], claims["exp"]) == (1000, 1300)
    assert len(claims["jti"]) > 16


@pytest.mark.parametrize("secret", [True, False])
def test_unsupported_auth_methods_of_the_server_are_an_error(secret: bool) -> None:
    with pytest.raises(AuthorizationError, match=r"expected one of .*, got tls_client_auth"):
        choose_method(server(token_endpoint_auth_methods_supported=("tls_client_auth",)), secret=secret, key=False)


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post", "private_key_jwt"])
def test_token_auth_method_without_its_credential_is_refused(method: Any) -> None:
    with pytest.raises(AuthorizationError, match=f"{method}: expected a"):
        next(request_tokens(server(), ClientIdentity(client_id="abc", method=method), GRANT))


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"access_token": None}, "access_token: expected 1 to 16384 visible ASCII"),
        ({"access_token": ""}, "access_token: expected 1 to 16384 visible ASCII"),
        ({"access_token": "a\r\nX-Evil: b"}, "access_token: expected 1 to 16384 visible ASCII"),
        ({"access_token": "a" * 16385}, "access_token: expected 1 to 16384 visible ASCII"),
        ({"token_type": "mac"}, "token_type: expected Bearer, got 'mac'"),
        ({"token_type": None}, "token_type: expected Bearer, got None"),
        ({"token_type": "DPoP"}, "token_type: expected Bearer, got 'DPoP'"),
        ({"refresh_token": 1}, "refresh_token: expected a string"),
        ({"refresh_token": ""}, "refresh_token: expected a string"),
    ],
)
def test_invalid_token_response_is_refused(members: dict[str, Any], why: str) -> None:
    with pytest.raises(AuthorizationError, match=why) as caught:
        asked(request_tokens(server(), None, GRANT), answer({**GIVEN, **members}))
    assert "t0ken" not in str(caught.value)


@pytest.mark.parametrize(
    ("expires_in", "expires_at"),
    [(None, None), (True, None), ("3600", 4600), ("soon", None), (-5, 1000), (1e300, 1000 + 315360000), (0, 1000)],
)
def test_token_expiry_is_computed_from_expires_in(expires_in: object, expires_at: float | None) -> None:
    given = {**GIVEN, "expires_in": expires_in}
    _, tokens = asked(request_tokens(server(), None, GRANT, clock=Clock(1000)), answer(given))

    assert tokens.expires_at == expires_at


@pytest.mark.parametrize(
    ("response", "code", "why"),
    [
        (answer({"error": "invalid_grant", "error_description": "used\x1b[1m"}, 400), "invalid_grant", "used\ufffd"),
        (answer({"error": "invalid_client"}, 401), "invalid_client", "invalid_client at"),
        (answer(b"<html>", 502), "", "HTTP 502 at 'https://login.example.com/token'"),
        (answer({"error": ["x"]}, 400), "", "HTTP 400"),
        (answer(b"[" * 70_000, 400), "", "HTTP 400"),
        (answer(GIVEN, 302, location="https://evil.example/"), "", "HTTP 302"),
    ],
)
def test_error_response_is_raised_with_its_code(response: FetchResponse, code: str, why: str) -> None:
    with pytest.raises(TokenRefused) as caught:
        asked(request_tokens(server(), None, GRANT), response)
    assert caught.value.code == code
    assert why in str(caught.value)
    assert len(str(caught.value)) < 800


def test_token_request_is_repeated_only_for_a_nonce() -> None:
    flow = request_tokens(server(), SECRET, GRANT)
    next(flow)
    with pytest.raises(RequestFailed, match="down"):
        flow.throw(RequestFailed("down"))


def test_missing_token_endpoint_is_an_error() -> None:
    with pytest.raises(AuthorizationError, match="token_endpoint: missing"):
        next(request_tokens(ServerMetadata(issuer=ISSUER), None, GRANT))


# --- bound to a key


def claims_of(request: FetchRequest) -> dict[str, Any]:
    return dict(peek(request.headers["dpop"]).claims)


def test_token_request_has_a_proof_and_the_servers_nonce() -> None:
    prover = DPoPSigner(clock=Clock(1000))
    wanted = answer({"error": "use_dpop_nonce"}, 400, dpop_nonce="n1")
    given = answer({**GIVEN, "token_type": "DPoP"}, dpop_nonce="n2")
    (first, second), tokens = asked(request_tokens(server(), None, GRANT, prover=prover), wanted, given)

    assert tokens.scheme == "DPoP"
    assert (claims_of(first)["htm"], claims_of(first)["htu"]) == ("POST", ENDPOINT)
    assert "nonce" not in claims_of(first)
    assert claims_of(second)["nonce"] == "n1"
    assert claims_of(first)["jti"] != claims_of(second)["jti"]
    assert first.body == second.body
    # The last nonce is used in the next request.
    [third], _ = asked(request_tokens(server(), None, GRANT, prover=prover), given)
    assert claims_of(third)["nonce"] == "n2"


@pytest.mark.parametrize(
    "again",
    [
        answer({"error": "use_dpop_nonce"}, 400, dpop_nonce="n2"),
        answer({"error": "invalid_grant"}, 400, dpop_nonce="n2"),
        answer({"error": "use_dpop_nonce"}, 400),
    ],
)
def test_token_request_is_repeated_once_for_a_nonce(again: FetchResponse) -> None:
    prover = DPoPSigner()
    wanted = answer({"error": "use_dpop_nonce"}, 400, dpop_nonce="n1")
    with pytest.raises(TokenRefused):
        asked(request_tokens(server(), None, GRANT, prover=prover), wanted, again)


def test_nonce_with_another_refusal_causes_no_retry() -> None:
    refusal = answer({"error": "invalid_grant"}, 400, dpop_nonce="n1")
    with pytest.raises(TokenRefused, match="invalid_grant"):
        asked(request_tokens(server(), None, GRANT, prover=DPoPSigner()), refusal)


def test_bearer_token_is_accepted_although_a_proof_was_sent() -> None:
    _, tokens = asked(request_tokens(server(), None, GRANT, prover=DPoPSigner()), answer(GIVEN))

    assert tokens.scheme == "Bearer"


# --- refreshing and revoking

OLD = Tokens(access_token=Secret("old"), refresh_token=Secret("r1"), scopes=("a",))


def test_refresh_keeps_omitted_members() -> None:
    [request], tokens = asked(
        refresh_tokens(server(), ClientIdentity(client_id="abc"), OLD, resource="https://mcp.example.com/"),
        answer({"access_token": "new", "token_type": "Bearer"}),
    )

    assert form(request) == {
        "grant_type": "refresh_token",
        "refresh_token": "r1",
        "resource": "https://mcp.example.com/",
        "client_id": "abc",
    }
    assert tokens == Tokens(access_token=Secret("new"), refresh_token=Secret("r1"), scopes=("a",))


def test_refresh_replaces_the_refresh_token() -> None:
    _, tokens = asked(refresh_tokens(server(), SECRET, OLD, resource="x"), answer({**GIVEN, "refresh_token": "r2"}))

    assert tokens.refresh_token == Secret("r2")
    assert tokens.scopes == ("a", "b")


def test_refresh_without_a_refresh_token_is_an_error() -> None:
    with pytest.raises(AuthorizationError, match="expected a refresh token"):
        next(refresh_tokens(server(), SECRET, Tokens(access_token=Secret("x")), resource="x"))


@pytest.mark.parametrize(("status", "done"), [(200, True), (503, False)])
def test_revocation_returns_whether_the_server_accepted_it(status: int, done: bool) -> None:
    flow = revoke_token(server(revocation_endpoint=f"{ISSUER}/revoke"), ClientIdentity(client_id="abc"), Secret("r1"))
    request = next(flow)

    assert request.url == f"{ISSUER}/revoke"
    assert form(request) == {"token": "r1", "token_type_hint": "refresh_token", "client_id": "abc"}
    with pytest.raises(StopIteration) as end:
        flow.send(FetchResponse(status=status))
    assert end.value.value is done


def test_failed_or_unsupported_revocation_returns_false() -> None:
    with pytest.raises(StopIteration) as end:
        next(revoke_token(server(), SECRET, Secret("r1")))
    assert end.value.value is False

    flow = revoke_token(server(revocation_endpoint=f"{ISSUER}/revoke"), SECRET, Secret("r1"))
    next(flow)
    with pytest.raises(StopIteration) as end:
        flow.throw(RequestFailed("down"))
    assert end.value.value is False
