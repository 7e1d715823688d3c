"""The arguments of a tool as options of the command line: ``--count 3``, and the help that lists them.

Used by ``mcptrio call``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mcptrio.cli.client.schema_words import kinds, properties, required, word
from mcptrio.cli.help_pages import HelpPage
from mcptrio.errors import ConfigError
from mcptrio.ground.quoting import printable, quote_name
from mcptrio.ground.suggestions import did_you_mean
from mcptrio.protocol.model.tools import Tool

__all__ = ["as_words", "help_of"]

_MAX_DEFAULT_CHARS = 80
"""Characters of a default that the help shows."""


def as_words(words: Sequence[str], schema: Mapping[str, Any], options: Sequence[str]) -> Iterator[str]:
    """Yield the words, with each ``--key value`` as ``key=value``.

    Args:
        options: The names of the command's own options, for suggestions.
    """
    root = dict(schema)
    names = {_option(name): name for name in properties(root, root)}
    rest = iter(words)
    for each in rest:
        if not each.startswith("--"):
            yield each
            continue
        option, sign, value = each.partition("=")
        # As click does for its own flags: --no-NAME sets a boolean to false.
        positive = option.replace("--no-", "--", 1)
        if option not in names and positive not in names:
            raise ConfigError(f"no option {quote_name(option)}{did_you_mean(option, [*names, *options])}")
        # An argument whose own name begins with no_ takes precedence over a negation.
        name = names.get(option) or names[positive]
        if not sign:
            if kinds(properties(root, root)[name], root) == {"boolean"}:
                value = "true" if option in names else "false"
            else:
                try:
                    value = next(rest)
                except StopIteration:
                    raise ConfigError(f"{option}: expected a value, got nothing") from None
        yield f"{name}={value}"


def help_of(tool: Tool, command: str, *, is_coloured: bool) -> str:
    """Return the help of a tool: its description, and its arguments with types, defaults and descriptions."""
    root = tool.input_schema
    needed = required(root, root)
    page = HelpPage(is_coloured=is_coloured)
    page.add_usage(command, "[OPTIONS]")
    page.add_text(_paragraph((tool.description or "").split("\n\n")[0]))
    rows = [
        # A boolean is a flag, without a value.
        (
            _option(printable(name)) + ("" if kinds(schema, root) == {"boolean"} else f" {word(schema, root)}"),
            _description(schema, name in needed),
        )
        for name, schema in properties(root, root).items()
    ]
    page.add_sections({"Arguments": rows})
    return str(page)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _description(schema: Any, is_required: bool) -> str:
    keywords = schema if isinstance(schema, dict) else {}
    text = _paragraph(str(keywords.get("description", "")))
    if is_required:
        return f"{text}  [required]".strip()
    if "default" in keywords:
        default = keywords["default"]
        # An empty text is shown as "", or the default would seem to be missing.
        default_text = default if isinstance(default, str) and default else json.dumps(default, ensure_ascii=False)
        return f"{text}  [default: {printable(default_text)[:_MAX_DEFAULT_CHARS]}]".strip()
    return text


def _paragraph(text: str) -> str:
    return printable(" ".join(text.split()))
