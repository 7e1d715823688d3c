"""``[auth]`` in ``mcptrio serve``: a token over HTTP, in the environment over stdio, and on no other transport."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

import mcptrio
from mcptrio.errors import RequestFailed
from tests.processes import environment, run, serving

__all__: list[str] = []

PLUGIN = '''
import os

from mcptrio import Context, tool


@tool
async def who(ctx: Context) -> str:
    """Say who asks, and whether their token can be seen."""
    name = ctx.principal.subject if ctx.principal is not None else "nobody"
    return f"{name} {'MCPTRIO_TOKEN' in os.environ}"


@tool(scopes=["write"])
def write() -> str:
    """Write."""
    return "written"
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("guarded")
    (path / "notes.py").write_text(PLUGIN, "utf-8")
    (path / "mcptrio.toml").write_text('[server]\nlist_all = true\n\n[auth]\ntokens = "tokens.toml"\n', "utf-8")
    return path


@pytest.fixture(scope="module")
def token(folder: Path) -> str:
    made = run("token", "new", "ada", "--scope", "read", cwd=folder)

    assert made.returncode == 0, made.stderr
    assert stat.S_IMODE((folder / "tokens.toml").stat().st_mode) == 0o600
    assert made.stdout.strip() not in (folder / "tokens.toml").read_text("utf-8")
    return made.stdout.strip()


async def test_token_over_http_identifies_and_authorizes_the_caller(folder: Path, token: str) -> None:
    with serving("--http", "--port=0", "--plugin=notes.py", cwd=folder) as served:
        url = f"http://127.0.0.1:{served.port}/mcp"
        good = mcptrio.Endpoint(url=url, headers={"authorization": f"Bearer {token}"})
        async with mcptrio.connect(good) as client:
            assert [each.name async for each in client.tools()] == ["who", "write"]
            assert (await client.call_tool("who")).content[0].text == "ada False"  # type: ignore[union-attr]
            with pytest.raises(mcptrio.MCPError, match="the request needs more scopes: write"):
                await client.call_tool("write")
        for headers in ({}, {"authorization": "Bearer mcptrio_wrong"}):
            with pytest.raises(RequestFailed, match="HTTP 401") as refused:
                async with mcptrio.connect(mcptrio.Endpoint(url=url, headers=headers)):
                    pass
            assert "mcptrio_wrong" not in str(refused.value)
    assert token not in served.written.read_text("utf-8")


async def test_token_in_the_environment_is_used_over_stdio_and_hidden_from_plugins(folder: Path, token: str) -> None:
    serve = ["-m", "mcptrio", "serve", "--stdio", "--plugin=notes.py"]
    for variables, expected in (({"MCPTRIO_TOKEN": token}, "ada False"), ({}, "nobody False")):
        target = mcptrio.Command(args=[sys.executable, *serve], cwd=folder, env=environment(**variables))
        async with mcptrio.connect(target) as client:
            assert (await client.call_tool("who")).content[0].text == expected  # type: ignore[union-attr]


def test_invalid_token_in_the_environment_stops_the_start(folder: Path, token: str) -> None:
    result = run("serve", "--stdio", "--plugin=notes.py", cwd=folder, MCPTRIO_TOKEN="mcptrio_wrong")

    assert (result.returncode, result.stdout) == (2, "")
    assert "MCPTRIO_TOKEN: invalid access token" in result.stderr
    assert "mcptrio_wrong" not in result.stderr


def test_auth_with_a_stream_socket_is_refused(folder: Path) -> None:
    result = run("serve", "--listen=127.0.0.1:0", "--plugin=notes.py", cwd=folder)

    assert result.returncode == 2
    assert "expected --http or --stdio with [auth], got a stream" in result.stderr


def test_invalid_auth_table_stops_the_start(folder: Path) -> None:
    (folder / "wrong.toml").write_text('[auth]\ndpop = "sometimes"\n', "utf-8")
    result = run("serve", "--http", "--port=0", "--plugin=notes.py", "--config=wrong.toml", cwd=folder)

    assert result.returncode != 0
    assert "wrong.toml:2: auth.dpop: expected" in result.stderr
    assert "serving" not in result.stderr
