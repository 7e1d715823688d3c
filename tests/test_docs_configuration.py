"""docs/configuration.md names every option, every key and every limit, with its default in the code.

The options of the commands that use servers are in docs/commands.md.
"""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import click
import pytest

from mcptrio.cli.group import cli
from mcptrio.serve.config import keys, load_config
from mcptrio.serving import HTTPLimits, HTTPOptions, ServerLimits, Timeouts

__all__: list[str] = []

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "configuration.md").read_text("utf-8")
CLASSES: dict[type, type] = {HTTPLimits: HTTPOptions}
"""Classes that programs use for the fields of a base class."""
RUNNING = ("dev", "plugins", "serve", "worker")
"""Commands that run a server; the others use one."""


def rows() -> dict[str, str]:
    """Map the first cell of every table row that begins with code to the second cell."""
    matches = re.findall(r"^\| (`[^|\n]*(?:\\\|[^|\n]*)*) \| ([^|\n]*) ?\|", PAGE, re.MULTILINE)
    return {name: default.strip() for names, default in matches for name in re.findall(r"`([\w.-]+)", names)}


def toml_keys() -> set[str]:
    """Return every key of the tables that this page describes."""
    return {".".join(key) for key in keys()}


@pytest.mark.parametrize("command", sorted(cli.commands))
def test_every_option_is_documented(command: str) -> None:
    options = [parameter for parameter in cli.commands[command].params if isinstance(parameter, click.Option)]
    parameters = [option for option in options if not option.hidden]
    page = PAGE if command in RUNNING else (ROOT / "docs" / "commands.md").read_text("utf-8")
    missing = [name for parameter in parameters for name in parameter.opts if f"`{name}" not in page]

    assert missing == []


def test_every_key_of_the_file_is_documented() -> None:
    assert len(toml_keys()) > 60
    assert toml_keys() - rows().keys() == set()


def test_number_of_keys_is_limited() -> None:
    assert len(toml_keys()) <= 101


def test_documented_keys_match_the_settings() -> None:
    tables = ("server.", "tools.", "http.", "stores.", "stream.", "log.", "console.", "telemetry.")

    assert {key for key in rows() if key.startswith(tables)} == toml_keys()


@pytest.mark.parametrize(
    ("cls", "prefix"), [(Timeouts, "server.timeouts."), (ServerLimits, "server.limits."), (HTTPLimits, "http.")]
)
def test_every_limit_is_documented_with_its_default(cls: type, prefix: str) -> None:
    documented = rows()
    wrong = {}
    for field in attrs.fields(cls):
        if field.type == "MessageLimits":
            continue  # the table server.message
        shown = documented.get(prefix + field.name, documented.get(f"{CLASSES.get(cls, cls).__name__}.{field.name}"))
        if shown is None or float(shown) != field.default:
            wrong[field.name] = (shown, field.default)

    assert wrong == {}


def test_example_of_the_page_is_a_valid_file(tmp_path: Path) -> None:
    text, _ = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    file = tmp_path / "mcptrio.toml"
    file.write_text(text)
    read = load_config(file)

    assert read.plugins == {"fs": {"folders": ["~/projects"]}}
    assert read.server.timeouts == Timeouts(request=600)
