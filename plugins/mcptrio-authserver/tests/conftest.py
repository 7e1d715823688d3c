"""An authorization server on a loopback socket, a client, and a user with a browser without scripts."""

from __future__ import annotations

import base64
import html
import json
import re
import secrets
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx2
import pytest
import trio
from argon2 import PasswordHasher
from attrs import define, field
from mcptrio_authserver import AuthorizationServer, ClientSettings, Config, LedgerSettings
from mcptrio_authserver.store_opening import migrate_store, open_store
from mcptrio_authserver.user_directory import RecordUserDirectory
from mcptrio_authserver.users import User, read_users, write_users

from mcptrio import Secret
from mcptrio.abc import Fetch, FetchRequest, FetchResponse
from mcptrio.auth.jose import KeySet, peek, verify
from mcptrio.http.engine.server import ConnectionLimits
from mcptrio.http.engine.server import serve_asgi as serve
from tests.engines.postgres_fixtures import cluster, own_postgres, postgres, prefix
from tests.engines.postgres_server import PostgresServer

__all__ = ["cluster", "own_postgres", "postgres", "prefix"]

REDIRECT = "http://127.0.0.1:9/callback"
SECRET = "a secret of forty characters, or nearly so"
PASSWORD = "correct horse battery"
SCOPES = {"notes:read": "Read your notes", "notes:write": "Change your notes"}

CLIENTS = {
    "app": ClientSettings(name="The App", redirect_uris=(REDIRECT,)),
    "other": ClientSettings(name="Another App", redirect_uris=("https://other.example/cb",)),
    "robot": ClientSettings(
        secret=Secret(SECRET), redirect_uris=(REDIRECT,), grant_types=("authorization_code", "client_credentials")
    ),
    "server": ClientSettings(secret=Secret(SECRET), grant_types=("client_credentials",), introspect=True),
}


TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Created once: reading the system's certificates takes as long as a test."""


@define
class Clock:
    """A clock that the test sets."""

    now: float = 1_900_000_000.0

    def __call__(self) -> float:
        return self.now


def challenge_of(verifier: str) -> str:
    return base64.urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()


@define(eq=False)
class Site:
    """The server, and an HTTP client that keeps cookies and follows no redirects."""

    url: str
    issuer: str
    server: AuthorizationServer
    http: httpx2.AsyncClient
    clock: Clock
    verifier: str = field(factory=lambda: secrets.token_urlsafe(48))

    def query(self, **changes: str | None) -> str:
        """Return the query of an authorization request; ``None`` omits a parameter."""
        query = {
            "response_type": "code",
            "client_id": "app",
            "redirect_uri": REDIRECT,
            "state": "xyz",
            "scope": "notes:read",
            "resource": f"{self.url}/mcp",
            "code_challenge": challenge_of(self.verifier),
            "code_challenge_method": "S256",
        }
        return urlencode({name: value for name, value in {**query, **changes}.items() if value is not None})

    async def get(self, path: str, **options: Any) -> httpx2.Response:
        return await self.http.get(path if "://" in path else f"{self.url}{path}", **options)

    async def post(self, endpoint: str, form: Mapping[str, str], **options: Any) -> httpx2.Response:
        return await self.http.post(f"{self.issuer}/{endpoint}", data=dict(form), **options)

    async def authorize(self, **changes: str | None) -> httpx2.Response:
        return await self.get(f"{self.issuer}/authorize?{self.query(**changes)}")

    async def log_in(self, page: httpx2.Response, name: str = "ada", password: str = PASSWORD) -> httpx2.Response:
        """Submit the login page; returns the consent page after a valid login."""
        done = await self.submit(page, username=name, password=password)
        return await self.get(done.headers["location"]) if done.status_code == 303 else done

    async def submit(self, page: httpx2.Response, **fields: str) -> httpx2.Response:
        """Submit the form of a page."""
        assert page.status_code in (200, 403), page.text
        action, token = form_of(page)
        return await self.http.post(f"{self.url}{action}", data={"form_token": token, **fields})

    async def code(self, **changes: str | None) -> dict[str, str]:
        """Log in and consent; return the parameters that the client receives."""
        page = await self.authorize(**changes)
        if 'name="password"' in page.text:
            page = await self.log_in(page)
        done = await self.submit(page, decision="allow")
        assert done.status_code == 303, done.text
        return answer_of(done)

    async def redeem(self, code: str, **changes: str | None) -> httpx2.Response:
        form = {
            "grant_type": "authorization_code",
            "client_id": "app",
            "code": code,
            "redirect_uri": REDIRECT,
            "code_verifier": self.verifier,
            "resource": f"{self.url}/mcp",
        }
        return await self.post(
            "token", {name: value for name, value in {**form, **changes}.items() if value is not None}
        )

    async def tokens(self, **changes: str | None) -> dict[str, Any]:
        """Return tokens of the client ``app``."""
        answer = await self.redeem((await self.code(**changes))["code"])
        assert answer.status_code == 200, answer.text
        tokens: dict[str, Any] = answer.json()
        return tokens

    async def refresh(self, token: str, **changes: str) -> httpx2.Response:
        form = {"grant_type": "refresh_token", "client_id": "app", "refresh_token": token}
        return await self.post("token", {**form, **changes})

    async def claims(self, token: str) -> Mapping[str, Any]:
        """Return the claims of a token, verified with the published keys."""
        keys = KeySet.read((await self.get(f"{self.issuer}/jwks")).content)
        checked = verify(token, keys, algorithms={"ES256"}, typ=frozenset({"at+jwt"}))
        assert checked.header["kid"]
        return checked.claims

    async def is_active(self, token: str) -> bool:
        answer = await self.post("introspect", {"token": token}, auth=("server", SECRET))
        assert answer.status_code == 200, answer.text
        return bool(answer.json()["active"])

    async def register(self, **document: Any) -> httpx2.Response:
        body = {"client_name": "Newcomer", "redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none"}
        return await self.http.post(f"{self.issuer}/register", json={**body, **document})


Answer = FetchResponse | Exception


@define(eq=False)
class Web:
    """The servers of others, as the ``Fetch`` of the authorization server."""

    pages: dict[str, Answer | Callable[[FetchRequest], Answer]] = field(factory=dict)
    asked: list[FetchRequest] = field(factory=list)

    async def __call__(self, request: FetchRequest) -> FetchResponse:
        await trio.lowlevel.checkpoint()
        self.asked.append(request)
        page = self.pages.get(request.url, FetchResponse(status=404))
        answer = page(request) if callable(page) else page
        if isinstance(answer, Exception):
            raise answer
        return answer

    def put(self, url: str, document: Any, *, status: int = 200, **headers: str) -> None:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        self.pages[url] = FetchResponse(status=status, headers=names, body=json.dumps(document).encode())

    def count(self, url: str) -> int:
        return sum(request.url == url for request in self.asked)


def content_of(folder: Path) -> bytes:
    """Return the contents of all files in a folder; they must be readable by their owner only."""
    paths = [*folder.iterdir()]
    assert all(path.stat().st_mode & 0o077 == 0 for path in paths)
    return b"".join(path.read_bytes() for path in paths)


def rows_of(server: PostgresServer, ledger: LedgerSettings) -> bytes:
    """Return the contents of all records of a database."""
    rows = server.run(f'SELECT kind::bytea, key, "group", value FROM {ledger.prefix}_authserver.records')
    assert rows
    return b"\n".join(b" ".join(row) for row in rows)


def form_of(page: httpx2.Response) -> tuple[str, str]:
    """Return the action of a page's form and its token."""
    action = re.search(r'<form method="post" action="([^"]+)"', page.text)
    token = re.search(r'name="form_token" value="([^"]+)"', page.text)
    assert action is not None, page.text
    assert token is not None
    return html.unescape(action[1]), html.unescape(token[1])


def answer_of(response: httpx2.Response) -> dict[str, str]:
    """Return the parameters in a redirect."""
    pairs = parse_qsl(urlsplit(response.headers["location"]).query)
    assert len({name for name, _ in pairs}) == len(pairs)
    return dict(pairs)


def payload(token: str) -> Mapping[str, Any]:
    return peek(token).claims


def error_of(response: httpx2.Response) -> str:
    """Return the error of an OAuth response, after checking its headers."""
    assert response.headers["content-type"] == "application/json"
    assert response.headers["cache-control"] == "no-store"
    return str(json.loads(response.content)["error"])


@pytest.fixture(scope="session")
def password_hash() -> str:
    """A cheap hash: a hash contains its own cost, and with the usual one the hundred logins of these tests would take
    half a minute."""
    return PasswordHasher(time_cost=1, memory_cost=64, parallelism=1).hash(PASSWORD)


@pytest.fixture
def folder(tmp_path: Path, password_hash: str) -> Path:
    """A folder with the users ada, who may grant everything, and bob, who may grant ``notes:read``."""
    users = [
        User(name="ada", hash=password_hash),
        User(name="bob", hash=password_hash, scopes=("notes:read",)),
    ]
    write_users(tmp_path / "authserver" / "users", {user.name: user for user in users})
    return tmp_path / "authserver"


@pytest.fixture
def database(postgres: PostgresServer, prefix: str, folder: Path) -> LedgerSettings:
    """A database with the users of the folder."""
    # Some tests count hundreds of attempts in one transaction.
    settings = LedgerSettings(url=Secret(postgres.url), prefix=prefix, timeout=30, start_timeout=10)
    trio.run(prepared, settings, folder)
    return settings


@pytest.fixture(params=["file", "database"])
def ledger(request: pytest.FixtureRequest, database: LedgerSettings) -> LedgerSettings | None:
    """``None`` for a file. The tests with this fixture run with both."""
    return database if request.param == "database" else None


async def prepared(settings: LedgerSettings, folder: Path) -> None:
    """Make the table, and put the users of the folder into it."""
    await migrate_store(settings)
    users = read_users(folder / "users")
    async with open_store(folder, settings) as store:
        await RecordUserDirectory(store).change(lambda known: known.update(users))


@asynccontextmanager
async def opened(
    folder: Path, *, path: str = "/auth", fetch: Fetch | None = None, clock: Clock | None = None, **settings: Any
) -> AsyncIterator[Site]:
    """A server whose issuer has this path."""
    current: list[AuthorizationServer] = []

    async def app(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        await current[0](scope, receive, send)

    clock = clock or Clock()
    async with trio.open_nursery() as nursery:
        start = partial(serve, app, bind="127.0.0.1:0", limits=ConnectionLimits(), shutdown_timeout=1.0)
        [url] = await nursery.start(start)
        issuer = f"{url}{path}"
        config = Config(**{"issuer": issuer, "folder": folder, "scopes": SCOPES, "clients": CLIENTS, **settings})
        server = AuthorizationServer(config, fetch=fetch, clock=clock)
        current.append(server)
        async with server.open(), httpx2.AsyncClient(timeout=60, verify=TLS) as http:
            yield Site(url=url, issuer=issuer, server=server, http=http, clock=clock)
        nursery.cancel_scope.cancel()


@pytest.fixture
async def site(folder: Path) -> AsyncIterator[Site]:
    async with opened(folder) as site:
        yield site
