"""Helpers of the resource server's tests: a clock, an issuer in memory, and requests.

The issuer signs tokens and responds like a real one, without a network.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

import orjson
from attrs import define, field

from mcptrio.abc import FetchRequest, FetchResponse, RequestHead
from mcptrio.auth.jose import Key, KeySet, sign
from mcptrio.errors import RequestFailed

__all__ = ["ISSUER", "KEY", "OTHER_KEY", "RESOURCE", "Clock", "Issuer", "request"]

RESOURCE = "https://mcp.example.com/mcp"
ISSUER = "https://login.example.com/team"
JWKS = "https://login.example.com/keys"
METADATA = "https://login.example.com/.well-known/oauth-authorization-server/team"
INTROSPECTION = "https://login.example.com/introspect"
KEY = Key.generate("ES256")
OTHER_KEY = Key.generate("ES256")


@define
class Clock:
    """Seconds since 1970, which a test advances."""

    now: float = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@define
class Issuer:
    """An authorization server: it makes tokens, and as a ``Fetch`` it serves its metadata, keys and introspection."""

    clock: Clock = field(factory=Clock)
    keys: list[Key] = field(factory=lambda: [KEY])
    down: bool = False
    answers: dict[str, FetchResponse] = field(factory=dict)
    """Responses that replace the usual ones, by URL."""
    asked: Counter[str] = field(factory=Counter)
    active: dict[str, dict[str, Any]] = field(factory=dict)
    """Introspection responses, by token."""
    questions: list[tuple[Mapping[str, str], dict[str, list[str]]]] = field(factory=list)
    """Headers and form of each introspection request."""

    def token(
        self, key: Key = KEY, *, typ: str = "at+jwt", header: Mapping[str, Any] | None = None, **claims: Any
    ) -> str:
        """Make a token; a claim of ``None`` is omitted."""
        now = int(self.clock())
        usual = {
            "iss": ISSUER,
            "aud": RESOURCE,
            "sub": "ada",
            "client_id": "cli",
            "scope": "read",
            "iat": now,
            "exp": now + 300,
            "jti": "1",
        }
        payload = {name: value for name, value in {**usual, **claims}.items() if value is not None}
        return sign(payload, key, typ=typ, header=header)

    async def __call__(self, request: FetchRequest) -> FetchResponse:
        self.asked[request.url] += 1
        if self.down:
            raise RequestFailed("nobody is there", delivered=False)
        if request.url in self.answers:
            return self.answers[request.url]
        if request.url == METADATA:
            return _json({"issuer": ISSUER, "jwks_uri": JWKS, "introspection_endpoint": INTROSPECTION})
        if request.url == JWKS:
            return _json(KeySet(self.keys).document)
        if request.url == INTROSPECTION and request.method == "POST":
            form = parse_qs(request.body.decode())
            self.questions.append((request.headers, form))
            return _json(self.active.get(form["token"][0], {"active": False}))
        return FetchResponse(status=404)


def request(
    token: str | None = None,
    *,
    scheme: str = "Bearer",
    method: str = "POST",
    url: str = RESOURCE,
    headers: Mapping[str, list[str]] | None = None,
    query: str = "",
    address: str | None = "203.0.113.7",
    certificate: bytes | None = None,
) -> RequestHead:
    """A request with a token or with the given headers."""
    own = {"authorization": [f"{scheme} {token}"]} if token is not None else {}
    return RequestHead(
        method=method,
        url=url,
        headers={**own, **(headers or {})},
        query=query,
        address=address,
        certificate=certificate,
    )


def _json(value: object) -> FetchResponse:
    return FetchResponse(status=200, headers={"content-type": "application/json"}, body=orjson.dumps(value))
