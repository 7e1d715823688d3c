"""``mcptrio store`` and ``serve --store``, with the distribution of an engine that the test writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.distributions import install
from tests.processes import run

__all__: list[str] = []

ENGINE = """
from contextlib import asynccontextmanager

from mcptrio.errors import StoreFailed
from mcptrio.stores import Check, memory_stores


@asynccontextmanager
async def open_shelf_stores(url, settings, *, bus=None):
    print(f"opened {url} {settings.prefix}", flush=True)
    yield memory_stores(settings, bus=bus)


async def check(url, settings):
    if "down" in url:
        return [Check("reachable", False, "shelf.example:1 refuses connections", "start it")]
    return [Check("reachable", True, f"yes, as {settings.prefix}"), Check("clock", True, "0.1 s apart")]


async def migrate(url, settings):
    if "down" in url:
        raise StoreFailed("shelf.example:1 refuses connections")
    return [] if "new" in url else ["made 3 tables"]
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment in which the engine is installed."""
    engine = {"shelf": "shelf_engine:open_shelf_stores"}
    groups = {"mcptrio.stores": engine, "mcptrio.store_tools": {"shelf": "shelf_engine"}}
    installed = install(tmp_path / "site", "mcptrio-store-shelf", modules={"shelf_engine": ENGINE}, groups=groups)
    return {"PYTHONPATH": str(installed)}


def test_store_check_prints_its_findings(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "mcptrio.toml").write_text('[stores]\nprefix = "team"\n')
    result = run("store", "check", "shelf://here", cwd=tmp_path, **environment)

    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["ok  reachable  yes, as team", "ok  clock      0.1 s apart"]


def test_store_check_prints_advice_and_fails_on_a_problem(tmp_path: Path, environment: dict[str, str]) -> None:
    result = run("store", "check", "shelf://down", cwd=tmp_path, **environment)
    as_json = run("store", "check", "shelf://down", "--json", cwd=tmp_path, **environment)

    assert result.returncode == as_json.returncode == 1
    assert result.stdout == "problem  reachable  shelf.example:1 refuses connections; start it\n"
    [check] = json.loads(as_json.stdout)["checks"]
    assert check == {
        "name": "reachable",
        "is_ok": False,
        "found": "shelf.example:1 refuses connections",
        "advice": "start it",
    }


@pytest.mark.parametrize(
    ("url", "code", "message"),
    [
        ("shelf://here", 0, "made 3 tables\n"),
        ("shelf://new", 0, "everything is up to date\n"),
        ("shelf://down", 1, "shelf.example:1 refuses connections"),
    ],
)
def test_store_migrate_reports_the_schema(
    tmp_path: Path, environment: dict[str, str], url: str, code: int, message: str
) -> None:
    result = run("store", "migrate", url, cwd=tmp_path, **environment)

    assert result.returncode == code
    assert message in (result.stdout if code == 0 else result.stderr)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("shelves://here", "no installed distribution has the scheme `shelves`; did you mean `shelf`?"),
        ("user:secret", "no installed distribution has the scheme `user`"),
        ("memory", "expected the URL of an engine, got memory"),
        (
            "nothing",
            "expected memory, sqlite:PATH, redis://HOST:PORT or postgresql://USER@HOST/DATABASE, got 'nothing'",
        ),
    ],
)
def test_invalid_store_url_is_refused(tmp_path: Path, environment: dict[str, str], url: str, message: str) -> None:
    result = run("store", "check", url, cwd=tmp_path, **environment)

    assert result.returncode == 2
    assert message in result.stderr


# Serving


def test_replicas_require_common_keys_and_an_audience(tmp_path: Path, environment: dict[str, str]) -> None:
    serve = ("serve", "--http", "--port=0", "--store", "shelf://here")
    without_keys = run(*serve, cwd=tmp_path, **environment)
    keys = {"MCPTRIO_KEYS": "k" * 32}
    without_name = run(*serve, cwd=tmp_path, **environment, **keys)

    assert without_keys.returncode == without_name.returncode == 2
    assert "server.key_files: replicas need a common key: create one with `head -c 32" in without_keys.stderr
    assert "server.audience: replicas need a common name of their service" in without_name.stderr


def test_misspelled_scheme_is_reported_before_the_settings_of_replicas(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    result = run("serve", "--http", "--port=0", "--store", "sqllite:x", cwd=tmp_path, **environment)

    assert result.returncode == 2
    assert "no installed distribution has the scheme `sqllite`; did you mean `sqlite`?" in result.stderr
