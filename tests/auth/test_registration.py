"""Dynamic client registration, as tables of requests and responses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcptrio.abc import FetchRequest, FetchResponse
from mcptrio.auth.client.registration import ClientMetadata, PreRegistered, Registered, register
from mcptrio.auth.metadata import ServerMetadata
from mcptrio.errors import AuthorizationError, ConfigError
from mcptrio.ground.secret import Secret

from .client_parts import BACK, answer

__all__: list[str] = []

ISSUER = "https://login.example.com"
DOCUMENT = "https://app.example.com/oauth/client.json"


def server(**members: Any) -> ServerMetadata:
    return ServerMetadata(issuer=ISSUER, **{"registration_endpoint": f"{ISSUER}/register", **members})


def registered(response: FetchResponse, *, by: ServerMetadata | None = None, **options: Any) -> tuple[Any, Registered]:
    """Return the registration request and its result."""
    client = options.pop("client", ClientMetadata(name="Notes"))
    flow = register(by or server(), client, [BACK], **options)
    request: FetchRequest = next(flow)
    assert (request.method, request.url) == ("POST", f"{ISSUER}/register")
    assert request.headers["content-type"] == "application/json"
    with pytest.raises(StopIteration) as done:
        flow.send(response)
    return json.loads(request.body), done.value.value


def test_registration_sends_metadata_and_returns_the_client() -> None:
    wish, known = registered(answer({"client_id": "abc"}, 201), scopes=("a", "b"))

    assert wish == {
        "client_name": "Notes",
        "redirect_uris": [BACK],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": "native",
        "scope": "a b",
    }
    assert (known.identity.client_id, known.identity.client_secret) == ("abc", None)
    assert (known.redirect_uris, known.scopes, known.expires_at) == ((BACK,), ("a", "b"), None)
    assert Registered.read(json.loads(json.dumps(known.write()))) == known


@pytest.mark.parametrize("error", ["invalid_client_metadata", "invalid_scope"])
def test_registration_is_repeated_without_scopes_when_they_are_refused(error: str) -> None:
    flow = register(server(), ClientMetadata(name="Notes"), [BACK], scopes=("a", "b"))
    first = next(flow)
    second = flow.send(answer({"error": error}, 400))
    with pytest.raises(StopIteration) as done:
        flow.send(answer({"client_id": "abc"}, 201))

    assert json.loads(first.body) == {**json.loads(second.body), "scope": "a b"}
    assert (done.value.value.identity.client_id, done.value.value.scopes) == ("abc", None)


def test_registration_is_repeated_without_additional_scopes_when_they_are_refused() -> None:
    flow = register(server(), ClientMetadata(name="Notes"), [BACK], scopes=("a", "b"), later_scopes=("b", "admin"))
    first = next(flow)
    second = flow.send(answer({"error": "invalid_scope"}, 400))
    with pytest.raises(StopIteration) as done:
        flow.send(answer({"client_id": "abc"}, 201))

    assert json.loads(first.body)["scope"] == "a b admin"
    assert json.loads(second.body)["scope"] == "a b"
    assert done.value.value.scopes == ("a", "b")


def test_registration_is_repeated_without_scopes_only_once() -> None:
    flow = register(server(), ClientMetadata(name="Notes"), [BACK], scopes=("a",))
    next(flow)
    flow.send(answer({"error": "invalid_scope"}, 400))
    with pytest.raises(AuthorizationError, match="client registration failed"):
        flow.send(answer({"error": "invalid_scope"}, 400))


def test_web_redirect_registers_a_web_application() -> None:
    client = ClientMetadata(name="Notes", uri="https://app.example.com/", application_type="web")
    wish, _ = registered(answer({"client_id": "abc"}, 201), client=client, bound_tokens=True)

    assert (wish["application_type"], wish["client_uri"]) == ("web", "https://app.example.com/")
    assert wish["dpop_bound_access_tokens"] is True
    assert "scope" not in wish


@pytest.mark.parametrize(
    ("supported", "method"),
    [
        (None, "none"),
        (("client_secret_basic", "none"), "none"),
        (("client_secret_post", "client_secret_basic"), "client_secret_basic"),
        (("client_secret_post",), "client_secret_post"),
    ],
)
def test_registration_requests_a_secret_only_if_the_server_requires_one(
    supported: tuple[str, ...] | None, method: str
) -> None:
    wish, _ = registered(answer({"client_id": "abc"}), by=server(token_endpoint_auth_methods_supported=supported))

    assert wish["token_endpoint_auth_method"] == method


def test_registered_secret_is_stored_with_scopes_and_expiry() -> None:
    given = {
        "client_id": "abc",
        "client_secret": "s3cret",
        "client_secret_expires_at": 1000,
        "token_endpoint_auth_method": "client_secret_post",
        "scope": "a",
    }
    _, known = registered(answer(given), scopes=("a", "b"))

    assert known.identity.client_secret == Secret("s3cret")
    assert known.identity.method == "client_secret_post"
    assert "s3cret" not in repr(known)
    assert Registered.read(known.write()) == known
    assert known.covers(BACK, ("a",), 999)
    assert not known.covers(BACK, ("a",), 1000)
    assert not known.covers(BACK, ("b",), 999)
    assert not known.covers("http://127.0.0.1:10/callback", ("a",), 999)


def test_client_secret_without_expiry_never_expires() -> None:
    _, known = registered(answer({"client_id": "abc", "client_secret": "s", "client_secret_expires_at": 0}))

    assert known.expires_at is None


def test_metadata_document_is_the_client_id_if_the_server_supports_it() -> None:
    client = ClientMetadata(name="Notes", document=DOCUMENT)
    flow = register(server(client_id_metadata_document_supported=True), client, [BACK])
    with pytest.raises(StopIteration) as done:
        next(flow)

    assert done.value.value.identity.client_id == DOCUMENT
    assert done.value.value.identity.method == "none"

    wish, _ = registered(answer({"client_id": "abc"}), client=client)
    assert wish["client_name"] == "Notes"


@pytest.mark.parametrize(
    "document",
    [
        "http://app.example.com/client.json",
        "https://app.example.com",
        "https://app.example.com/",
        "https://me@app.example.com/client.json",
        "https://app.example.com/a/../client.json",
        "https://app.example.com/client.json#x",
    ],
)
def test_invalid_metadata_document_url_is_refused(document: str) -> None:
    with pytest.raises(ConfigError, match="client_metadata_url: expected"):
        ClientMetadata(name="Notes", document=document)


@pytest.mark.parametrize(
    ("response", "why"),
    [
        (
            answer({"error": "invalid_redirect_uri", "error_description": "no loopback\n\x1b[31m"}, 400),
            r"the redirect URI is not accepted.*: invalid_redirect_uri: no loopback \ufffd\[31m at",
        ),
        (answer({"error": "invalid_client_metadata"}, 400), "the client metadata is not accepted"),
        (
            answer(b"", 404),
            r"^the server seems to have no login \(HTTP 404 at .*\): .*--header 'Authorization=Bearer TOKEN'",
        ),
        (answer(b"<html>", 500), "client registration failed: HTTP 500"),
        (answer({}, 201), "client_id: expected a string"),
        (answer({"client_id": "a\nb"}, 201), "client_id: expected a string"),
        (answer({"client_id": "a", "client_secret": 1}, 201), "client_secret: expected a string"),
        (answer({"client_id": "a", "token_endpoint_auth_method": "magic"}, 201), "expected one of none.*got 'magic'"),
        (answer(b"x" * 200_000, 201), "expected at most"),
    ],
)
def test_failed_registration_is_an_error(response: FetchResponse, why: str) -> None:
    flow = register(server(), ClientMetadata(name="Notes"), [BACK])
    next(flow)
    with pytest.raises(AuthorizationError, match=why) as caught:
        flow.send(response)
    assert str(caught.value).isprintable()


def test_server_without_registration_endpoint_is_an_error() -> None:
    with pytest.raises(AuthorizationError, match="register a client there and configure its client_id"):
        next(register(server(registration_endpoint=None), ClientMetadata(name="Notes"), [BACK]))


def test_unsupported_token_auth_method_is_refused() -> None:
    with pytest.raises(AuthorizationError, match="token_endpoint_auth_methods_supported: expected one of"):
        next(
            register(
                server(token_endpoint_auth_methods_supported=("tls_client_auth",)), ClientMetadata(name="x"), [BACK]
            )
        )


def test_pre_registered_secret_is_not_shown() -> None:
    client = PreRegistered(client_id="abc", client_secret="s3cret")

    assert client.client_secret == Secret("s3cret")
    assert "s3cret" not in repr(client)
