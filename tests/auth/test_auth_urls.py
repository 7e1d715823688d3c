"""Allowed URLs, and the URLs of metadata documents."""

from __future__ import annotations

import pytest

from mcptrio.auth.urls import (
    canonical,
    check_url,
    covers,
    is_loopback,
    resource_metadata_urls,
    server_metadata_urls,
    shown,
)
from mcptrio.errors import AuthorizationError

__all__: list[str] = []


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://mcp.example.com/mcp", "https://mcp.example.com/mcp"),
        ("HTTPS://MCP.Example.COM/MCP", "https://mcp.example.com/MCP"),
        ("https://mcp.example.com:443/", "https://mcp.example.com"),
        ("http://127.0.0.1:80/mcp/", "http://127.0.0.1/mcp/"),
        ("https://mcp.example.com:8443", "https://mcp.example.com:8443"),
        ("https://[::1]:8443/x?y=1#z", "https://[::1]:8443/x?y=1"),
        ("https://mcp.example.com/?tenant=1", "https://mcp.example.com/?tenant=1"),
    ],
)
def test_server_url_is_canonicalized(url: str, name: str) -> None:
    assert canonical(url) == name
    assert canonical(name) == name


@pytest.mark.parametrize("url", ["mcp.example.com", "ftp://x/", "https://", "https://user:secret@x/", "https://x:0/"])
def test_invalid_server_url_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(AuthorizationError) as caught:
        canonical(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "https://login.example.com/authorize?x=y",
        "http://localhost:3000/token",
        "http://127.0.0.1/token",
        "http://[::1]:1/token",
        "http://dev.localhost/token",
    ],
)
def test_valid_endpoint_url_is_accepted(url: str) -> None:
    assert check_url(url, "token_endpoint") == url


@pytest.mark.parametrize(
    "url",
    [
        "http://login.example.com/",
        "http://localhost.example.com/",
        "http://127.0.0.1.example.com/",
        "javascript:alert(1)",
        "javascript://x.example/%0aalert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "vscode://x/y",
        "//login.example.com/",
        "https:///path",
        "https://x.example/#fragment",
        "https://x.example/\r\nHost: y",
        "https://x.example\\@evil.example/",
        "https://user@x.example/",
        "https://x.example/a b",
        "https://x.example/" + "a" * 3000,
        "https://x.example/\u202e",
        "https://x.example:99999/",
        "https://x.example/`id`",
        "",
    ],
)
def test_unsafe_endpoint_url_is_refused(url: str) -> None:
    with pytest.raises(AuthorizationError, match="authorization_endpoint: ") as caught:
        check_url(url, "authorization_endpoint")
    assert len(str(caught.value)) < 600
    assert str(caught.value).isprintable()


def test_url_with_unexpected_query_is_refused() -> None:
    with pytest.raises(AuthorizationError, match="without query") as caught:
        check_url("https://x.example/?secret=1", "issuer", query=False)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "resource",
    [
        "https://mcp.example.com/team/mcp",
        "https://MCP.example.com:443/team/mcp",
        "https://mcp.example.com/team/mcp/",
        "https://mcp.example.com/team",
        "https://mcp.example.com/team/",
        "https://mcp.example.com/",
        "https://mcp.example.com",
    ],
)
def test_resource_covers_the_server_url(resource: str) -> None:
    assert covers(resource, "https://mcp.example.com/team/mcp")


@pytest.mark.parametrize(
    "resource",
    [
        "https://evil.example/team/mcp",
        "http://mcp.example.com/team/mcp",
        "https://mcp.example.com:8443/team/mcp",
        "https://mcp.example.com/team/mcp/more",
        "https://mcp.example.com/tea",
        "https://mcp.example.com/team/mcp?x=1",
        "https://mcp.example.com.evil.example/",
        "https://mcp.example.com@evil.example/",
        "https://mcp.example.com/TEAM",
        "nothing",
        "",
    ],
)
def test_resource_does_not_cover_another_url(resource: str) -> None:
    assert not covers(resource, "https://mcp.example.com/team/mcp")


def test_resource_does_not_cover_a_path_with_dot_segments() -> None:
    assert not covers("https://x.example/team", "https://x.example/team/../other")
    assert not covers("https://x.example/team", "https://x.example/team/%2E%2e/other")


@pytest.mark.parametrize(
    ("url", "places"),
    [
        ("https://x.example", ["https://x.example/.well-known/oauth-protected-resource"]),
        (
            "https://x.example:8443/public/mcp",
            [
                "https://x.example:8443/.well-known/oauth-protected-resource/public/mcp",
                "https://x.example:8443/.well-known/oauth-protected-resource",
            ],
        ),
        (
            "https://x.example/mcp?tenant=1",
            [
                "https://x.example/.well-known/oauth-protected-resource/mcp?tenant=1",
                "https://x.example/.well-known/oauth-protected-resource",
            ],
        ),
    ],
)
def test_resource_metadata_urls(url: str, places: list[str]) -> None:
    assert list(resource_metadata_urls(url)) == places


@pytest.mark.parametrize(
    ("issuer", "places"),
    [
        (
            "https://x.example",
            [
                "https://x.example/.well-known/oauth-authorization-server",
                "https://x.example/.well-known/openid-configuration",
            ],
        ),
        (
            "https://x.example/tenant1/",
            [
                "https://x.example/.well-known/oauth-authorization-server/tenant1",
                "https://x.example/.well-known/openid-configuration/tenant1",
                "https://x.example/tenant1/.well-known/openid-configuration",
            ],
        ),
    ],
)
def test_authorization_server_metadata_urls(issuer: str, places: list[str]) -> None:
    assert list(server_metadata_urls(issuer)) == places


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("localhost", True),
        ("LOCALHOST.", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("127.1", False),
        ("localhost.evil.example", False),
        ("10.0.0.1", False),
    ],
)
def test_loopback_host_is_recognized(host: str, here: bool) -> None:
    assert is_loopback(host) is here


def test_shown_url_omits_credentials_and_query() -> None:
    assert shown("https://me:secret@x.example/a?token=secret#secret") == "'https://x.example/a'"
    assert len(shown("https://x.example/" + "a" * 5000)) < 250
