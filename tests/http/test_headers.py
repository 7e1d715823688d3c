"""Headers, content negotiation, hosts and origins."""

from __future__ import annotations

import pytest

from mcptrio.errors import HeaderMismatch, InvalidRequest
from mcptrio.http.headers import EVENT_STREAM, JSON, Headers, accepts, is_json
from mcptrio.http.server.exchange import read_headers
from mcptrio.http.server.origins import HostPolicy, OriginPolicy


def test_header_names_are_lowercased_and_values_stripped() -> None:
    headers = Headers.of([(b"Mcp-Name", b"  tool\t"), (b"X", b"1"), (b"x", b"2")])

    assert dict(headers) == {"mcp-name": "tool", "x": "1, 2"}
    assert headers.single("mcp-name") == "tool"
    assert headers.single("absent") is None


@pytest.mark.parametrize("raw", [[(b"A", b" 1 "), (b"b", b"")], [(b"A", b"1"), (b"b", b""), (b"a", b"2")]])
def test_read_headers_agrees_with_headers_of(raw: list[tuple[bytes, bytes]]) -> None:
    headers = read_headers(raw)

    assert (headers, headers.repeated) == (Headers.of(raw), Headers.of(raw).repeated)
    assert bool(headers.repeated) == (len(raw) > len(headers))


def test_repeated_routing_header_is_refused() -> None:
    headers = Headers.of([(b"mcp-method", b"a"), (b"Mcp-Method", b"a")])

    with pytest.raises(HeaderMismatch, match="expected one mcp-method header, got 2"):
        headers.single("mcp-method")


@pytest.mark.parametrize("name", [b"Host", b"origin", b"content-length", b"authorization"])
def test_repeated_singular_header_is_refused(name: bytes) -> None:
    with pytest.raises(InvalidRequest):
        Headers.of([(name, b"1"), (name.upper(), b"1")]).check_singular()
    Headers.of([(b"accept", b"1"), (b"accept", b"2")]).check_singular()


@pytest.mark.parametrize(
    ("header", "json", "events"),
    [
        (None, True, True),
        ("application/json, text/event-stream", True, True),
        ("Application/JSON", True, False),
        ("text/event-stream", False, True),
        ("*/*", True, True),
        ("text/*", False, True),
        ("application/*;q=0.5, text/html", True, False),
        ("*/*, text/event-stream;q=0", True, False),
        ("text/event-stream;q=0, */*", True, False),
        ("application/json;q=0.0, application/*", False, False),
        ("application/json; charset=utf-8; q=1", True, False),
        ("text/html", False, False),
        ("", False, False),
        (",,;;q=,", False, False),
        ("application/json;q=bad", True, False),
    ],
)
def test_accept_header_is_parsed(header: str | None, json: bool, events: bool) -> None:
    assert (accepts(header, JSON), accepts(header, EVENT_STREAM)) == (json, events)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("application/json", True),
        ("Application/Json; Charset=UTF-8", True),
        ('application/json;charset="utf-8"', True),
        ("application/json; charset=latin-1", False),
        ("text/plain", False),
        ("application/jsonp", False),
        ("", False),
        (None, False),
    ],
)
def test_content_type_of_json_is_recognized(header: str | None, expected: bool) -> None:
    assert is_json(header) is expected


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("LOCALHOST:80", True),
        ("127.0.0.1:54321", True),
        ("[::1]:1", True),
        ("[::1]", True),
        ("::1", False),
        ("evil.example.com", False),
        ("localhost.evil.com", False),
        ("localhost:80@evil.com", False),
        ("127.0.0.1:x", False),
        ("[::1]x:1", False),
        ("", False),
        (None, False),
    ],
)
def test_default_host_policy_allows_loopback_only(host: str | None, expected: bool) -> None:
    assert HostPolicy().allows(host) is expected


def test_host_policy_follows_the_bind_address() -> None:
    policy = HostPolicy.for_bind("10.0.0.1", ["mcp.example.com", "other.example.com:8443"])

    assert policy.allows("10.0.0.1:8000")
    assert policy.allows("mcp.example.com")
    assert policy.allows("mcp.example.com:1")
    assert policy.allows("other.example.com:8443")
    assert not policy.allows("other.example.com")
    assert not HostPolicy.for_bind("0.0.0.0").allows("0.0.0.0:80")
    assert HostPolicy.for_bind("fe80::1").allows("[fe80::1]:80")
    assert HostPolicy.for_bind("0.0.0.0", ["*"]).allows("anything")


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        (None, True),
        ("http://localhost:3000", True),
        ("https://127.0.0.1", True),
        ("http://[::1]:3000", True),
        ("http://evil.example.com", False),
        ("http://localhost.evil.com", False),
        ("http://localhost:3000@evil.com", False),
        ("null", False),
        ("", False),
        ("http://[::1", False),
        ("file://localhost", False),
        ("chrome-extension://localhost", False),
    ],
)
def test_default_origin_policy_allows_loopback_only(origin: str | None, expected: bool) -> None:
    assert OriginPolicy().allows(origin) is expected


def test_configured_origins_are_allowed_besides_loopback() -> None:
    policy = OriginPolicy.with_loopback(
        ["https://app.example.com", "http://a.example.com:81/", "null", "b.example.com"]
    )

    assert policy.allows("https://app.example.com")
    assert policy.allows("https://app.example.com:8443")
    assert not policy.allows("http://app.example.com")
    assert policy.allows("http://a.example.com:81")
    assert not policy.allows("http://a.example.com")
    assert policy.allows("null")
    assert policy.allows("http://b.example.com:1")
    assert policy.allows("http://localhost")
    assert OriginPolicy(("*",)).allows("http://evil.example.com")
