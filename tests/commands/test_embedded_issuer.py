"""``[auth]`` with an authorization server in the same process: contradictions are reported at the start."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands.processes import run_text as run
from tests.distributions import install

__all__: list[str] = []

SOURCE = """
from mcptrio import hookimpl
from mcptrio.abc import OwnIssuer

@hookimpl
def setup(server):
    server.set_issuer(OwnIssuer(issuer="http://127.0.0.1:8000/auth", scopes=frozenset({"mcp"})))
"""
FITS = {
    "resource": "http://127.0.0.1:8000/mcp",
    "issuers": ["http://127.0.0.1:8000/auth"],
    "scopes": ["mcp"],
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("site")
    install(folder, "own-issuer", modules={"own_issuer": SOURCE}, ours="own_issuer")
    return str(folder)


def write(folder: Path, **auth: object) -> None:
    lines = [f"{name} = {json.dumps(value)}" for name, value in {**FITS, **auth}.items()]
    (folder / "mcptrio.toml").write_text("\n".join(['[server]\nenable = ["ours"]\n[auth]', *lines, ""]))


MISTAKES = [
    pytest.param({"issuers": ["http://127.0.0.1:8000/auth/"]}, "auth.issuers: expected 'http://127.0.0.1:8000/auth'"),
    pytest.param({"issuers": ["http://localhost:8000/auth"]}, "auth.issuers: expected 'http://127.0.0.1:8000/auth'"),
    pytest.param({"scopes": ["mcp", "admin"]}, "offers (mcp), got admin"),
    pytest.param({"resource": "http://localhost:8000/mcp"}, "auth.resource: expected a resource that"),
    pytest.param({"resource": "http://127.0.0.1:9999/mcp"}, "got 'http://127.0.0.1:9999/mcp'"),
]
IDS = ["slash", "localhost", "scope", "host", "port"]


@pytest.mark.parametrize(("auth", "message"), MISTAKES, ids=IDS)
def test_doctor_reports_issuer_misconfiguration(
    auth: dict[str, object], message: str, tmp_path: Path, site: str
) -> None:
    write(tmp_path, **auth)

    ended = run("plugins", "doctor", "ours", cwd=tmp_path, PYTHONPATH=site)
    assert ended.returncode == 1
    assert message in ended.stdout
    assert "mcptrio.toml:" in ended.stdout


def test_scope_that_the_issuer_does_not_offer_prevents_the_start(tmp_path: Path, site: str) -> None:
    write(tmp_path, scopes=["admin"])

    ended = run("serve", "--http", "--port=0", cwd=tmp_path, PYTHONPATH=site)
    assert ended.returncode == 2
    assert "offers (mcp), got admin" in ended.stderr


@pytest.mark.parametrize("auth", [{}, {"issuers": ["https://login.example.com"], "scopes": ["other"]}])
def test_doctor_accepts_valid_and_foreign_issuers(auth: dict[str, object], tmp_path: Path, site: str) -> None:
    write(tmp_path, **auth)

    ended = run("plugins", "doctor", "ours", cwd=tmp_path, PYTHONPATH=site)
    assert (ended.returncode, "broken:" in ended.stdout) == (0, False)
