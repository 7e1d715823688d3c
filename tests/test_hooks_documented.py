"""Every hook has a heading in docs/hooks.md with its signature and an example, and a test or example that uses it."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from mcptrio import PluginSetup
from mcptrio.plugins.hooks import HOOKS, Hooks

__all__: list[str] = []

ROOT = Path(__file__).resolve().parent.parent


def section(hook: str) -> str:
    """What hooks.md says below the heading of a hook."""
    page = (ROOT / "docs" / "hooks.md").read_text("utf-8")
    match = re.search(rf"^## `{hook}`\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    return match[1] if match else ""


def test_hook_list_matches_the_specifications() -> None:
    specified = [name for name, value in vars(Hooks).items() if hasattr(value, "mcptrio_spec")]

    assert sorted(HOOKS) == sorted(specified)


def test_hooks_page_is_within_its_length_limit() -> None:
    assert (ROOT / "docs" / "hooks.md").read_text("utf-8").count("\n") <= 150


def test_page_headings_match_the_hooks() -> None:
    page = (ROOT / "docs" / "hooks.md").read_text("utf-8")

    assert set(re.findall(r"^## `(\w+)`$", page, re.MULTILINE)) == set(HOOKS)


@pytest.mark.parametrize("hook", HOOKS)
def test_hook_is_documented(hook: str) -> None:
    text = section(hook)
    _, *parameters = inspect.signature(getattr(Hooks, hook)).parameters

    assert f"`{hook}({', '.join(parameters)})`" in text, "its signature is missing"
    example = rf"```python\n.*(@hookimpl\n *def {hook}\(|@{hook}\n).*?```"
    assert re.search(example, text, re.DOTALL), "its example is missing"


@pytest.mark.parametrize("hook", HOOKS)
def test_hook_is_used_by_a_test(hook: str) -> None:
    files = [file for file in ROOT.glob("tests/**/*.py") if file != Path(__file__)]

    assert any(re.search(rf"^ +def {hook}\(", file.read_text("utf-8"), re.MULTILINE) for file in files)


def test_hooks_page_names_everything_that_a_plugin_can_add() -> None:
    methods = [name for name in vars(PluginSetup) if not name.startswith("_") and name not in ("threads", "tool_name")]

    missing = [name for name in methods if f"`{name}" not in section("setup")]
    assert missing == []
