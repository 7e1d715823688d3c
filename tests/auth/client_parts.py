"""Helpers of the client's authorization tests: flows as tables of requests and responses, and servers and a user in
memory.

The servers in memory are strict: they grant only requests that follow the specifications.
"""

from __future__ import annotations

import json
from base64 import b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from itertools import count
from typing import Any, TypeVar
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

import trio
from attrs import define, field

from mcptrio.abc import FetchRequest, FetchResponse
from mcptrio.auth.client.oauth import OAuth, OAuthClient
from mcptrio.auth.client.redirects import OwnRedirects
from mcptrio.auth.flows import Flow
from mcptrio.errors import ConsentNeeded, RequestFailed

__all__ = [
    "BACK",
    "NOT_FOUND",
    "Clock",
    "Issuer",
    "MemoryTokenStore",
    "OAuthPeers",
    "answer",
    "form",
    "play",
    "refused",
]

T = TypeVar("T")

BACK = "http://127.0.0.1:9/callback"
NOT_FOUND = FetchResponse(status=404)


def answer(value: Any, status: int = 200, **headers: str) -> FetchResponse:
    return FetchResponse(
        status=status,
        headers={name.replace("_", "-"): text for name, text in headers.items()},
        body=value if isinstance(value, bytes) else json.dumps(value).encode(),
    )


def form(request: FetchRequest) -> dict[str, str]:
    """Return the parameters of a request; fail if one is repeated."""
    fields = parse_qs(request.body.decode(), keep_blank_values=True, strict_parsing=True)
    assert all(len(values) == 1 for values in fields.values())
    return {name: values[0] for name, values in fields.items()}


def play(flow: Flow[T], *table: tuple[str, FetchResponse | RequestFailed]) -> T:
    """Run a flow against a table of ``METHOD url`` and responses; the flow must make all requests, in this order."""
    rows = iter(table)
    result: FetchResponse | RequestFailed | None = None
    try:
        while True:
            if isinstance(result, RequestFailed):
                request = flow.throw(result)
            else:
                request = next(flow) if result is None else flow.send(result)
            expected, result = next(rows, ("nothing more", None))
            assert f"{request.method} {request.url}" == expected
    except StopIteration as done:
        assert next(rows, None) is None, "expected more requests"
        value: T = done.value
        return value


def refused(*challenges: str, **more: str) -> dict[str, str]:
    """The headers of a 401 or 403 response."""
    return {"www-authenticate": ", ".join(challenges), **{name.replace("_", "-"): text for name, text in more.items()}}


@define
class Clock:
    now: float = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@define
class MemoryTokenStore:
    """A token store whose values a test can read."""

    values: dict[str, Mapping[str, Any]] = field(factory=dict)
    locks: dict[str, trio.Lock] = field(factory=dict)

    async def load(self, key: str) -> Mapping[str, Any] | None:
        await trio.lowlevel.checkpoint()
        return self.values.get(key)

    async def save(self, key: str, value: Mapping[str, Any]) -> None:
        self.values[key] = value

    async def delete(self, key: str) -> bool:
        return self.values.pop(key, None) is not None

    async def keys(self) -> Sequence[str]:
        return tuple(self.values)

    @asynccontextmanager
    async def lock(self, key: str) -> AsyncIterator[None]:
        async with self.locks.setdefault(key, trio.Lock()):
            yield


@define
class Issuer:
    """An authorization server in memory."""

    url: str
    metadata: dict[str, Any] = field(factory=dict)
    lifetime: int | None = 3600
    gives_refresh: bool = True
    grants: Mapping[str, str] | None = None
    """The granted scopes, by the requested scopes."""
    clients: dict[str, dict[str, Any]] = field(factory=dict)
    codes: dict[str, dict[str, str]] = field(factory=dict)
    refresh: dict[str, dict[str, str]] = field(factory=dict)
    asked: list[dict[str, str]] = field(factory=list)
    """Authorization requests."""
    tokens: list[dict[str, str]] = field(factory=list)
    """Token requests."""
    authorizations: list[str | None] = field(factory=list)
    """The header of each token request."""
    _numbers: Any = field(factory=lambda: count(1))
    """Clients, codes and tokens in the order of issue: after the first login, the access token is number 3."""

    @property
    def document(self) -> dict[str, Any]:
        own = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "registration_endpoint": f"{self.url}/register",
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
        }
        return {name: value for name, value in {**own, **self.metadata}.items() if value is not None}

    def authorize(self, url: str) -> str:
        """Return the URL to which a browser is redirected."""
        fields = parse_qs(urlsplit(url).query, strict_parsing=True)
        asked = {name: values[0] for name, values in fields.items()}
        assert all(len(values) == 1 for values in fields.values())
        assert asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256"
        self.asked.append(asked)
        code = f"code-{next(self._numbers)}"
        self.codes[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state'], 'iss': self.url})}"

    def register(self, wish: dict[str, Any]) -> FetchResponse:
        id = f"client-{next(self._numbers)}"
        self.clients[id] = wish
        return answer({**wish, "client_id": id}, 201)

    def token(self, request: FetchRequest) -> FetchResponse:
        fields = form(request)
        self.tokens.append(fields)
        self.authorizations.append(request.headers.get("authorization"))
        if fields["grant_type"] == "refresh_token":
            granted = self.refresh.get(fields["refresh_token"])
            # RFC 6749 section 6: bound to the client that it was issued to; this server accepts it once.
            if granted is not None and self._client_of(request, fields) != granted["client_id"]:
                return answer({"error": "invalid_grant", "error_description": "of another client"}, 400)
            self.refresh.pop(fields["refresh_token"], None)
        else:
            granted = self.codes.pop(fields.get("code", ""), None)
            if granted is not None:
                digest = sha256(fields["code_verifier"].encode()).digest()
                assert urlsafe_b64encode(digest).rstrip(b"=").decode() == granted["code_challenge"]
                assert fields["redirect_uri"] == granted["redirect_uri"]
        if granted is None:
            return answer({"error": "invalid_grant", "error_description": "no such grant"}, 400)
        assert fields["resource"] == granted["resource"]
        number = next(self._numbers)
        given: dict[str, Any] = {"access_token": f"{urlsplit(self.url).hostname}-{number}", "token_type": "Bearer"}
        if self.lifetime is not None:
            given["expires_in"] = self.lifetime
        if self.gives_refresh:
            given["refresh_token"] = f"refresh-{number}"
            self.refresh[f"refresh-{number}"] = granted
        if self.grants is not None:
            given["scope"] = self.grants[granted.get("scope", "")]
        return answer(given)

    @staticmethod
    def _client_of(request: FetchRequest, fields: Mapping[str, str]) -> str:
        basic = request.headers.get("authorization", "").removeprefix("Basic ")
        return fields.get("client_id") or unquote(b64decode(basic).decode().partition(":")[0])


@define
class OAuthPeers:
    """The peers of an OAuth client: an MCP server, its authorization servers, and a user who consents to everything."""

    url: str = "https://mcp.example.com/mcp"
    resource: dict[str, Any] = field(factory=dict)
    """Members that are added to the metadata or replace members of it."""
    issuers: list[Issuer] = field(factory=lambda: [Issuer("https://login.example.com")])
    requests: list[FetchRequest] = field(factory=list)
    clock: Clock = field(factory=Clock)
    prompt_count: int = 0
    """How often the user was asked."""

    @property
    def issuer(self) -> Issuer:
        """The issuer that the server's metadata names first."""
        return self.issuers[0]

    @property
    def place(self) -> str:
        """The URL of the server's metadata."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path}"

    def challenge(self, scheme: str = "Bearer", **parameters: str) -> dict[str, str]:
        parameters_sent = {"resource_metadata": self.place, **parameters}
        return refused(f"{scheme} " + ", ".join(f'{name}="{value}"' for name, value in parameters_sent.items()))

    async def fetch(self, request: FetchRequest) -> FetchResponse:
        self.requests.append(request)
        await trio.lowlevel.checkpoint()
        if f"{request.method} {request.url}" == f"GET {self.place}":
            own = {"resource": self.url, "authorization_servers": [self.issuer.url]}
            return answer({**own, **self.resource})
        for issuer in self.issuers:
            if request.url == f"{issuer.url}/.well-known/oauth-authorization-server":
                return answer(issuer.document)
            if request.url == f"{issuer.url}/register" and request.method == "POST":
                return issuer.register(json.loads(request.body))
            if request.url == f"{issuer.url}/token" and request.method == "POST":
                return issuer.token(request)
        return NOT_FOUND

    async def send(self, url: str) -> str:
        self.prompt_count += 1
        for issuer in self.issuers:
            if url.startswith(f"{issuer.url}/authorize?"):
                return issuer.authorize(url)
        raise AssertionError(f"nobody is at {url}")

    def oauth(self, **options: Any) -> OAuth:
        options.setdefault("redirects", OwnRedirects(uri=BACK, send=self.send))
        return OAuth(clock=self.clock, **options)

    def client(self, oauth: OAuth | None = None, **options: Any) -> OAuthClient:
        return (oauth or self.oauth(**options)).client_auth(self.url, self.fetch)

    async def sent(self, client: OAuthClient) -> str | None:
        """Return the credentials that the client would send."""
        return (await client.headers("POST", self.url)).get("Authorization")

    async def refuse(self, client: OAuthClient, status: int = 401, **parameters: str) -> bool:
        """Let the server refuse a request, and let the user answer the client's question."""
        try:
            return await client.challenged(self.url, status, self.challenge(**parameters))
        except ConsentNeeded as needed:
            await needed.ask()
            return True
