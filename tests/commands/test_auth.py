"""``mcptrio auth``, and how other commands use the stored tokens."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field

from tests.commands.processes import at_terminal, run
from tests.processes import WAIT_TIMEOUT, environment

__all__: list[str] = []

LINK = re.compile(r"  (http://127\.0\.0\.1:\d+/authorize\?\S+)")


@define
class Server:
    url: str
    _process: subprocess.Popen[str]
    seen: list[dict[str, Any]] = field(factory=list)

    def asked(self, path: str) -> list[dict[str, Any]]:
        """Return all requests to this path, once the server has ended."""
        return [each for each in self.seen if each["path"] == path]

    def end(self) -> None:
        out, _ = self._process.communicate(timeout=WAIT_TIMEOUT)
        self.seen = [json.loads(line) for line in out.splitlines()]


@contextmanager
def protected() -> Iterator[Server]:
    with subprocess.Popen(
        [sys.executable, str(Path(__file__).parent / "protected.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            yield Server(process.stdout.readline().strip(), process)
        finally:
            process.kill()


@pytest.fixture
def server() -> Iterator[Server]:
    with protected() as server:
        yield server


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"MCPTRIO_CLIENT_CREDENTIALS": str(tmp_path / "credentials" / "tokens.json")}


def visit(link: str) -> str:
    """Follow the redirect to the loopback port, as a browser does; return the page there."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(link, timeout=WAIT_TIMEOUT) as page:
        return str(page.read(), "utf-8")


def log_in(server: Server, env: dict[str, str], tmp_path: Path, *args: str) -> str:
    """Log in without a terminal, and return the output."""
    with subprocess.Popen(
        [sys.executable, "-m", "mcptrio", "auth", "login", server.url, *args],
        cwd=tmp_path,
        env=environment(**env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        output = ""
        while (match := LINK.search(output)) is None:
            line = process.stderr.readline()
            assert line, output
            output += line
        page = visit(match[1])
        out, err = process.communicate(timeout=WAIT_TIMEOUT)
    assert process.returncode == 0, output + err
    assert "mcptrio" in page
    return out


def test_login_status_renewal_and_logout(server: Server, env: dict[str, str], tmp_path: Path) -> None:
    refused = run("list", server.url, cwd=tmp_path, env=env)
    assert (refused.returncode, refused.stdout) == (4, b"")
    assert f"mcptrio auth login {server.url}" in refused.stderr.decode()
    assert run("auth", "status", cwd=tmp_path, env=env).returncode == 1

    out = log_in(server, env, tmp_path)

    login = rf"logged in to {server.url}: by http://127\.0\.0\.1:\d+, scopes use, renewed automatically\n"
    assert re.fullmatch(login, out)
    file = Path(env["MCPTRIO_CLIENT_CREDENTIALS"])
    assert [stat.S_IMODE(path.stat().st_mode) for path in (file.parent, file)] == [0o700, 0o600]
    listed = run("list", server.url, "--json", cwd=tmp_path, env=env)
    assert listed.returncode == 0, listed.stderr
    assert b"secret" in listed.stdout
    unlisted = run("call", server.url, "publish", cwd=tmp_path, env=env)
    assert unlisted.stderr.decode() == (
        "mcptrio: the server lists no tool `publish`; expected one of `secret`; the server may hide names that need "
        f"another scope or user; pass a token with more scopes: mcptrio auth login {server.url} --scope SCOPE\n"
    )

    output = run("auth", "status", cwd=tmp_path, env=env)
    [row] = json.loads(run("auth", "status", server.url, "--json", cwd=tmp_path, env=env).stdout)["logins"]
    assert output.stdout.decode().startswith(f"{server.url}: by http://127.0.0.1:")
    assert {**row, "expires": ""} == {
        "url": server.url,
        "issuer": server.url.removesuffix("/mcp"),
        "scopes": ["use"],
        "expires": "",
        "renewable": True,
        "bound": False,
    }
    for secret in (b"token-1", b"refresh-1"):
        assert secret not in output.stdout + output.stderr + listed.stdout + listed.stderr

    gone = run("auth", "logout", server.url, cwd=tmp_path, env=env)
    assert (gone.returncode, gone.stdout.decode()) == (0, f"logged out of {server.url}\n")
    again = run("auth", "logout", server.url, cwd=tmp_path, env=env)
    assert (again.returncode, again.stderr.decode().strip()) == (1, f"not logged in to {server.url}")
    assert run("list", server.url, cwd=tmp_path, env=env).returncode == 4
    server.end()
    assert [each["token"] for each in server.asked("/revoke")] == ["refresh-1"]
    assert "token-1" not in file.read_text()


def test_login_options_are_sent_to_the_authorization_server(
    server: Server, env: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("s3cret\n")
    issuer = server.url.removesuffix("/mcp")
    options = ("--client-id", "mine", "--client-secret", "@secret", "--issuer", issuer, "--scope", "more")

    out = log_in(server, env, tmp_path, *options)

    assert "logged in to" in out
    server.end()
    assert server.asked("/register") == []
    [authorized] = server.asked("/authorize")
    assert (authorized["client_id"], authorized["scope"]) == ("mine", "use more")


def test_any_command_renews_an_expired_token(server: Server, env: dict[str, str], tmp_path: Path) -> None:
    log_in(server, env, tmp_path)
    file = Path(env["MCPTRIO_CLIENT_CREDENTIALS"])
    kept = json.loads(file.read_text())
    [key] = [key for key in kept if key.startswith("tokens ")]
    kept[key]["expires_at"] = kept[key]["obtained_at"] = 1000
    file.write_text(json.dumps(kept))

    assert run("ping", server.url, cwd=tmp_path, env=env).returncode == 0
    server.end()
    assert [each["grant_type"] for each in server.asked("/token")] == ["authorization_code", "refresh_token"]
    assert json.loads(file.read_text())[key]["refresh_token"] == "refresh-2"


def test_command_at_a_terminal_offers_the_login(server: Server, env: dict[str, str], tmp_path: Path) -> None:
    with at_terminal("list", server.url, cwd=tmp_path, columns=500, env=env) as terminal:
        terminal.until("wants you to log in at 127.0.0.1:")
        link = terminal.until(LINK.pattern)[1]
        terminal.until(r"Open it in the browser\? ")
        terminal.type("n\r")
        terminal.until("open it yourself")
        visit(link)
        terminal.until("secret")

        assert terminal.end() == 0
        assert terminal.echoes()
    assert run("list", server.url, cwd=tmp_path, env=env).returncode == 0


def test_login_completes_before_the_browser_question_is_answered(
    server: Server, env: dict[str, str], tmp_path: Path
) -> None:
    with at_terminal("auth", "login", server.url, cwd=tmp_path, columns=500, env=env) as terminal:
        link = terminal.until(LINK.pattern)[1]
        terminal.until(r"Open it in the browser\? ")
        visit(link)
        terminal.until("logged in to")

        assert terminal.end() == 0
        assert terminal.echoes()


@pytest.mark.parametrize(("key", "code"), [("\x03", 130), ("\x04", 4)], ids=["ctrl-c", "ctrl-d"])
def test_login_times_out(server: Server, env: dict[str, str], tmp_path: Path, key: str, code: int) -> None:
    with at_terminal("list", server.url, cwd=tmp_path, columns=500, env=env) as terminal:
        terminal.until(r"Open it in the browser\? ")
        terminal.type(key)

        assert terminal.end() == code, terminal.shown
        assert terminal.echoes()
    assert not [key for key in _stored(env) if key.startswith("tokens ")]


def test_authorization_header_overrides_stored_tokens(server: Server, env: dict[str, str], tmp_path: Path) -> None:
    log_in(server, env, tmp_path)

    refused = run("list", server.url, "--header", "Authorization=Bearer wrong", cwd=tmp_path, env=env)

    assert refused.returncode == 4
    assert b"401" in refused.stderr


def test_credentials_file_readable_by_others_is_refused(server: Server, env: dict[str, str], tmp_path: Path) -> None:
    file = Path(env["MCPTRIO_CLIENT_CREDENTIALS"])
    file.parent.mkdir(0o700)
    file.write_text("{}")
    file.chmod(0o644)

    refused = run("auth", "status", cwd=tmp_path, env=env)

    assert (refused.returncode, refused.stdout) == (4, b"")
    assert b"chmod 600" in refused.stderr


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (("login", "python server.py"), 2, "expected a server with a URL"),
        (("login", "http://10.0.0.1/mcp", "--issuer", "https://a"), 2, "--client-id"),
        (("login", "https://localhost:1/mcp"), 4, "cannot connect"),
        (
            ("login", "https://localhost:1/mcp", "--client-id=x", "--client-secret=$NO_SUCH", "--issuer=https://a"),
            2,
            "NO_SUCH",
        ),
        (("status", "https://example.com/mcp"), 1, "not logged in to https://example.com/mcp"),
        (("logout", "https://example.com/mcp"), 1, "not logged in"),
    ],
    ids=["command", "issuer alone", "nobody there", "no variable", "status", "logout"],
)
def test_auth_failure_is_reported_with_its_exit_code(
    args: tuple[str, ...], code: int, message: str, env: dict[str, str], tmp_path: Path
) -> None:
    result = run("auth", *args, cwd=tmp_path, env=env)

    assert (result.returncode, result.stdout) == (code, b""), result.stderr
    assert message in result.stderr.decode()


def test_login_at_an_open_server_is_refused(env: dict[str, str], tmp_path: Path) -> None:
    """The command reports that the server needs no login."""
    with protected() as server:
        # Its root has no authorization metadata.
        result = run("auth", "login", server.url.replace("/mcp", "/other"), cwd=tmp_path, env=env)

    assert result.returncode == 4
    assert (
        b"/other requires no login: expected HTTP 401 or protected resource metadata, got HTTP 404; check the path"
        in result.stderr
    )


def _stored(env: dict[str, str]) -> dict[str, Any]:
    file = Path(env["MCPTRIO_CLIENT_CREDENTIALS"])
    return json.loads(file.read_text()) if file.exists() else {}
