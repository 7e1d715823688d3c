"""Metadata documents of other servers are validated, and our own are valid."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcptrio.auth.metadata import MAX_DOCUMENT_BYTES, ResourceMetadata, ServerMetadata
from mcptrio.errors import AuthorizationError

__all__: list[str] = []

WHERE = "https://login.example.com/.well-known/oauth-authorization-server?secret=1"
ISSUER = "https://login.example.com"


def read(**members: Any) -> ServerMetadata:
    return ServerMetadata.read(json.dumps({"issuer": ISSUER, **members}).encode(), WHERE)


def test_server_metadata_is_read() -> None:
    metadata = read(
        token_endpoint=f"{ISSUER}/token",
        scopes_supported=["a", "b"],
        authorization_response_iss_parameter_supported=True,
        unknown={"a": [1]},
        registration_endpoint=None,
    )

    assert metadata == ServerMetadata(
        issuer=ISSUER,
        token_endpoint=f"{ISSUER}/token",
        scopes_supported=("a", "b"),
        authorization_response_iss_parameter_supported=True,
    )
    assert ServerMetadata.read(metadata.write(), WHERE) == metadata
    assert metadata.endpoints() == {"token_endpoint": f"{ISSUER}/token"}


def test_resource_metadata_is_read_and_written() -> None:
    metadata = ResourceMetadata(
        resource="https://mcp.example.com/mcp",
        authorization_servers=(ISSUER,),
        scopes_supported=(),
        bearer_methods_supported=("header",),
    )

    assert json.loads(metadata.write()) == {
        "resource": "https://mcp.example.com/mcp",
        "authorization_servers": [ISSUER],
        "scopes_supported": [],
        "bearer_methods_supported": ["header"],
    }
    assert ResourceMetadata.read(metadata.write(), WHERE) == metadata


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"issuer": None}, "issuer: missing"),
        ({"issuer": 1}, "issuer: expected a string"),
        ({"token_endpoint": ["x"]}, "token_endpoint: expected a string"),
        ({"token_endpoint": "http://login.example.com/"}, "token_endpoint.*expected an https URL"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "authorization_endpoint.*expected an http or https URL"),
        ({"registration_endpoint": "file:///etc/passwd"}, "registration_endpoint"),
        ({"jwks_uri": "https://a:b@x.example/"}, "jwks_uri.*without credentials"),
        ({"scopes_supported": "a b"}, "scopes_supported: expected a list"),
        ({"scopes_supported": ["a", 1]}, "scopes_supported: expected a string"),
        (
            {"scopes_supported": ["a"] * 501},
            "scopes_supported: expected a list of at most 500 strings, got list of 501",
        ),
        ({"service_documentation": "a" * 2049}, "service_documentation: expected a string of at most 2048"),
        ({"client_id_metadata_document_supported": "true"}, "expected true or false, got str"),
    ],
)
def test_invalid_metadata_member_is_refused(members: dict[str, Any], why: str) -> None:
    with pytest.raises(AuthorizationError, match=why) as caught:
        read(**members)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (b"", "expected JSON"),
        (b"<html>", "expected JSON"),
        (b"[]", "expected a JSON object, got list"),
        (b'{"issuer": NaN}', "expected JSON"),
        (b"[" * 50_000, "expected JSON"),
        (b'{"a":' * 20_000, "expected JSON"),
        (b" " * (MAX_DOCUMENT_BYTES + 1), "expected at most 131072 bytes, got 131073"),
    ],
    ids=["nothing", "html", "list", "nan", "deep", "deeper", "huge"],
)
def test_invalid_server_metadata_is_refused(document: bytes, why: str) -> None:
    with pytest.raises(AuthorizationError, match=why):
        ServerMetadata.read(document, WHERE)
