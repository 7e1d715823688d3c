from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from mcptrio_fs.config import Config

from mcptrio.errors import ConfigError


def test_nothing_set_allows_nothing() -> None:
    config = Config.load({}, {})

    assert config.folders == ()
    assert (config.roots, config.read_only, config.deny) == (None, False, ())


def test_folders_are_made_absolute_once(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(inside)
    monkeypatch.setenv("HOME", "/home/somebody")

    config = Config.load({"folders": ["~/x", ".", "//a//b/", "/a/b"]}, {})

    assert config.folders == ("/home/somebody/x", str(inside), "/a/b")


def test_the_environment_wins() -> None:
    environ = {
        "MCPTRIO_FS_FOLDERS": os.pathsep.join(["/a", "/b", ""]),
        "MCPTRIO_FS_ROOTS": "no",
        "MCPTRIO_FS_READ_ONLY": "1",
        "MCPTRIO_FS_DENY": ".git:.env*",
        "MCPTRIO_FS_MAX_READ_BYTES": "1000",
        "MCPTRIO_FS_STEP_TIMEOUT": "0.5",
        "OTHER": "x",
    }

    config = Config.load({"folders": ["/c"], "max_entries": 5}, environ)

    assert config.folders == ("/a", "/b")
    assert (config.roots, config.read_only, config.deny) == (False, True, (".git", ".env*"))
    assert (config.max_read_bytes, config.step_timeout, config.max_entries) == (1000, 0.5, 5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"folder": ["/a"]}, r"unknown key 'folder' @ plugins\.fs; did you mean 'folders'"),
        ({"zzz": 1}, "expected one of folders, roots"),
        ({"folders": "/a"}, r"expected a list of strings @ plugins\.fs\.folders, got '/a'"),
        ({"folders": [1]}, "expected a list of strings"),
        ({"folders": ["/a\0"]}, "expected a path"),
        ({"roots": "yes"}, "expected true or false"),
        ({"max_entries": 0}, "greater than 0"),
        ({"max_entries": True}, "expected a number"),
        ({"max_entries": 1.5}, "expected a number"),
        ({"step_timeout": float("nan")}, "expected a number"),
        ({"deny": ["secret/key"]}, "expected the glob of a name"),
        ({"deny": ["!x"]}, "expected the glob of a name"),
        ({"deny": ["**/"]}, r"@ plugins\.fs\.deny"),
    ],
)
def test_what_does_not_fit_is_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Config.load(settings, {})


@pytest.mark.parametrize(
    ("variable", "value"),
    [("MCPTRIO_FS_ROOTS", "perhaps"), ("MCPTRIO_FS_MAX_ENTRIES", "many"), ("MCPTRIO_FS_STEP_TIMEOUT", "-1")],
)
def test_a_variable_that_does_not_fit_is_named(variable: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"@ {variable}, got"):
        Config.load({}, {variable: value})


@pytest.mark.parametrize("pattern", [".git", "**/.git", "**/.git/**", ".git/"])
def test_deny_patterns_name_names(pattern: str) -> None:
    sandbox = Config.load({"folders": ["/a"], "deny": [pattern]}, {}).sandbox()

    assert sandbox.is_denied(["x", ".git", "y"])
    assert not sandbox.is_denied(["x", ".gitignore"])
