"""``mcptrio token``: tokens of a team are created, listed and revoked; each is shown once."""

from __future__ import annotations

import json
import os
import stat
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from mcptrio.auth.server.static_tokens import StaticTokens, read_tokens
from tests.commands.processes import run

__all__: list[str] = []


async def test_token_is_shown_once_and_valid_until_revoked(tmp_path: Path) -> None:
    (tmp_path / "mcptrio.toml").write_text('[auth]\ntokens = "secrets/tokens.json"\n')

    made = run("token", "new", "ada-laptop", "--subject", "ada", "--scope", "mcp", "--scope", "write", cwd=tmp_path)

    path = tmp_path / "secrets" / "tokens.json"
    token = made.stdout.decode().strip()
    assert made.returncode == 0
    assert b"added ada-laptop, valid until" in made.stderr
    assert token not in path.read_text() + made.stderr.decode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    principal = await StaticTokens(path).verify(token)
    assert principal is not None
    assert (principal.subject, principal.scopes) == ("ada", {"mcp", "write"})

    listed = run("token", "list", cwd=tmp_path).stdout.decode()
    assert listed.startswith("ada-laptop  ada  mcp write  valid until 20")
    [entry] = json.loads(run("token", "list", "--json", cwd=tmp_path).stdout)["tokens"]
    assert set(entry) == {"name", "subject", "scopes", "created", "expires"}
    lasts = datetime.fromisoformat(entry["expires"]) - datetime.fromisoformat(entry["created"])
    assert lasts == timedelta(days=90)

    revoked = run("token", "revoke", "ada-laptop", cwd=tmp_path)
    assert (revoked.returncode, revoked.stdout) == (0, b"")
    assert await StaticTokens(path).verify(token) is None
    assert read_tokens(path) == []


def test_token_file_readable_by_others_is_made_private(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    path.write_text('{"format": 1, "tokens": []}')
    os.chmod(path, 0o644)

    assert run("token", "new", "ada", "--expires", "never", "--file", str(path), cwd=tmp_path).returncode == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert run("token", "list", "--file", str(path), cwd=tmp_path).stdout == b"ada  ada  -  does not expire\n"


@pytest.mark.parametrize(
    ("args", "code", "problem"),
    [
        (("new", "ada"), 2, "expected the file of tokens: pass --file PATH"),
        (("new", "a b", "--file", "t.json"), 2, "name: expected up to 100 letters"),
        (("new", "b", "--scope", "a b", "--file", "t.json"), 2, "expected a scope"),
        (("new", "b", "--expires", "90", "--file", "t.json"), 2, "expected a number and one of m, h, d, w, y"),
        (("new", "b", "--expires", "0d", "--file", "t.json"), 2, "expected a number and one of m, h, d, w, y"),
        (("new", "ada", "--file", "there.json"), 1, "token `ada` already exists"),
        (("revoke", "bob", "--file", "there.json"), 1, "there is no token `bob`"),
        (("revoke", "--file", "there.json"), 2, "Missing argument"),
        (("list", "--file", "none.json"), 2, "none.json: the tokens cannot be read"),
        (("new", "b", "--file", "broken.json"), 2, "broken.json: expected JSON"),
    ],
)
def test_invalid_usage_is_refused(args: tuple[str, ...], code: int, problem: str, tmp_path: Path) -> None:
    run("token", "new", "ada", "--file", "there.json", cwd=tmp_path)
    (tmp_path / "broken.json").write_text("{")

    result = run("token", *args, cwd=tmp_path)

    assert (result.returncode, result.stdout) == (code, b"")
    assert problem in result.stderr.decode()
    assert (tmp_path / "broken.json").read_text() == "{"
    assert [each.name for each in read_tokens(tmp_path / "there.json")] == ["ada"]
