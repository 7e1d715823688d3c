"""``mcptrio lock``: changes since the last review, and the offered actions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcptrio import Server, tool
from mcptrio.cli.server.lock_file import lock_text, read_lock
from mcptrio.errors import ConfigError
from mcptrio.plugins.lock_changes import changes_since, lock_of
from mcptrio.plugins.policy import ToolPolicy
from tests.commands.processes import run_text as run
from tests.distributions import install
from tests.processes import serving

__all__: list[str] = []

BEFORE = '''
from mcptrio import prompt, resource, tool

@tool(read_only=True)
async def look(what: str) -> str:
    """Look at something."""
    return what

@tool
async def same(what: str) -> str:
    """Stays."""
    return what

@tool
async def gone() -> str:
    """Goes."""
    return ""

@tool
async def shaped(a: int) -> int:
    """Takes a number."""
    return a

@resource("kept://{name}")
async def kept(name: str) -> str:
    """One thing."""
    return name

@prompt
async def tidy(how: str = "") -> str:
    """Ask for order."""
    return "tidy up"
'''
AFTER = (
    BEFORE.replace("read_only=True", "destructive=True")
    .replace("Look at something.", "Look at something, and tell nobody.")
    .replace("async def gone", "async def come")
    .replace("a: int) -> int", "a: str) -> str")
    .replace("how: str", "why: str")
    .replace('"kept://{name}"', '"kept://{name}", mime_type="text/plain"')
)
LATER = '''
from mcptrio import Context, tool

@tool
async def more(ctx: Context) -> str:
    """Add a tool."""
    async def added() -> str:
        return ""
    return ctx.server.add_tool(added)
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    install(tmp_path, "lock-keeper", "1.0", modules={"lock_keeper": BEFORE}, keeper="lock_keeper")
    (tmp_path / "mcptrio.toml").write_text("[server]\nenable = ['keeper']\n")
    ended = run("lock", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert (ended.returncode, ended.stdout) == (0, "mcptrio.lock: locked 1 plugin: 4 tools, 1 prompt, 1 template\n")
    return tmp_path


def upgrade(folder: Path) -> None:
    info = folder / "lock_keeper-1.0.dist-info"
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lock-keeper\nVersion: 1.1\n")
    info.rename(folder / "lock_keeper-1.1.dist-info")
    (folder / "lock_keeper.py").write_text(AFTER)


def test_lock_check_lists_the_changes(folder: Path) -> None:
    env = {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    locked = (folder / "mcptrio.lock").read_bytes()
    same = run("lock", "--check", "--config=mcptrio.toml", cwd=folder, **env)
    assert (same.returncode, same.stdout) == (0, "no differences from mcptrio.lock\n")

    upgrade(folder)
    changed = run("lock", "--check", cwd=folder, **env)
    assert changed.returncode == 1
    assert changed.stdout.splitlines() == [
        "keeper: version 1.0 has become 1.1",
        "keeper: tool keeper_come: added",
        "keeper: tool keeper_gone: removed",
        "keeper: tool keeper_look: description and hints changed",
        "keeper: tool keeper_shaped: input schema and output schema changed",
        "keeper: prompt tidy: arguments changed",
        "keeper: resource template kept://{name}: template changed",
    ]
    assert (folder / "mcptrio.lock").read_bytes() == locked
    report = json.loads(run("lock", "--check", "--json", cwd=folder, **env).stdout)["changes"]
    assert report[2] == {"plugin": "keeper", "kind": "tools", "name": "keeper_gone", "what": "removed"}


def test_locked_server_withholds_changed_tools_and_unlocked_server_warns(folder: Path) -> None:
    env = {"PYTHONPATH": str(folder)}
    upgrade(folder)
    listed = json.loads(run("plugins", "--json", cwd=folder, MCPTRIO_TOOLS_LOCKED="true", **env).stdout)["plugins"]
    [keeper] = [each for each in listed if each["name"] == "keeper"]

    assert keeper["offers"]["tools"] == ["keeper_same"]
    assert keeper["withheld"] == {
        "keeper_look": "its description and hints differ from the lock file",
        "keeper_come": "it is not in the lock file",
        "keeper_shaped": "its input schema and output schema differ from the lock file",
    }
    with serving("--stdio", cwd=folder, env={**env, "MCPTRIO_TOOLS_LOCKED": "true"}) as served:
        served.greet()
        served.start("tools/list")
        assert [each["name"] for each in served.receive()["result"]["tools"]] == ["keeper_same"]
        assert "keeper (lock-keeper 1.1): tool keeper_come is withheld: it is not in the lock file" in served.stderr
        assert "differs from mcptrio.lock: keeper: tool keeper_gone: removed" in served.stderr
    with serving("--stdio", cwd=folder, env=env) as served:
        served.greet()
        served.start("tools/list")
        assert len(served.receive()["result"]["tools"]) == 4
        assert "WARNING mcptrio.cli: differs from mcptrio.lock: keeper: tool keeper_come: added" in served.stderr


def test_tool_added_after_locking_is_withheld(tmp_path: Path) -> None:
    (tmp_path / "later.py").write_text(LATER)
    run("lock", "--plugin=later.py", cwd=tmp_path)
    (tmp_path / "mcptrio.toml").write_text("[server]\nenable = ['later.py']\n[tools]\nlocked = true\n")
    with serving("--stdio", cwd=tmp_path) as served:
        served.greet()
        assert served.call("more") == "added"
        served.start("tools/list")
        while "result" not in (message := served.receive()):
            assert message
        assert [each["name"] for each in message["result"]["tools"]] == ["more"]
        served.until("tool added is withheld: it is not in the lock file")


def test_isolated_plugin_is_locked(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(BEFORE)
    (tmp_path / "mcptrio.toml").write_text("[server]\nenable = ['own.py']\n[plugins.own]\nisolate = true\n")
    assert "4 tools, 1 prompt" in run("lock", cwd=tmp_path).stdout
    (tmp_path / "own.py").write_text(BEFORE.replace("Stays.", "Does not stay."))
    with serving("--stdio", cwd=tmp_path, env={"MCPTRIO_TOOLS_LOCKED": "true"}) as served:
        served.greet()
        served.until("tool same is withheld: its description differs from the lock file")
        served.start("tools/list")
        while "result" not in (message := served.receive()):
            assert message
        assert sorted(each["name"] for each in message["result"]["tools"]) == ["gone", "look", "shaped"]


def test_locked_server_without_a_lock_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(BEFORE)
    ended = run("serve", "--stdio", "--plugin=own.py", cwd=tmp_path, MCPTRIO_TOOLS_LOCKED="true")

    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "mcptrio: mcptrio.lock: no such file; create it with `mcptrio lock`\n"


def test_lock_is_not_written_while_a_plugin_fails(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("raise RuntimeError('no such luck')\n")
    ended = run("lock", "--plugin=own.py", cwd=tmp_path)

    assert (ended.returncode, ended.stdout) == (1, "")
    assert "own failed: import failed: RuntimeError: no such luck; no lock was written" in ended.stderr
    assert not (tmp_path / "mcptrio.lock").exists()


# The library


def test_lock_file_is_sorted_and_read_unchanged(tmp_path: Path, folder: Path) -> None:
    text = (folder / "mcptrio.lock").read_text()
    lock = read_lock(folder / "mcptrio.lock")

    assert lock_text(lock) == text
    names = [line for line in text.splitlines() if line.startswith("[plugins.keeper.tools.")]
    assert names == sorted(names)
    assert '[plugins.keeper.templates."kept://{name}"]' in text
    assert 'hints = ["read_only=true"]' in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("format = 2\n", "expected a lock file of format 1, got 2"),
        ("", "expected a lock file of format 1, got 'none'"),
        ("<<<<<<< ours\n", "expected TOML: "),
        ("format = 1\nplugins = 3\n", "plugins: expected a table"),
        ("format = 1\n[plugins.a.tools.b]\nsha256 = 'x'\n", "plugins.a.tools.b.sha256: expected 64 hexadecimal digits"),
        (f"format = 1\n[plugins.a.tools.b]\nsha256 = '{'0' * 64}'\nhints = 1\n", "plugins.a.tools.b: expected strings"),
    ],
)
def test_invalid_lock_file_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mcptrio.lock"
    path.write_text(text)

    with pytest.raises(ConfigError) as refused:
        read_lock(path)
    assert str(refused.value).startswith(f"{path}: {message}")


class Keeper:
    @tool
    async def look(self) -> str:
        """Look."""
        return ""


def test_withheld_and_ignored_tools_are_not_lock_changes() -> None:
    server = Server(plugins=[Keeper()])
    lock = lock_of(server.catalog, server.plugins.plugins)
    other = Server(plugins=[Keeper()], tools=ToolPolicy(read_only=True))

    assert list(lock.plugins) == ["Keeper"]
    assert other.status.plugins[0].withheld == {"look": "it is not marked read-only"}
    assert list(changes_since(lock, other.catalog, other.plugins.plugins)) == []
    none = Server().catalog
    assert [str(each) for each in changes_since(lock, none, {})] == ["Keeper: is not installed any more"]
    assert list(changes_since(lock, none, {}, ignored=["Keeper"])) == []
