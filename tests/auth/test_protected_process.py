"""``mcptrio serve`` with ``[auth]``, as an operator starts it: over stdio, and with certificates."""

from __future__ import annotations

import ssl
import time
from pathlib import Path

import pytest
import trio
import trio.testing

import mcptrio
from mcptrio.auth.server.static_tokens import make_token, tokens_text
from tests.processes import run, serving
from tests.test_tls import Authority

__all__: list[str] = []

PLUGIN = """
import os
from mcptrio import Context, tool

@tool
async def whoami(ctx: Context) -> str:
    who = ctx.principal.subject if ctx.principal else "nobody"
    return f"{who}, {os.environ.get('MCPTRIO_TOKEN', 'no token')}"
"""
WITH_TOKENS = '[server]\nenable = ["who.py"]\n[auth]\ntokens = "tokens.json"\nscopes = ["mcp"]\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "who.py").write_text(PLUGIN)
    (tmp_path / "mcptrio.toml").write_text(WITH_TOKENS)
    return tmp_path


def token(folder: Path, *scopes: str) -> str:
    made, stored_token = make_token("ada", subject="ada", scopes=scopes, created=time.time())
    (folder / "tokens.json").write_text(tokens_text([stored_token]))
    return made


def test_environment_token_sets_the_principal_of_stdio(folder: Path) -> None:
    with serving("--stdio", cwd=folder, env={"MCPTRIO_TOKEN": token(folder, "mcp")}) as server:
        server.greet()
        assert server.call("whoami") == "ada, no token"


def test_stdio_is_anonymous_without_an_environment_token(folder: Path) -> None:
    token(folder, "mcp")
    with serving("--stdio", cwd=folder) as server:
        server.greet()
        assert server.call("whoami") == "nobody, no token"


@pytest.mark.parametrize("scopes", [("other",), ("mcp",)], ids=["weak", "unknown"])
def test_invalid_environment_token_ends_the_start(folder: Path, scopes: tuple[str, ...]) -> None:
    secret = token(folder, *scopes)
    if scopes == ("mcp",):
        secret += "x"

    result = run("serve", "--stdio", cwd=folder, MCPTRIO_TOKEN=secret)

    assert (result.returncode, result.stdout) == (2, "")
    assert "mcptrio: MCPTRIO_TOKEN: " in result.stderr
    assert secret not in result.stderr


@pytest.mark.parametrize(
    ("args", "table", "problem"),
    [
        (("--http",), "[auth]\n", "mcptrio.toml:1: auth: expected issuers, tokens or certificates"),
        (("--http",), '[auth]\ntokens = "none.json"\n', "mcptrio.toml:2: auth.tokens: "),
        (("--listen", "0"), '[auth]\ncertificates = "uri"\n', "expected --http or --stdio with [auth], got a stream"),
    ],
    ids=["nobody", "no file", "no place for a token"],
)
def test_server_with_unusable_auth_settings_does_not_start(
    tmp_path: Path, args: tuple[str, ...], table: str, problem: str
) -> None:
    (tmp_path / "mcptrio.toml").write_text(table)

    result = run("serve", *args, cwd=tmp_path)

    assert result.returncode == 2
    assert problem in result.stderr


async def test_client_certificate_sets_the_principal(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    (certificate, key), shown = authority.issue("server"), authority.issue("robot")
    (tmp_path / "who.py").write_text(PLUGIN)
    (tmp_path / "mcptrio.toml").write_text(
        f"""
        [server]
        enable = ["who.py"]
        [http]
        tls_cert = "{certificate.name}"
        tls_key = "{key.name}"
        tls_client_ca = "{authority.path.name}"
        [auth]
        certificates = "subject"
        certificate_scopes = ["mcp"]
        scopes = ["mcp"]
        """
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(authority.path)
    context.load_cert_chain(*shown)

    with serving("--http", "--port", "0", cwd=tmp_path) as server:
        match = await trio.to_thread.run_sync(server.until, r"serving https://[^/]+:(\d+)/")
        target = mcptrio.Endpoint(url=f"https://localhost:{match[1]}/mcp", tls=context)
        with trio.fail_after(60):
            async with mcptrio.connect(target) as client:
                result = await client.call_tool("whoami")
    assert result.content[0].text == "CN=robot, no token"  # type: ignore[union-attr]
