"""The settings, as mcptrio reads them from a table and the environment into the plugin's class."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import mcptrio_fs
import pytest
from mcptrio_fs.config import Config

from mcptrio import Server
from mcptrio.errors import ConfigError
from mcptrio.plugins.settings import PluginTables


def config(settings: dict[str, Any], environ: dict[str, str] | None = None, **options: Any) -> Config:
    """Return the settings of ``[plugins.fs]`` as mcptrio reads them."""
    read = PluginTables(tables={"fs": settings}, environ=environ or {}, **options).of("fs", Config)
    assert isinstance(read, Config)
    return read


def allowed(config: Config) -> list[str]:
    return [folder.path for folder in config.sandbox().folders]


def test_no_settings_allow_no_folders() -> None:
    read = config({})

    assert read.folders == ()
    assert allowed(read) == []
    assert (read.roots, read.read_only, read.deny) == (None, False, ())


def test_folders_are_made_absolute_once(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(inside)
    monkeypatch.setenv("HOME", "/home/somebody")
    paths = ["~/x", ".", "//a//b/", "/a/b", "/a/c/../b"]

    assert allowed(config({"folders": paths})) == ["/home/somebody/x", str(inside), "/a/b"]
    assert allowed(Config(folders=map(Path, paths))) == ["/home/somebody/x", str(inside), "/a/b"]


def test_relative_folders_are_resolved_at_the_file(
    inside: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(outside)

    assert allowed(config({"folders": ["x", ".."]}, folder=inside)) == [str(inside / "x"), str(inside.parent)]
    assert allowed(config({}, {"MCPTRIO_FS_FOLDERS": "x"}, folder=inside)) == [str(outside / "x")]


def test_environment_overrides_the_table() -> None:
    environ = {
        "MCPTRIO_FS_FOLDERS": os.pathsep.join(["/a", "/b", ""]),
        "MCPTRIO_FS_ROOTS": "false",
        "MCPTRIO_FS_READ_ONLY": "1",
        "MCPTRIO_FS_DENY": ".git, .env*",
        "MCPTRIO_FS_MAX_READ_BYTES": "1000",
        "MCPTRIO_FS_STEP_TIMEOUT": "0.5",
        "OTHER": "x",
    }

    read = config({"folders": ["/c"], "max_entries": 5}, environ)

    assert allowed(read) == ["/a", "/b"]
    assert (read.roots, read.read_only, read.deny) == (False, True, (".git", ".env*"))
    assert (read.max_read_bytes, read.step_timeout, read.max_entries) == (1000, 0.5, 5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"folder": ["/a"]}, r"^plugins\.fs\.folder: .* did you mean `folders`\?"),
        ({"patterns": []}, r"^plugins\.fs\.patterns: .*expected one of deny, durable, folders"),
        ({"folders": "/a"}, r"^plugins\.fs\.folders: expected a list, got '/a'"),
        ({"folders": [1]}, r"^plugins\.fs\.folders"),
        ({"folders": ["/a\0"]}, r"^plugins\.fs\.folders: expected a path"),
        ({"roots": "yes"}, r"^plugins\.fs\.roots: expected true or false"),
        ({"max_entries": 0}, r"^plugins\.fs\.max_entries: .*>= 1"),
        ({"max_entries": True}, r"^plugins\.fs\.max_entries: expected an integer"),
        ({"max_entries": 1.5}, r"^plugins\.fs\.max_entries: expected an integer"),
        ({"max_read_bytes": 3}, r"^plugins\.fs\.max_read_bytes: .*>= 4"),
        ({"step_timeout": float("nan")}, r"^plugins\.fs\.step_timeout: .*> 0"),
        ({"step_timeout": float("inf")}, r"^plugins\.fs\.step_timeout: .*<= "),
        ({"watch_interval": 0.001}, r"^plugins\.fs\.watch_interval: .*>= 0\.01"),
        ({"deny": ["secret/key"]}, r"^plugins\.fs\.deny: expected globs of names .*, got 'secret/key'"),
        ({"deny": ["!x"]}, r"^plugins\.fs\.deny: expected globs of names"),
        ({"deny": ["**/"]}, r"^plugins\.fs\.deny: expected a glob pattern"),
    ],
)
def test_invalid_setting_is_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config(settings)


@pytest.mark.parametrize(
    ("variable", "value"),
    [("MCPTRIO_FS_ROOTS", "perhaps"), ("MCPTRIO_FS_MAX_ENTRIES", "many"), ("MCPTRIO_FS_STEP_TIMEOUT", "")],
)
def test_invalid_variable_is_named(variable: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"^{variable}: expected"):
        config({}, {variable: value})


def test_embedder_gets_the_same_errors() -> None:
    with pytest.raises(ValueError, match="expected paths in 'folders'"):
        Config(folders=[Path("/a\0")])
    with pytest.raises(ValueError, match="'max_watched' must be >= 1"):
        Config(max_watched=0)


@pytest.mark.parametrize("pattern", [".git", "**/.git", "**/.git/**", ".git/"])
def test_deny_pattern_matches_whole_names_at_any_depth(pattern: str) -> None:
    sandbox = Config(folders=[Path("/a")], deny=(pattern,)).sandbox()

    assert sandbox.is_denied(["x", ".git", "y"])
    assert not sandbox.is_denied(["x", ".gitignore"])


def test_server_creates_the_settings(inside: Path) -> None:
    server = Server(plugins=[mcptrio_fs], config={"mcptrio_fs": {"folders": [str(inside)]}})

    made = server.plugins.plugins["mcptrio_fs"].config
    assert isinstance(made, Config)
    assert made.folders == (inside,)
