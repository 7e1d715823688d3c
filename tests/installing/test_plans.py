"""Installing and uninstalling: the changes, the refusals, and the exact restoration of a file."""

from __future__ import annotations

import json
import os
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from mcptrio.cli.install.documents import entry_at, parse
from mcptrio.cli.install.files import MAX_BACKUPS, backups, read
from mcptrio.cli.install.hosts import HOSTS, HostKind, find_host
from mcptrio.cli.install.launches import launch_command, launch_warning
from mcptrio.cli.install.machine import Machine
from mcptrio.cli.install.plans import plan_install, plan_uninstall, snippet
from mcptrio.connecting.mcp_json import load_mcp_json
from mcptrio.connecting.targets import Command, Endpoint
from mcptrio.errors import ConfigError
from tests.installing.texts import jsonc

__all__: list[str] = []

STARTED = Command(args=("/opt/python", "-m", "mcptrio", "serve", "--stdio"))
REACHED = Endpoint(url="https://example.com/mcp", headers={"X-Key": "${env:KEY}"})
ARGS = ["-m", "mcptrio", "serve", "--stdio"]
STDIO = {"command": "/opt/python", "args": ARGS, "env": {"A": "b"}}
HTTP = {"url": REACHED.url, "headers": {"X-Key": "${env:KEY}"}}
GOOSE = {"enabled": True, "description": "", "timeout": 300, "name": "trio"}
SHAPES = {
    "claude-desktop": (STDIO, None),
    "claude-code": ({"type": "stdio", **STDIO}, {"type": "http", **HTTP}),
    "cursor": (STDIO, HTTP),
    "vscode": ({"type": "stdio", **STDIO}, {"type": "http", **HTTP}),
    "windsurf": (STDIO, {"serverUrl": REACHED.url, "headers": HTTP["headers"]}),
    "zed": ({"source": "custom", **STDIO}, HTTP),
    "gemini-cli": (STDIO, {"httpUrl": REACHED.url, "headers": HTTP["headers"]}),
    "codex": (STDIO, {"url": REACHED.url, "http_headers": HTTP["headers"]}),
    "cline": (STDIO, {"type": "streamableHttp", **HTTP}),
    "goose": (
        {**GOOSE, "type": "stdio", "cmd": "/opt/python", "args": ARGS, "envs": {"A": "b"}},
        {**GOOSE, "type": "streamable_http", "uri": REACHED.url, "headers": HTTP["headers"]},
    ),
}
FILES = {
    "json": '\ufeff{\r\n\t// mine\r\n\t"theme": "dark",\r\n\t"KEY": {"fs": {"command": "npx"}} // KEY\r\n}',
    "toml": "model = 'x' # mine\r\n\r\n[KEY.fs]\r\ncommand = \"npx\"",
    "yaml": "# mine\r\nGOOSE_MODEL: x\r\nKEY:\r\n    fs: {cmd: npx}\r\nlast: |\r\n  a",
}


def written(host: HostKind, machine: Machine) -> Path:
    """Write the host's file, as users may have it."""
    path = host.file(machine, "user")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(FILES[host.format].replace("KEY", host.key).encode())
    return path


def everything_in(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("host", SHAPES)
def test_entry_has_the_format_of_each_host(host: str) -> None:
    kind = HOSTS[host]
    keys = (kind.key, "trio")
    started, reached = SHAPES[host]
    env = Command(args=STARTED.args, env={"A": "b"})

    assert entry_at(parse(kind.format, snippet(kind, "trio", env)), keys) == started
    if reached is None:
        with pytest.raises(ConfigError, match="claude-desktop: expected a server to start"):
            snippet(kind, "trio", REACHED)
    else:
        assert entry_at(parse(kind.format, snippet(kind, "trio", REACHED)), keys) == reached


@pytest.mark.parametrize("host", ["cursor", "vscode", "claude-code", "windsurf", "gemini-cli", "cline"])
def test_written_entry_is_read_by_the_client(host: str, machine: Machine) -> None:
    path = HOSTS[host].file(machine, "user")
    reached = Endpoint(url=REACHED.url, transport="http" if host in ("gemini-cli", "cline") else "auto")
    for target, expected in ((STARTED, STARTED), (Endpoint(url=REACHED.url), reached)):
        plan_install(HOSTS[host], path, "mcptrio", target).carry_out()

        servers = load_mcp_json(path)
        assert (servers.names, servers.read("mcptrio")) == (("mcptrio",), expected)
        plan_uninstall(HOSTS[host], path, "mcptrio").carry_out()


def test_every_host_has_an_expected_entry() -> None:
    assert SHAPES.keys() == HOSTS.keys()


@pytest.mark.parametrize("host", SHAPES)
@pytest.mark.parametrize("is_there", [True, False], ids=["beside others", "in a new file"])
def test_install_and_uninstall_leave_nothing(host: str, is_there: bool, machine: Machine) -> None:
    kind = HOSTS[host]
    path = written(kind, machine) if is_there else kind.file(machine, "user")
    before = everything_in(machine.home)

    plan_install(kind, path, "mcptrio", STARTED).carry_out()
    installed = path.read_bytes()
    if is_there:
        assert installed.count(b"\n") == installed.count(b"\r\n")
        assert installed.startswith("\ufeff".encode()) == (kind.format == "json")
    again = plan_install(kind, path, "mcptrio", STARTED)
    assert not again.changes
    assert again.outcome == "unchanged"
    plan_install(kind, path, "mcptrio", Command(args=(*STARTED.args, "--strict"), env={"A": "b"})).carry_out()
    assert path.read_bytes() != installed
    plan = plan_uninstall(kind, path, "mcptrio")
    plan.carry_out()

    assert everything_in(machine.home) == before
    assert plan_uninstall(kind, path, "mcptrio").outcome == "not found"


@settings(deadline=None, max_examples=50)
@given(jsonc(("mcpServers", "mcptrio")))
def test_install_and_uninstall_restore_any_file(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.mktemp("file")
    path = folder / "mcp.json"
    path.write_bytes(text.encode())
    kind = HOSTS["cursor"]

    plan_install(kind, path, "mcptrio", STARTED).carry_out()
    assert path.read_bytes() != text.encode()
    plan_uninstall(kind, path, "mcptrio").carry_out()

    assert everything_in(folder) == {str(path): text.encode()}


def test_uninstall_keeps_later_changes_of_the_file(machine: Machine) -> None:
    kind = HOSTS["cursor"]
    path = written(kind, machine)
    plan_install(kind, path, "mcptrio", STARTED).carry_out()
    path.write_bytes(path.read_bytes().replace(b'"dark"', b'"light"'))
    expected = FILES["json"].replace("KEY", kind.key).replace("dark", "light").encode()

    plan_uninstall(kind, path, "mcptrio").carry_out()
    assert path.read_bytes() == expected


def test_install_keeps_user_settings_of_the_entry(machine: Machine) -> None:
    kind = HOSTS["goose"]
    path = kind.file(machine, "user")
    path.parent.mkdir(parents=True)
    path.write_text(
        "extensions:\n  mcptrio:\n    enabled: false\n    type: stdio\n    cmd: mcptrio\n    args: [serve]\n"
        "    envs: {TOKEN: x}\n    available_tools: [a]\n"
    )

    plan_install(kind, path, "mcptrio", Command(args=STARTED.args, env={"B": "c"})).carry_out()
    entry = entry_at(parse("yaml", path.read_text()), ("extensions", "mcptrio"))
    assert entry["enabled"] is False
    assert entry["available_tools"] == ["a"]
    assert entry["envs"] == {"TOKEN": "x", "B": "c"}
    assert entry["cmd"] == "/opt/python"


OTHERS = [{"command": "npx", "args": ["-y", "x"]}, {"url": "https://other.example/mcp"}, {"command": 1}, "text", None]


@pytest.mark.parametrize("other", OTHERS[:4], ids=["a command", "a URL", "a number", "a text"])
def test_foreign_entry_is_unchanged_without_force(machine: Machine, other: object) -> None:
    kind = HOSTS["cursor"]
    path = kind.file(machine, "user")
    path.parent.mkdir()
    text = json.dumps({"mcpServers": {"mcptrio": other}}, indent=2) + "\n"  # in the installer's own style
    path.write_text(text)

    for target in (STARTED, REACHED):
        with pytest.raises(ConfigError, match="the server mcptrio exists and is not mcptrio's"):
            plan_install(kind, path, "mcptrio", target)
    if not isinstance(other, dict) or "url" not in other:
        with pytest.raises(ConfigError, match="--force removes it"):
            plan_uninstall(kind, path, "mcptrio")
    plan_install(kind, path, "mcptrio", STARTED, force=True).carry_out()
    assert parse("json", path.read_text())["mcpServers"]["mcptrio"] == {"command": "/opt/python", "args": ARGS}
    plan_uninstall(kind, path, "mcptrio").carry_out()
    assert path.read_text() == text
    kept = plan_uninstall(kind, path, "mcptrio", force=True).carry_out()
    assert kept is not None
    assert kept.read_text() == text
    assert not path.exists() or parse("json", path.read_text()) == {"mcpServers": {}}


def test_url_next_to_other_entries_is_removed_only_with_force(machine: Machine) -> None:
    kind, path = HOSTS["cursor"], machine.home / "mcp.json"
    path.write_text('{"mcpServers": {"mcptrio": {"url": "https://other.example/mcp"}, "fs": {}}}')

    with pytest.raises(ConfigError, match="has a URL, and may not be mcptrio's; --force removes it"):
        plan_uninstall(kind, path, "mcptrio")
    plan_uninstall(kind, path, "mcptrio", force=True).carry_out()
    assert path.read_text() == '{"mcpServers": {"fs": {}}}'


def test_url_alone_in_its_file_is_removed_with_a_backup(machine: Machine) -> None:
    """The installer created the file, so no backup can show that the entry is its own."""
    kind, path = HOSTS["cursor"], machine.home / "mcp.json"
    plan_install(kind, path, "mcptrio", REACHED).carry_out()
    kept = plan_uninstall(kind, path, "mcptrio").carry_out()

    assert not path.exists()
    assert kept is not None
    assert REACHED.url in kept.read_text()


def test_url_of_an_earlier_installation_is_recognized(machine: Machine) -> None:
    """The uninstaller recognizes its entry by the backup of the file before it, or because the URL is equal."""
    kind = HOSTS["windsurf"]
    path = written(kind, machine)
    plan_install(kind, path, "mcptrio", REACHED).carry_out()
    plan_install(kind, path, "mcptrio", Endpoint(url=REACHED.url, headers={"X": "y"})).carry_out()
    entry = parse("json", path.read_text("utf-8-sig"))["mcpServers"]["mcptrio"]
    assert entry == {"serverUrl": REACHED.url, "headers": {"X-Key": "${env:KEY}", "X": "y"}}

    plan_uninstall(kind, path, "mcptrio").carry_out()
    assert b"mcptrio" not in path.read_bytes()


@pytest.mark.parametrize(
    ("host", "text", "place"),
    [
        ("cursor", '{\n  "mcpServers": {,}\n}', ":2:18: expected a name"),
        ("codex", "a = 1\n[mcp_servers\n", ":2:13: expected TOML"),
        ("goose", "extensions: [\n", ":2:1: expected YAML"),
        ("cursor", '{"mcpServers": []}', ": mcpServers: expected an object, got a list; nothing was written"),
        ("codex", "mcp_servers = {}\n", ": line 1: expected mcp_servers as a table with a header"),
    ],
)
def test_invalid_file_is_refused_and_unchanged(machine: Machine, host: str, text: str, place: str) -> None:
    path = HOSTS[host].file(machine, "user")
    path.parent.mkdir(parents=True)
    path.write_text(text)

    with pytest.raises(ConfigError) as refused:
        plan_install(HOSTS[host], path, "mcptrio", STARTED)
    assert str(refused.value).startswith(f"{path}{place}")
    assert everything_in(machine.home) == {str(path): text.encode()}


def test_file_that_is_not_text_is_refused(machine: Machine) -> None:
    path = machine.home / "mcp.json"
    path.write_bytes('{"a": "é"}'.encode("utf-16"))

    with pytest.raises(ConfigError, match=r"mcp\.json:1: expected UTF-8"):
        plan_install(find_host(str(path)), path, "mcptrio", STARTED)


@pytest.mark.parametrize("name", ["", "a b", "a.b", "a/b", "x" * 65, "ü", "a\n"])
def test_name_that_hosts_refuse_is_refused(machine: Machine, name: str) -> None:
    with pytest.raises(ConfigError, match="--name: expected at most 64 letters"):
        plan_install(HOSTS["cursor"], machine.home / "mcp.json", name, STARTED)


@pytest.mark.parametrize("text", ["a\0b", "\udc80"])
def test_text_that_no_file_can_contain_is_refused(machine: Machine, text: str) -> None:
    with pytest.raises(ConfigError, match="cursor: expected UTF-8 text without NUL"):
        plan_install(HOSTS["cursor"], machine.home / "mcp.json", "mcptrio", Command(args=(*STARTED.args, text)))


# The file


@pytest.mark.skipif(sys.platform == "win32", reason="permissions")
def test_permissions_are_kept_and_new_files_are_private(machine: Machine) -> None:
    kind, path = HOSTS["cursor"], machine.home / "mcp.json"
    plan_install(kind, path, "mcptrio", STARTED).carry_out()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600

    path.chmod(0o640)
    copy = plan_install(kind, path, "mcptrio", Command(args=(*STARTED.args, "--strict"))).carry_out()
    assert copy is not None
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(copy.stat().st_mode) == 0o640


if sys.platform != "win32" and os.geteuid() == 0:  # only root can give a file away

    def test_owner_of_the_file_is_kept(machine: Machine) -> None:
        path = machine.home / "mcp.json"
        path.write_text("{}")
        os.chown(path, 12345, 23456)

        plan_install(HOSTS["cursor"], path, "mcptrio", STARTED).carry_out()
        assert (path.stat().st_uid, path.stat().st_gid) == (12345, 23456)


def test_symbolic_links_are_followed_and_kept(machine: Machine) -> None:
    """Dotfiles: the host reads the link, and the file is elsewhere."""
    dotfiles = machine.home / "dotfiles"
    dotfiles.mkdir()
    (dotfiles / "cursor.json").write_text("{}")
    (machine.home / "middle.json").symlink_to("dotfiles/cursor.json")
    path = machine.home / "mcp.json"
    path.symlink_to(machine.home / "middle.json")

    plan_install(HOSTS["cursor"], path, "mcptrio", STARTED).carry_out()
    assert path.is_symlink()
    assert "mcptrio" in (dotfiles / "cursor.json").read_text()
    assert sorted(each.name for each in dotfiles.iterdir()) == ["cursor.json"]
    plan_uninstall(HOSTS["cursor"], path, "mcptrio").carry_out()
    assert (dotfiles / "cursor.json").read_text() == "{}"
    assert path.is_symlink()


def test_link_to_a_missing_file_is_followed(machine: Machine) -> None:
    path = machine.home / "mcp.json"
    path.symlink_to(machine.home / "dotfiles" / "cursor.json")

    plan_install(HOSTS["cursor"], path, "mcptrio", STARTED).carry_out()
    assert "mcptrio" in (machine.home / "dotfiles" / "cursor.json").read_text()
    plan_uninstall(HOSTS["cursor"], path, "mcptrio").carry_out()
    assert path.is_symlink()
    assert not path.exists()


@pytest.mark.parametrize("kind", ["a circle", "a folder", "a pipe"])
def test_path_that_is_not_a_file_is_refused(machine: Machine, kind: str) -> None:
    path = machine.home / "mcp.json"
    if kind == "a circle":
        path.symlink_to(path)
    elif kind == "a folder":
        path.mkdir()
    else:
        os.mkfifo(path)

    with pytest.raises(ConfigError, match=r"mcp\.json: (?:cannot be|expected a regular file)"):
        plan_install(HOSTS["cursor"], path, "mcptrio", STARTED).carry_out()


def test_number_of_backups_is_limited(machine: Machine) -> None:
    kind, path = HOSTS["cursor"], machine.home / "mcp.json"
    path.write_text("{}")
    for number in range(MAX_BACKUPS + 3):
        plan_install(kind, path, f"trio{number}", STARTED).carry_out()

    kept = backups(path)
    assert [each.name for each in kept] == [f"mcp.json.mcptrio-{number}.bak" for number in range(8, 3, -1)]
    assert kept[0].read_text().count("mcptrio") < path.read_text().count("mcptrio")


def test_concurrent_change_is_not_lost(machine: Machine) -> None:
    kind, path = HOSTS["cursor"], machine.home / "mcp.json"
    path.write_text("{}")
    plan = plan_install(kind, path, "mcptrio", STARTED)
    path.write_text('{"new": 1}')

    with pytest.raises(ConfigError, match="another program has changed it in the meantime"):
        plan.carry_out()
    assert everything_in(machine.home) == {str(path): b'{"new": 1}'}


if sys.platform != "win32" and os.geteuid() != 0:  # root may write anything

    def test_read_only_file_is_unchanged(machine: Machine) -> None:
        path = machine.home / "mcp.json"
        path.write_text("{}")
        path.chmod(0o444)

        with pytest.raises(ConfigError, match="read-only"):
            plan_install(HOSTS["cursor"], path, "mcptrio", STARTED).carry_out()
        assert everything_in(machine.home) == {str(path): b"{}"}


def test_oversized_file_is_refused(machine: Machine) -> None:
    path = machine.home / "mcp.json"
    path.write_bytes(b" " * (4 * 1024 * 1024 + 1))

    with pytest.raises(ConfigError, match="expected at most 4194304 bytes"):
        read(path)


def test_diff_shows_the_planned_change(machine: Machine) -> None:
    path = machine.home / "mcp.json"
    path.write_text('{\n  "mcpServers": {\n    "fs": {}\n  }\n}')
    diff = plan_install(HOSTS["cursor"], path, "mcptrio", Command(args=("mcptrio", "serve"))).diff()

    assert diff == (
        f'--- {path}\n+++ {path}\n@@ -1,5 +1,11 @@\n {{\n   "mcpServers": {{\n-    "fs": {{}}\n+    "fs": {{}},\n'
        '+    "mcptrio": {\n+      "command": "mcptrio",\n+      "args": [\n+        "serve"\n+      ]\n'
        "+    }\n   }\n }\n"
        "\\ No newline at end of file\n"
    )


# Started commands


def test_launch_command_has_absolute_paths(machine: Machine) -> None:
    (machine.project / "own.py").write_text("")
    (machine.project / "mcptrio.toml").write_text("")
    given: dict[str, Any] = {"plugins": ("own.py", "git"), "no_plugins": ("fs",), "arguments": ("--log-level", "debug")}

    assert list(launch_command(machine.project, **given).args) == [
        *(sys.executable, "-m", "mcptrio", "serve", "--stdio"),
        *("--config", str(machine.project / "mcptrio.toml")),
        *("--plugin", str(machine.project / "own.py"), "--plugin", "git", "--no-plugin", "fs"),
        *("--log-level", "debug"),
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"plugins": ("gone.py",)}, "--plugin: no such file: gone.py"),
        ({"config": Path("gone.toml")}, "gone.toml: cannot be read"),
        ({"config": Path("wrong.toml")}, "wrong.toml:1: expected TOML"),
    ],
)
def test_command_with_invalid_configuration_is_not_installed(
    machine: Machine, given: dict[str, Any], message: str
) -> None:
    (machine.project / "wrong.toml").write_text("a = = 1")

    with pytest.raises(ConfigError, match=message):
        launch_command(machine.project, **given)


def test_temporary_interpreter_is_reported() -> None:
    assert "uv tool install" in (launch_warning("/home/a/.cache/uv/archive-v0/xyz/bin/python") or "")
    assert launch_warning("/usr/bin/python3") is None
    with pytest.raises(ConfigError, match="absolute path, got 'python'"):
        launch_command(Path("/"), "python")


def test_concurrent_installs_keep_every_successful_entry(machine: Machine) -> None:
    """Each entry whose plan was carried out without an error is in the file."""
    kind = HOSTS["cursor"]
    path = written(kind, machine)

    def install(name: str) -> str | None:
        try:
            plan_install(kind, path, name, STARTED).carry_out()
        except ConfigError:
            return None
        return name

    with ThreadPoolExecutor(8) as pool:
        done = {name for name in pool.map(install, [f"server-{number}" for number in range(80)]) if name}

    assert done
    assert done <= entry_at(parse(kind.format, path.read_text("utf-8-sig")), (kind.key,)).keys()
