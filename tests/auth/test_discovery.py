"""Discovery of the authorization server, as tables of requests and responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from mcptrio.abc import FetchRequest, FetchResponse
from mcptrio.auth.discovery import TokenSource, discover, discover_server
from mcptrio.errors import AuthorizationError, RequestFailed

from .client_parts import NOT_FOUND, answer, play

__all__: list[str] = []

URL = "https://mcp.example.com/team/mcp"
ISSUER = "https://login.example.com"
WELL_KNOWN = "https://mcp.example.com/.well-known"
PATH = f"GET {WELL_KNOWN}/oauth-protected-resource/team/mcp"
ROOT = f"GET {WELL_KNOWN}/oauth-protected-resource"
SERVER = f"GET {ISSUER}/.well-known/oauth-authorization-server"
OPENID = f"GET {ISSUER}/.well-known/openid-configuration"
DOWN = RequestFailed("nobody answers")


def resource(**members: Any) -> FetchResponse:
    return answer({"resource": URL, "authorization_servers": [ISSUER], **members})


def server(**members: Any) -> FetchResponse:
    return answer({"issuer": ISSUER, "token_endpoint": f"{ISSUER}/token", **members})


Row = tuple[str, FetchResponse | RequestFailed]


@pytest.mark.parametrize(
    ("metadata_url", "rows"),
    [
        (None, [(PATH, resource()), (SERVER, server())]),
        (None, [(PATH, NOT_FOUND), (ROOT, resource()), (SERVER, server())]),
        ("https://mcp.example.com/custom", [("GET https://mcp.example.com/custom", resource()), (SERVER, server())]),
        (
            "https://mcp.example.com/custom",
            [("GET https://mcp.example.com/custom", NOT_FOUND), (PATH, resource()), (SERVER, server())],
        ),
        (f"{WELL_KNOWN}/oauth-protected-resource/team/mcp", [(PATH, resource()), (SERVER, server())]),
        (None, [(PATH, resource()), (SERVER, NOT_FOUND), (OPENID, server())]),
        (None, [(PATH, resource()), (SERVER, answer("", 302, location="x")), (OPENID, server())]),
    ],
)
def test_metadata_documents_are_requested_in_order(metadata_url: str | None, rows: list[Row]) -> None:
    place = play(discover(URL, metadata_url=metadata_url), *rows)

    assert (place.resource, place.server.issuer, place.dpop_required) == (URL, ISSUER, False)


def test_localhost_mismatch_error_names_the_url_to_use() -> None:
    """``localhost`` and ``127.0.0.1`` are compared as text, so the error names the spelling to use."""
    known = "http://localhost:8861/.well-known"
    path = f"GET {known}/oauth-protected-resource/mcp"
    login = f"GET {known}/oauth-authorization-server"
    named = resource(resource="http://127.0.0.1:8861/mcp")
    with pytest.raises(AuthorizationError, match=r": connect to 'http://127\.0\.0\.1:8861/mcp'$"):
        play(discover("http://localhost:8861/mcp"), (path, named))
    with pytest.raises(AuthorizationError, match=r"got 'http://127\.0\.0\.1:9999/mcp' at [^:]*:[^:]*:[^:]*$"):
        play(discover("http://localhost:8861/mcp"), (path, resource(resource="http://127.0.0.1:9999/mcp")))
    with pytest.raises(AuthorizationError, match=r"configure both servers with the same one$"):
        play(discover_server("http://localhost:8861"), (login, answer({"issuer": "http://127.0.0.1:8861"})))


def test_metadata_of_an_issuer_with_a_path_is_found() -> None:
    tenant = f"{ISSUER}/tenant1"
    found = answer({"issuer": tenant})
    metadata = play(
        discover_server(tenant),
        (f"{SERVER}/tenant1", NOT_FOUND),
        (f"{OPENID}/tenant1", NOT_FOUND),
        (f"GET {tenant}/.well-known/openid-configuration", found),
    )

    assert metadata.issuer == tenant


@pytest.mark.parametrize("named", ["https://mcp.example.com", "https://MCP.example.com/team/", f"{URL}/"])
def test_published_resource_is_unchanged(named: str) -> None:
    place = play(discover(URL), (PATH, resource(resource=named)), (SERVER, server()))

    assert place.resource == named


def test_known_authorization_server_is_preferred() -> None:
    other = resource(authorization_servers=["https://first.example.com", ISSUER])

    assert play(discover(URL, preferred=["https://x.example", ISSUER]), (PATH, other), (SERVER, server())).server


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([(PATH, resource(resource="https://evil.example/mcp"))], "resource: expected the server's own URL"),
        ([(PATH, resource(resource=f"{URL}/other"))], "resource: expected the server's own URL"),
        ([(PATH, answer({"authorization_servers": [ISSUER]}))], "resource: missing"),
        ([(PATH, resource(authorization_servers=[]))], "authorization_servers: expected at least one"),
        ([(PATH, resource(authorization_servers=None))], "authorization_servers: expected at least one"),
        ([(PATH, resource(authorization_servers=["http://login.example.com"]))], "issuer: expected an https URL"),
        ([(PATH, resource(authorization_servers=["https://x.example/?a=b"]))], "issuer: expected a URL without query"),
        ([(PATH, answer(b"<html>"))], "expected JSON"),
        ([(PATH, answer(b"{" + b" " * 200_000))], "expected at most 131072 bytes"),
        ([(PATH, answer("", 503)), (ROOT, NOT_FOUND)], "expected metadata of the resource, got HTTP 503"),
        # Issuers are compared character by character.
        (
            [(PATH, resource()), (SERVER, server(issuer="https://honest.example.com"))],
            "issuer: expected 'https://login",
        ),
        ([(PATH, resource()), (SERVER, server(issuer=f"{ISSUER}/"))], "issuer: expected 'https://login"),
        ([(PATH, resource()), (SERVER, server(issuer="https://LOGIN.example.com"))], "issuer: expected 'https://login"),
        ([(PATH, resource()), (SERVER, server(issuer=f"{ISSUER}:443"))], "issuer: expected 'https://login"),
        ([(PATH, resource()), (SERVER, server(token_endpoint="http://x.example/"))], "expected an https URL"),
        # The user's browser is not sent to services on the user's machine.
        (
            [(PATH, resource()), (SERVER, server(authorization_endpoint="http://localhost:8080/admin"))],
            "authorization_endpoint: expected a URL that is not on the loopback interface",
        ),
        (
            [(PATH, resource()), (SERVER, server(registration_endpoint="https://127.0.0.1/"))],
            "registration_endpoint: expected a URL that is not on the loopback interface",
        ),
        ([(PATH, resource()), (SERVER, NOT_FOUND), (OPENID, NOT_FOUND)], r"expected metadata of .* \(HTTP 404\)"),
    ],
)
def test_invalid_metadata_document_is_refused(rows: list[Row], why: str) -> None:
    with pytest.raises(AuthorizationError, match=why):
        play(discover(URL), *rows)


@pytest.mark.parametrize("rows", [[(PATH, DOWN)], [(PATH, resource()), (SERVER, DOWN)]])
def test_unreachable_metadata_server_is_an_error(rows: list[Row]) -> None:
    with pytest.raises(RequestFailed, match="nobody answers"):
        play(discover(URL), *rows)


@pytest.mark.parametrize(
    "metadata_url",
    ["http://mcp.example.com/x", "javascript:alert(1)", "file:///etc/passwd", "https://a:b@mcp.example.com/x"],
)
def test_unsafe_metadata_url_is_not_requested(metadata_url: str) -> None:
    with pytest.raises(AuthorizationError, match="resource_metadata: "):
        play(discover(URL, metadata_url=metadata_url))


def test_missing_document_at_the_named_url_is_an_error() -> None:
    """A server that names a metadata URL is not treated as its own authorization server."""
    with pytest.raises(AuthorizationError, match="expected metadata of the resource, got HTTP 404"):
        play(
            discover(URL, metadata_url="https://mcp.example.com/custom"),
            ("GET https://mcp.example.com/custom", NOT_FOUND),
            (PATH, NOT_FOUND),
            (ROOT, NOT_FOUND),
        )


# --- 2025-03-26

OWN = "https://mcp.example.com"
OWN_SERVER = f"GET {OWN}/.well-known/oauth-authorization-server"
OWN_OPENID = f"GET {OWN}/.well-known/openid-configuration"


def test_server_without_resource_metadata_is_its_own_authorization_server() -> None:
    own = answer({"issuer": OWN, "authorization_endpoint": f"{OWN}/oauth/authorize"})
    place = play(discover(URL), (PATH, NOT_FOUND), (ROOT, NOT_FOUND), (OWN_SERVER, own))

    assert (place.resource, place.metadata) == (URL, None)
    assert place.server.authorization_endpoint == f"{OWN}/oauth/authorize"
    assert place.server.code_challenge_methods_supported is None


def test_server_without_metadata_has_the_default_endpoints() -> None:
    absent = [(where, NOT_FOUND) for where in (PATH, ROOT, OWN_SERVER, OWN_OPENID)]
    place = play(discover(URL), *absent)

    assert place.server.issuer == OWN
    assert place.server.authorization_endpoint == f"{OWN}/authorize"
    assert place.server.token_endpoint == f"{OWN}/token"
    assert place.server.registration_endpoint == f"{OWN}/register"
    assert place.server.code_challenge_methods_supported == ("S256",)


def test_version_is_sent_only_in_revisions_that_require_it() -> None:
    seen: list[Mapping[str, str]] = []
    flow = discover(URL)
    request: FetchRequest = next(flow)
    try:
        while True:
            seen.append(request.headers)
            request = flow.send(NOT_FOUND)
    except StopIteration as done:
        place: TokenSource = done.value

    assert place.metadata is None
    assert [headers.get("mcp-protocol-version") for headers in seen] == [None, None, "2025-03-26", "2025-03-26"]


def test_default_server_metadata_of_another_issuer_is_refused() -> None:
    own = answer({"issuer": f"{OWN}/oauth"})
    with pytest.raises(AuthorizationError, match=r"issuer: expected 'https://mcp.example.com'"):
        play(discover(URL), (PATH, NOT_FOUND), (ROOT, NOT_FOUND), (OWN_SERVER, own))


def test_server_without_tls_is_not_its_own_authorization_server() -> None:
    with pytest.raises(AuthorizationError, match="expected an https URL"):
        play(
            discover("http://mcp.example.com/mcp"),
            ("GET http://mcp.example.com/.well-known/oauth-protected-resource/mcp", NOT_FOUND),
            ("GET http://mcp.example.com/.well-known/oauth-protected-resource", NOT_FOUND),
        )
