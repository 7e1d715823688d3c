"""Parsing of endpoint URLs."""

from __future__ import annotations

import pytest

from mcptrio.http.client.endpoint import HTTPEndpoint, shown_url

__all__: list[str] = []


@pytest.mark.parametrize(
    ("url", "authority", "port", "target"),
    [
        ("http://example.com", "example.com", 80, "/"),
        ("https://example.com/mcp", "example.com", 443, "/mcp"),
        ("HTTPS://EXAMPLE.com:443/Mcp", "example.com", 443, "/Mcp"),
        ("http://example.com:8000/a/b?c=d&e", "example.com:8000", 8000, "/a/b?c=d&e"),
        ("http://[::1]:9/", "[::1]:9", 9, "/"),
        ("http://[2001:DB8::1]", "[2001:db8::1]", 80, "/"),
        ("http://bücher.example/ü%20?q=ü#part", "xn--bcher-kva.example", 80, "/%C3%BC%20?q=%C3%BC"),
        ("http://example.com?x=1", "example.com", 80, "/?x=1"),
    ],
)
def test_endpoint_url_is_parsed_into_its_parts(url: str, authority: str, port: int, target: str) -> None:
    endpoint = HTTPEndpoint.parse(url)

    assert (endpoint.authority, endpoint.port, endpoint.target) == (authority, port, target)
    assert endpoint.authorization is None
    assert endpoint.name == endpoint.url.partition("?")[0]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "//example.com/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "http://",
        "http:///path",
        "http://:80/",
        "http://example.com:0/",
        "http://example.com:99999/",
        "http://example.com:x/",
        "http://a b/",
        "http://a\n.b/",
        "http://a\\@b/",
        "http://a..b/",
        f"http://{'a' * 64}.b/",
        "http://[::1/",
        "http://[fe80::1%eth0]/",
        "http://a/\ud800",
        "http://a/" + "x" * 9000,
    ],
)
def test_malformed_endpoint_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"^url: expected"):
        HTTPEndpoint.parse(url)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://me:secret@a/",
        "http://me:secret@/",
        "http://me:sec//secret@a:x/",
        "http://a:x/?secret",
        "me:secret@a#secret",
    ],
)
def test_error_about_a_malformed_url_contains_no_secret(url: str) -> None:
    with pytest.raises(ValueError, match=r"^url: expected") as caught:
        HTTPEndpoint.parse(url)
    assert "secret" not in str(caught.value)
    assert "secret" not in shown_url(url)


def test_credentials_in_a_url_are_separated_from_it() -> None:
    endpoint = HTTPEndpoint.parse("https://me:p%3Aw@example.com/x?y")

    assert endpoint.authorization == "Basic bWU6cDp3"
    assert endpoint.url == "https://example.com/x?y"
    assert endpoint.name == "https://example.com/x"
    assert "Basic" not in repr(endpoint)


@pytest.mark.parametrize(
    ("reference", "target"),
    [
        ("/messages?id=1", "/messages?id=1"),
        ("messages", "/a/messages"),
        ("?id=1", "/a/sse?id=1"),
        ("https://example.com/m", "/m"),
        ("https://example.com:443/m", "/m"),
        ("//example.com/m", "/m"),
    ],
)
def test_reference_of_the_same_origin_is_resolved(reference: str, target: str) -> None:
    assert HTTPEndpoint.parse("https://example.com/a/sse").join(reference).target == target


@pytest.mark.parametrize(
    "reference",
    [
        "https://evil.example/m",
        "http://example.com/m",
        "https://example.com:444/m",
        "//evil.example/m",
        "https://example.com@evil.example/m",
        "https://example.com.evil.example/m",
        "javascript:alert(1)",
        "\\\\evil.example/m",
        "https:\n//evil.example",
    ],
)
def test_reference_of_another_origin_is_refused(reference: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        HTTPEndpoint.parse("https://example.com/a/sse").join(reference)


def test_shown_url_is_bounded_in_length() -> None:
    assert len(shown_url("http://a/" + "x" * 5000)) < 250
    assert shown_url("/path?secret") == "'/path'"
