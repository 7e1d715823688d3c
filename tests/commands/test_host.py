"""``mcptrio host`` as a process: its output, its files and its exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.commands.processes import run

__all__: list[str] = []

PLUGIN = "from mcptrio import tool\n\n\n@tool\nasync def now() -> str:\n    'The time.'\n    return 'late'\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with a plugin, and a user with a separate home."""
    (tmp_path / "home").mkdir()
    project = tmp_path / "project"
    project.mkdir()
    (project / "own.py").write_text(PLUGIN)
    return project


def host(folder: Path, *args: str) -> subprocess.CompletedProcess[bytes]:
    env = {"HOME": str(folder.parent / "home"), "XDG_CONFIG_HOME": "", "CODEX_HOME": "", "CLAUDE_CONFIG_DIR": ""}
    return run("host", *args, cwd=folder, env=env)


def status(folder: Path, *args: str) -> list[dict[str, Any]]:
    document: list[dict[str, Any]] = json.loads(host(folder, "status", "--json", *args).stdout)["files"]
    return document


def test_entry_is_installed_checked_and_uninstalled(folder: Path) -> None:
    files = [folder.parent / "home" / name for name in (".cursor/mcp.json", ".codex/config.toml")]
    done = host(folder, "install", "cursor", "codex", "--plugin", "own.py", "--env", "A=${env:HOME}")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == (
        f"Cursor: mcptrio added: {files[0]}\n  Enable it in the settings, under MCP.\n"
        f"Codex: mcptrio added: {files[1]}\n  Start a new session.\n"
    )

    checked = {each["host"]: each for each in status(folder, "--check") if each["entries"]}
    assert checked.keys() == {"cursor", "codex"}
    for each in checked.values():
        [entry] = each["entries"]
        assert entry["shown"] == f"{sys.executable} -m mcptrio serve --stdio --plugin {folder / 'own.py'}"
        assert entry["problems"] == []
        assert entry["answer"].startswith("answers: mcptrio ")
        assert ", 1 tool, " in entry["answer"]

    (folder / "own.py").unlink()
    done = host(folder, "status", "cursor", "codex", "zed", "--check")
    assert done.returncode == 1
    assert f"    ! {folder / 'own.py'} does not exist\n" in done.stdout.decode()
    assert "Zed (zed): not found: " in done.stdout.decode()
    assert "answers" not in done.stdout.decode()

    done = host(folder, "uninstall", "all")
    assert done.returncode == 0
    assert not any(file.exists() for file in files)
    assert host(folder, "status").stdout.decode().count(": not") == 10


def test_warnings_of_a_server_are_reported(folder: Path) -> None:
    """A folder that does not exist, in both forms of the log."""
    missing = folder / "missing"
    expected = f"repositories of [plugins.git]: there is no directory {missing}; create it or correct the setting"
    for form in ("text", "json"):
        settings = ("--env", f"MCPTRIO_GIT_REPOSITORIES={missing}", "--env", f"MCPTRIO_LOG_FORMAT={form}")
        host(folder, "install", "cursor", "--plugin", "git", *settings)
        [found] = [each for each in status(folder, "--check", "cursor") if each["entries"]]
        [entry] = found["entries"]

        assert entry["answer"].startswith("answers: mcptrio ")
        assert entry["warnings"] == [expected]
    result = host(folder, "status", "cursor", "--check")

    assert result.returncode == 0
    assert "    warning: repositories of [plugins.git]: there is no directory" in result.stdout.decode()


def test_plugin_that_is_not_installed_is_refused(folder: Path) -> None:
    done = host(folder, "install", "cursor", "--plugin", "own")

    assert done.returncode == 2
    assert done.stderr == b"mcptrio: no plugin `own` is installed; did you mean the file `own.py`?\n"
    assert not (folder.parent / "home" / ".cursor").exists()


def test_silent_server_is_reported(folder: Path) -> None:
    host(folder, "install", "cursor", "--plugin", "own.py", "--", "--no-such-option")
    done = host(folder, "status", "cursor", "--check")

    assert done.returncode == 1
    assert b"    ! " in done.stdout


def test_uninstall_names_the_other_entries_of_mcptrio(folder: Path) -> None:
    host(folder, "install", "cursor", "--name", "garden", "--plugin", "own.py")
    done = host(folder, "uninstall", "cursor")

    assert done.returncode == 0
    assert "Cursor: mcptrio not found: " in done.stdout.decode()
    assert "  it still has mcptrio as garden: mcptrio host uninstall cursor --name garden\n" in done.stdout.decode()
    host(folder, "install", "cursor", "--plugin", "own.py")
    assert b"\n  it still has mcptrio as garden: " in host(folder, "uninstall", "cursor").stdout
    assert host(folder, "uninstall", "cursor", "--name", "garden").stdout.startswith(b"Cursor: garden removed: ")


@pytest.mark.parametrize(
    "written", [("serve", "--stdio", "--plugin", "own.py"), ("serve", "own.py"), ("run", "own.py")]
)
def test_relative_path_in_an_entry_is_reported(folder: Path, written: tuple[str, ...]) -> None:
    file = folder.parent / "home" / ".cursor" / "mcp.json"
    file.parent.mkdir()
    args = ["-m", "mcptrio", *written]
    file.write_text(json.dumps({"mcpServers": {"mcptrio": {"command": sys.executable, "args": args}}}))

    for where in (folder, folder.parent):
        result = run("host", "status", "cursor", cwd=where, env={"HOME": str(folder.parent / "home")})
        assert result.returncode == 1
        assert "    ! own.py is not absolute: the host starts it in another folder" in result.stdout.decode()


def test_command_of_a_project_file_is_not_started(folder: Path) -> None:
    """Anyone can write a project file, so its command may only look like ours."""
    started = folder / "started"
    program = folder / "mcptrio"
    program.write_text(f"#!/bin/sh\ntouch {started}\n")
    program.chmod(0o755)
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"mcptrio": {"command": str(program)}}}))

    [entry] = status(folder, "claude-code", "--check")[1]["entries"]
    assert (entry["answer"], entry["problems"], started.exists()) == (None, [], False)
    [entry] = status(folder, "claude-code", "--check-project")[1]["entries"]
    assert entry["answer"].startswith("! ")
    assert started.exists()


def test_print_and_dry_run_change_nothing(folder: Path) -> None:
    printed = host(folder, "install", "vscode", "--print", "--name", "trio", "--url", "https://example.com/mcp")
    assert json.loads(printed.stdout) == {"servers": {"trio": {"type": "http", "url": "https://example.com/mcp"}}}
    result = host(folder, "install", "claude-code", "--scope", "project", "--dry-run")
    assert result.stdout.startswith(b"--- /dev/null\n+++ ")
    assert b'+    "mcptrio": {\n+      "type": "stdio",\n' in result.stdout

    assert {path.name for path in folder.parent.rglob("*")} == {"home", "project", "own.py"}


def test_refused_host_file_does_not_stop_the_other_hosts(folder: Path) -> None:
    wrong = folder.parent / "home" / ".cursor" / "mcp.json"
    wrong.parent.mkdir()
    wrong.write_text('{\n  "mcpServers" {}\n}')
    done = host(folder, "install", "cursor", "mcp.json", "claude-desktop")

    assert done.returncode == 2
    assert done.stderr.decode() == f"mcptrio: {wrong}:2:16: expected ':', got '{{'; nothing was written\n"
    assert "Claude Desktop: mcptrio added" in done.stdout.decode()
    assert json.loads((folder / "mcp.json").read_text())["mcpServers"]["mcptrio"]["command"] == sys.executable
    assert wrong.read_text() == '{\n  "mcpServers" {}\n}'


def test_status_shows_no_secrets(folder: Path) -> None:
    entries = {
        "mcptrio": {"command": "npx", "args": ["--token=s3cret"], "env": {"T": "s3cret"}},
        "mine": {"command": "mcptrio", "args": ["serve"], "env": {"T": "s3cret"}, "disabled": True},
        "other": {"url": "https://a:s3cret@x.example/?k=s3cret"},
    }
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": entries}))
    texts = [host(folder, "status", "mcp.json", "--name", name, "--check").stdout for name in ("mcptrio", "other")]

    assert b"s3cret" not in b"".join(texts)
    assert b"  mcptrio: npx\n    ! is not mcptrio\n" in texts[0]
    assert b"  mine: mcptrio serve (switched off)\n    ! mcptrio is not absolute" in texts[0]
    assert b"  other: x.example/\n" in texts[1]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("install",), "missing HOST: pass the name of an application; `mcptrio host status` shows them"),
        (("install", "all"), "expected an installed application, found none"),
        (("install", "curser"), "did you mean `cursor`?"),
        (("install", "cursor", "--url", "ftp://x"), "--url: expected an http or https URL"),
        (("install", "cursor", "--url", "http://x", "--env", "A=b"), "--url connects to a running server"),
        (("install", "cursor", "--header", "A=b"), "expected --url with --header, got --header without it"),
        (("install", "cursor", "--env", "s3cret"), "--env: expected NAME=VALUE, got something else"),
        (("install", "claude-desktop", "--url", "http://x"), "its file cannot contain"),
        (("install", "goose", "--scope", "project"), "goose: expected --scope user"),
        (("install", "cursor", "--config", "gone.toml"), "gone.toml: cannot be read"),
        (("uninstall", "cursor", "--name", "a b"), "--name: expected at most 64"),
        (("status", "nowhere"), "HOST: expected one of claude-desktop"),
    ],
)
def test_invalid_usage_exits_with_2(folder: Path, args: tuple[str, ...], message: str) -> None:
    done = host(folder, *args)

    assert (done.returncode, done.stdout) == (2, b"")
    assert message in done.stderr.decode()
    assert "s3cret" not in done.stderr.decode()


def test_status_names_all_hosts_and_their_files(folder: Path) -> None:
    (folder / ".vscode").mkdir()
    (folder / ".vscode" / "mcp.json").write_text("{}")
    files = [each for each in status(folder) if each["found"]]
    lines = host(folder, "status").stdout.decode().splitlines()

    assert {each["host"] for each in files} == {"vscode"}
    assert [each["path"] for each in files if each["scope"] == "project"] == [str(folder / ".vscode" / "mcp.json")]
    assert len(lines) == 10
    assert lines[3].startswith("VS Code (vscode): not installed: ")
    assert str(folder / ".vscode" / "mcp.json") in lines[3]
