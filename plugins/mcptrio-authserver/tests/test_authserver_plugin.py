"""The plugin next to a protected server, its settings, its command, and its file."""

from __future__ import annotations

import html
import re
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import mcptrio_authserver
import pytest
import trio
import trio.testing
from click.testing import CliRunner, Result
from mcptrio_authserver import AuthorizationServer, ClientSettings, Config, TrustedIssuer, UpstreamSettings
from mcptrio_authserver.__main__ import main
from mcptrio_authserver.rates import address_key
from mcptrio_authserver.sqlite_store import open_sqlite_store
from mcptrio_authserver.users import User, check_password, hash_password, read_users, write_users

import mcptrio
from mcptrio import Context, Endpoint, Secret, Server, tool
from mcptrio.auth import IssuerKeys, JWTTokens, OAuth, OwnRedirects, ResourceServer
from mcptrio.errors import ConfigError, StoreFailed
from mcptrio.http.client.address_policy import AddressPolicy
from mcptrio.http.client.fetcher import Fetcher
from mcptrio.serve.http import serve_http
from mcptrio.serving import HTTPOptions, ServerSettings
from mcptrio.types import CallToolResult, TextContent
from tests.processes import held_port

from .conftest import PASSWORD, SCOPES, TLS, Clock

BACK = "http://127.0.0.1:9/back"


class Notes:
    @tool(scopes=["notes:read"])
    async def whoami(self, ctx: Context) -> str:
        assert ctx.principal is not None
        return f"{ctx.principal.subject} {' '.join(sorted(ctx.principal.scopes))}"

    @tool(scopes=["notes:write"])
    async def write(self) -> str:
        return "written"


NOTES = """
from mcptrio import Context, tool

@tool
async def whoami(ctx: Context) -> str:
    return f"{ctx.principal.subject} {' '.join(sorted(ctx.principal.scopes))}"
"""


def text_of(result: CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


@asynccontextmanager
async def protected(folder: Path, **settings: Any) -> AsyncIterator[str]:
    """A server whose tools require scopes, and the authorization server that issues them, on one port."""
    with held_port() as port:
        origin = f"http://127.0.0.1:{port}"
        issuer, resource = f"{origin}/auth", f"{origin}/mcp"
        config = {"issuer": issuer, "folder": str(folder), "scopes": SCOPES, **settings}
        server = Server(
            plugins=[mcptrio_authserver, Notes()],
            config={"mcptrio_authserver": config},
            settings=ServerSettings(strict=True),
        )
        keys = IssuerKeys(issuer, Fetcher(AddressPolicy.around(issuer)))
        guard = ResourceServer(
            resource,
            tokens=[JWTTokens(keys, audience=[resource])],
            authorization_servers=[issuer],
            scopes=["notes:read"],
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(serve_http, server, port=port, options=HTTPOptions(auth=guard)))
            yield resource
            nursery.cancel_scope.cancel()


class ConsentingUser:
    """A user who logs in once and allows every request."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self.http = http
        self.asked: list[str] = []

    async def __call__(self, url: str) -> str:
        self.asked.append(url)
        page = await self.http.get(url)
        if 'name="password"' in page.text:
            done = await self._submit(page, username="ada", password=PASSWORD)
            page = await self.http.get(done.headers["location"])
        done = await self._submit(page, decision="allow")
        return done.headers["location"]

    async def _submit(self, page: httpx2.Response, **fields: str) -> httpx2.Response:
        action = re.search(r'action="([^"]+)"', page.text)
        token = re.search(r'name="form_token" value="([^"]+)"', page.text)
        assert action is not None, page.text
        assert token is not None
        return await self.http.post(
            str(page.url.join(html.unescape(action[1]))), data={"form_token": token[1], **fields}
        )


@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
async def test_client_follows_a_401_to_login_and_step_up(folder: Path, revision: str) -> None:
    """Metadata, registration, login, consent, an accepted token; and more scopes when they are needed."""
    async with protected(folder) as url, httpx2.AsyncClient(timeout=60, verify=TLS) as http:
        person = ConsentingUser(http)
        auth = OAuth(redirects=OwnRedirects(uri=BACK, send=person))
        async with mcptrio.connect(Endpoint(url=url, auth=auth), revision=revision) as client:
            assert text_of(await client.call_tool("whoami")) == "ada notes:read"
            assert len(person.asked) == 1
            assert text_of(await client.call_tool("write")) == "written"
            assert len(person.asked) == 2


async def test_tokens_are_bound_if_the_client_requires_it(folder: Path) -> None:
    async with protected(folder, dpop="required") as url, httpx2.AsyncClient(timeout=60, verify=TLS) as http:
        auth = OAuth(redirects=OwnRedirects(uri=BACK, send=ConsentingUser(http)), dpop="always")
        async with mcptrio.connect(Endpoint(url=url, auth=auth)) as client:
            assert text_of(await client.call_tool("whoami")) == "ada notes:read"


async def test_first_steps_of_the_readme_lead_to_a_protected_server(folder: Path, tmp_path: Path) -> None:
    """The test follows them as an operator does, in a separate process."""
    readme = (Path(mcptrio_authserver.__file__).parent.parent / "README.md").read_text("utf-8")
    with held_port() as port, trio.fail_after(120):
        steps = readme.partition("```toml\n")[2].partition("```")[0].replace("8000", str(port))
        settings = steps.replace("[auth]", f'folder = "{folder}"\n\n[auth]')
        (tmp_path / "mcptrio.toml").write_text(settings)
        (tmp_path / "notes.py").write_text(NOTES)
        serve = [sys.executable, "-m", "mcptrio", "serve", "--http", "--port", str(port)]
        serve += ["--plugin", "authserver", "--plugin", "notes.py"]
        process = await trio.lowlevel.open_process(serve, cwd=tmp_path, stderr=subprocess.PIPE)
        assert process.stderr is not None
        try:
            received = b""
            while b"serving http://" not in received:
                received += await process.stderr.receive_some() or pytest.fail(received.decode())
            async with httpx2.AsyncClient(timeout=60, verify=TLS) as http:
                auth = OAuth(redirects=OwnRedirects(uri=BACK, send=ConsentingUser(http)))
                endpoint = Endpoint(url=f"http://127.0.0.1:{port}/mcp", auth=auth)
                async with mcptrio.connect(endpoint) as client:
                    assert text_of(await client.call_tool("whoami")) == "ada notes:read"
        finally:
            process.terminate()
            await process.wait()
            await process.stderr.aclose()


async def test_pages_need_no_token_and_the_host_is_checked(folder: Path) -> None:
    async with protected(folder) as url, httpx2.AsyncClient(timeout=60, verify=TLS) as http:
        origin = url.removesuffix("/mcp")
        assert (await http.post(url, json={})).status_code == 401
        metadata = f"{origin}/.well-known/oauth-authorization-server/auth"
        assert (await http.get(metadata)).json()["issuer"] == f"{origin}/auth"
        rebound = await http.get(metadata, headers={"host": "evil.example"})
        assert rebound.status_code in (400, 403, 421)


async def test_plugin_without_an_issuer_serves_no_endpoints(folder: Path) -> None:
    server = Server(
        plugins=[mcptrio_authserver],
        config={"mcptrio_authserver": {"folder": str(folder)}},
        settings=ServerSettings(strict=True),
    )

    assert server.catalog.routes.at("/auth") is None
    assert [*mcptrio_authserver.doctor(Config())] == ["issuer is not set, so there is no authorization server"]
    with pytest.raises(ValueError, match="issuer"):
        AuthorizationServer(Config())


async def test_request_to_a_server_that_is_not_open_gets_503(folder: Path) -> None:
    server = AuthorizationServer(Config(issuer="http://127.0.0.1:8000/auth", folder=folder))
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    for _ in range(2):
        await server({"type": "http"}, None, send)
        assert sent[-2]["status"] == 503
        async with server.open():
            pass


def test_plugin_import_does_not_load_quart() -> None:
    heavy = ("quart", "argon2", "joserfc", "jinja2", "sqlite3", "click")
    script = f"import sys, mcptrio_authserver; print([m for m in {heavy} if m in sys.modules])"

    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)

    assert result.stdout.strip() == "[]"


# Settings


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"issuer": "http://login.example/auth"}, "issuer: expected an https URL"),
        ({"issuer": "https://login.example/"}, "slash at its end"),
        ({"issuer": "https://login.example/a?b"}, "without query"),
        ({"issuer": "https://login.example/a/../b"}, "plain path"),
        ({"scopes": {"a b": "x"}}, "scopes: expected"),
        ({"resources": ("ftp://x",)}, "resources: expected"),
        ({"name": ""}, "name: expected"),
        ({"clients": {"x y\n": ClientSettings()}}, "clients: expected"),
        *(
            ({"trusted_issuers": {name: TrustedIssuer(issuer="https://idp.example")}}, f"client, got {name!r}")
            for name in ("upstream", "client", "a:b", "a b", "a\n", "é", "")
        ),
    ],
)
def test_invalid_setting_is_refused(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        Config(**settings)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"redirect_uris": ("javascript:x",)}, "expected a redirect URI"),
        ({"secret": Secret("short")}, "at least 16"),
        ({"secret": Secret("x" * 16), "jwks_uri": "https://a.example"}, "got several"),
        ({"grant_types": ("client_credentials",)}, "acts for itself"),
        ({"introspect": True}, "acts for itself"),
        ({"grant_types": ("implicit",)}, "grant_types"),
        ({"jwks": "[]"}, "jwks"),
        ({"jwks": "{"}, "invalid JSON"),
        ({"jwks_uri": "http://a.example"}, "jwks_uri"),
        ({"scopes": ("a b",)}, "scopes"),
    ],
)
def test_invalid_client_setting_is_refused(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        ClientSettings(**settings)


def test_invalid_issuer_or_provider_setting_is_refused() -> None:
    for make in (
        partial(TrustedIssuer),
        partial(TrustedIssuer, issuer="http://idp.example"),
        partial(UpstreamSettings, issuer="https://idp.example"),
        partial(UpstreamSettings, issuer="https://idp.example", client_id="x", scopes=("profile",)),
    ):
        with pytest.raises(ValueError, match="expected"):
            make()


def test_settings_are_read_from_a_table(tmp_path: Path) -> None:
    (tmp_path / "mcptrio.toml").write_text(
        """
        [plugins.authserver]
        issuer = "https://login.example/auth"
        folder = "state"
        scopes = { "notes:read" = "Read your notes" }
        [plugins.authserver.clients.robot]
        secret = { "$env" = "ROBOT" }
        grant_types = ["client_credentials"]
        [plugins.authserver.trusted_issuers.company]
        issuer = "https://idp.example"
        [plugins.authserver.upstream]
        issuer = "https://idp.example"
        client_id = "us"
        """
    )
    command = [sys.executable, "-m", "mcptrio", "plugins", "show", "authserver", "--config", "mcptrio.toml"]

    result = subprocess.run(
        command,
        cwd=tmp_path,
        env={"PATH": "/usr/bin", "ROBOT": "a secret that is not shown"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert result.returncode == 0, result.stdout + result.stderr
    assert "https://login.example/auth" in result.stdout
    assert "a secret that is not shown" not in result.stdout + result.stderr


def test_doctor_reports_missing_configuration(folder: Path, tmp_path: Path) -> None:
    issuer = "https://login.example"
    assert [*mcptrio_authserver.doctor(Config(issuer=issuer, folder=folder, scopes=SCOPES))] == []
    [scopes, nobody] = mcptrio_authserver.doctor(Config(issuer=issuer, folder=tmp_path / "empty"))
    assert "scopes" in scopes
    assert "user add" in nobody
    (folder / "users").chmod(0o644)
    [problem] = mcptrio_authserver.doctor(Config(issuer=issuer, folder=folder, scopes=SCOPES))
    assert "mode 600" in problem


# Users


def command(folder: Path, *args: str, password: str = "") -> Result:
    """In this process, unless the test needs another one."""
    return CliRunner().invoke(main, ["user", *args, "--folder", str(folder)], input=f"{password}\n")


def test_command_adds_lists_and_removes_users(tmp_path: Path) -> None:
    home = tmp_path / "new"
    whole = [sys.executable, "-m", "mcptrio_authserver", "user", "add", "ada", "--folder", str(home)]
    added = subprocess.run(whole, input="a good password\n", capture_output=True, text=True, timeout=60, check=False)
    assert (added.returncode, added.stdout) == (0, f"added ada to {home / 'users'}\n")
    assert command(home, "add", "bob", "--scope", "notes:read", password="another password").exit_code == 0

    assert command(home, "list").stdout == "ada: all scopes\nbob: notes:read\n"

    users = read_users(home / "users")
    assert check_password(users["ada"], "a good password")
    assert not check_password(users["ada"], "another password")
    assert "a good password" not in (home / "users").read_text()
    assert (home / "users").stat().st_mode & 0o777 == 0o600
    assert command(home, "remove", "ada").exit_code == 0
    assert [*read_users(home / "users")] == ["bob"]


def test_user_command_errors_name_the_problem(tmp_path: Path) -> None:
    short = command(tmp_path, "add", "ada", password="short")
    assert (short.exit_code, short.stderr) == (1, "Error: expected a password of 8 to 1024 characters, got 5\n")
    assert "expected a name" in command(tmp_path, "add", "Ada Lovelace", password="long enough").stderr
    assert "there is no user" in command(tmp_path, "remove", "ada").stderr
    assert not (tmp_path / "users").exists()


@pytest.mark.parametrize("line", ["ada", "ada:plain", "ada:$2b$12$x", "ADA:$argon2id$x", "a da:$argon2id$x"])
def test_invalid_line_of_the_user_file_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "users").write_text(f"# users\n\n{line}\n")
    (tmp_path / "users").chmod(0o600)

    with pytest.raises(ConfigError, match=r"users:3: expected"):
        read_users(tmp_path / "users")


def test_password_is_hashed_slowly_and_with_salt(tmp_path: Path) -> None:
    first, second = hash_password(PASSWORD), hash_password(PASSWORD)

    assert first != second
    assert first.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    assert check_password(User(name="ada", hash=first), PASSWORD)
    assert not check_password(User(name="ada", hash=first), f"{PASSWORD} ")
    assert not check_password(User(name="ada", hash="$argon2id$broken"), PASSWORD)
    assert not check_password(None, PASSWORD)
    write_users(tmp_path / "users", {"ada": User(name="ada", hash=first, scopes=())})
    assert read_users(tmp_path / "users")["ada"].scopes == ()


# The file


async def test_expired_records_are_removed_while_the_server_runs(
    folder: Path, mock_clock: trio.testing.MockClock
) -> None:
    mock_clock.rate = 1000.0  # a minute of the background task is 60 ms
    clock = Clock()
    server = AuthorizationServer(Config(issuer="http://127.0.0.1:8000/auth", folder=folder), clock=clock)
    async with server.open(), trio.open_nursery() as nursery:
        store = server._store
        assert store is not None
        await store.transact(lambda ledger: ledger.put("a", "1", {}, until=clock.now + 1))
        clock.now += 2
        nursery.start_soon(server.delete_expired)
        while rows(folder):  # noqa: ASYNC110 - a deletion has no event for its end
            await trio.sleep(1)
        nursery.cancel_scope.cancel()


def rows(folder: Path) -> int:
    connection = sqlite3.connect(folder / "state.db")
    try:
        [(count,)] = connection.execute("SELECT count(*) FROM records WHERE kind = 'a'").fetchall()
        return int(count)
    finally:
        connection.close()


async def test_foreign_file_is_left_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (x)")
    connection.commit()
    connection.close()
    path.chmod(0o600)
    before = path.read_bytes()

    with pytest.raises(StoreFailed, match="database of another program"):
        async with open_sqlite_store(path):
            pass

    assert path.read_bytes() == before
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    connection.close()
    path.write_bytes(b"")
    path.chmod(0o640)
    with pytest.raises(StoreFailed, match="mode 600"):
        async with open_sqlite_store(path):
            pass


async def test_file_locked_by_another_process_is_waited_for(tmp_path: Path) -> None:
    """SQLite refuses to change the journal mode, without waiting, if another process is about to write."""
    path = tmp_path / "state.db"
    path.touch(0o600)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    async def let_go() -> None:
        await trio.sleep(0.2)
        other.execute("ROLLBACK")

    with closing(other):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(let_go)
            async with open_sqlite_store(path) as store:
                assert await store.transact(lambda ledger: ledger.count("a")) == 0


async def test_file_system_without_shared_memory_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcptrio_authserver.sqlite_store.run_pragma", lambda *_: "delete")

    with pytest.raises(StoreFailed, match=r"expected a file system .*\(wal\), got journal mode 'delete'"):
        async with open_sqlite_store(tmp_path / "state.db"):
            pass


def test_addresses_of_one_network_are_counted_together() -> None:
    assert address_key("203.0.113.7") == "203.0.113.7"
    assert address_key("::ffff:203.0.113.7") == "203.0.113.7"
    assert address_key("2001:db8:1:2:3:4:5:6") == address_key("2001:db8:1:2::1") == "2001:db8:1:2::/64"
    assert address_key("2001:db8:1:3::1") != address_key("2001:db8:1:2::1")
    assert address_key(None) == address_key(None)
