"""Completions for a line of the shell: names of the server, values of schemas, and the server's own completions.

If the server responds with an error, or too late, there are no completions.

Source: MCP 2026-07-28, server/utilities/completion.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import trio

from mcptrio.cli.client.arguments import read_arguments
from mcptrio.cli.client.command_context import CommandContext
from mcptrio.cli.client.schema_words import choices, properties, required, word, words_of
from mcptrio.cli.list import KINDS, fetch
from mcptrio.cli.shell.words import TypedLine, quote_word, split_line
from mcptrio.cli.terminal.line_editor import LineCompletions
from mcptrio.cli.watch import LISTS
from mcptrio.errors import ConfigError, MCPTrioError
from mcptrio.ground.quoting import printable
from mcptrio.protocol.model.logging import LEVELS
from mcptrio.protocol.model.prompts import Prompt
from mcptrio.protocol.model.tools import Tool

__all__ = ["Completer"]

_LIST_CACHE_SECONDS = 30.0
"""Seconds for which a list is used again; servers are not required to report changes."""
_VARIABLE = re.compile(r"\{([A-Za-z0-9_]+)\}")
"""A plain variable of a URI template. Other expressions of RFC 6570 are not completed."""


class Completer:
    """Completes the lines of one shell.

    Args:
        commands: The commands of the shell, by name.
    """

    def __init__(self, cmd: CommandContext, commands: Sequence[str]) -> None:
        self._cmd = cmd
        self._commands = commands
        self._lists: dict[str, tuple[float, Sequence[Any]]] = {}

    def forget(self, kind: str) -> None:
        """Drop the cached list of a kind, because it has changed."""
        # Servers report changes to templates as changes to resources.
        for each in ("resources", "templates") if kind == "resources" else (kind,):
            self._lists.pop(each, None)

    async def complete(self, text: str) -> LineCompletions:
        typed = split_line(text)
        try:
            candidates = await self._candidates(typed)
        except (MCPTrioError, OSError):
            # While the user types, an error would only disturb the line.
            return LineCompletions(typed.start)
        matches = sorted({each for each in candidates if each.startswith(typed.current)})
        return LineCompletions(typed.start, tuple(map(quote_word, matches)), tuple(map(printable, matches)))

    def hint(self, text: str) -> str | None:
        """Return the missing or invalid arguments of a call, from the data already known."""
        typed = split_line(text)
        if len(typed.words) < 2 or typed.words[0] != "call":
            return None
        tool = next((tool for tool in self._lists.get("tools", (0.0, ()))[1] if tool.name == typed.words[1]), None)
        if tool is None:
            return None
        schema = tool.input_schema
        words = [each for each in typed.words[2:] if "=" in each]
        try:
            # This runs at each key, so it reads no file.
            read_arguments([each for each in words if "=@" not in each], schema)
        except ConfigError as error:
            return str(error)
        # `a.b=1` also gives a value to the required argument `a`.
        keys = {each.partition("=")[0].rstrip(":").partition(".")[0] for each in (*words, typed.current)}
        missing = [name for name in required(schema, schema) if name not in keys]
        known = properties(schema, schema)
        return " ".join(f"{name}={word(known.get(name, {}), schema)}" for name in missing) or None

    # Private

    async def _candidates(self, typed: TypedLine) -> Sequence[str]:
        if not typed.words:
            return self._commands
        command, *words = typed.words
        match command:
            case "help":
                return self._commands
            case "list":
                return KINDS
            case "log":
                return LEVELS
            case "call":
                return await self._complete_call(words, typed.current)
            case "prompt":
                return await self._complete_prompt(words, typed.current)
            case "read" | "watch":
                lists = LISTS if command == "watch" else ()
                uris = [each.uri for each in await self._cached_list("resources")]
                return [*lists, *uris, *await self._template_uris(typed.current)]
            case "complete":
                return await self._complete_reference(words)
        return ()

    async def _complete_call(self, words: list[str], current: str) -> Sequence[str]:
        tools: Sequence[Tool] = await self._cached_list("tools")
        if not words:
            return [tool.name for tool in tools]
        tool = next((tool for tool in tools if tool.name == words[0]), None)
        if tool is None:
            return ()
        schema = tool.input_schema
        key, equals, _ = current.partition("=")
        prefix, member = _descend(key, schema)
        known = properties(member, schema)
        if equals:
            values = choices(known.get(key.removeprefix(prefix), {}), schema) or ()
            return [f"{key}={value}" for value in words_of(list(values))]
        keys = {each.partition("=")[0] for each in words[1:]}
        return [f"{prefix}{name}=" for name in known if f"{prefix}{name}" not in keys]

    async def _complete_prompt(self, words: list[str], current: str) -> Sequence[str]:
        prompts: Sequence[Prompt] = await self._cached_list("prompts")
        if not words:
            return [prompt.name for prompt in prompts]
        prompt = next((prompt for prompt in prompts if prompt.name == words[0]), None)
        if prompt is None:
            return ()
        arguments = dict(_pair(each) for each in words[1:])
        key, equals, value = current.partition("=")
        if not equals:
            return [f"{argument.name}=" for argument in prompt.arguments if argument.name not in arguments]
        return [
            f"{key}={each}" for each in await self._request_completions("prompt", prompt.name, key, value, arguments)
        ]

    async def _complete_reference(self, words: list[str]) -> Sequence[str]:
        if not words:
            return ("prompt", "resource")
        if len(words) == 1:
            if words[0] == "prompt":
                return [prompt.name for prompt in await self._cached_list("prompts")]
            return [template.uri_template for template in await self._cached_list("templates")]
        if len(words) == 2 and words[0] == "resource":
            return _VARIABLE.findall(words[1])
        if len(words) == 2:
            prompts = [prompt for prompt in await self._cached_list("prompts") if prompt.name == words[1]]
            return [argument.name for prompt in prompts for argument in prompt.arguments]
        return ()

    async def _template_uris(self, current: str) -> Sequence[str]:
        """Return the URIs of templates that start with the typed text, up to their first open variable."""
        uris: list[str] = []
        for template in await self._cached_list("templates"):
            match = _match_template(template.uri_template, current)
            if match is None:
                continue
            prefix, variable, value, variables = match
            if variable is None:
                uris.append(prefix)
            else:
                values = await self._request_completions("resource", template.uri_template, variable, value, variables)
                uris.extend(f"{prefix}{each}" for each in values)
        return uris

    async def _request_completions(
        self, of: Literal["prompt", "resource"], name: str, argument: str, value: str, context: Mapping[str, str]
    ) -> Sequence[str]:
        if self._cmd.client.capabilities.completions is None:
            return ()
        # The server can narrow its suggestions by the arguments that already have values (since 2025-06-18).
        return (await self._cmd.client.complete(of, name, argument, value, context=context)).values

    async def _cached_list(self, kind: str) -> Sequence[Any]:
        fetched_at, items = self._lists.get(kind, (0.0, ()))
        if kind not in self._lists or trio.current_time() - fetched_at > _LIST_CACHE_SECONDS:
            items = await fetch(self._cmd, kind)
            self._lists[kind] = (trio.current_time(), items)
        return items


def _descend(key: str, schema: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the part of a dotted key that leads to a known object, and the schema of that object."""
    member: Any = schema
    prefix = ""
    *steps, _ = key.split(".")
    for step in steps:
        known = properties(member, schema)
        if step not in known:
            break
        member, prefix = known[step], f"{prefix}{step}."
    return prefix, member


def _pair(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    return key, value


def _match_template(template: str, current: str) -> tuple[str, str | None, str, dict[str, str]] | None:
    """Match a text with the beginning of a URI template; ``None`` if it does not match.

    Returns:
        The part that is complete, the open variable (``None`` if a literal is open), its value, and the variables
        before it with their values.
    """
    parts = _VARIABLE.split(template)
    prefix = ""
    variables: dict[str, str] = {}
    for index in range(0, len(parts), 2):
        literal = parts[index]
        rest = current[len(prefix) :]
        # The text ends inside this literal, or no variable follows.
        if len(rest) < len(literal) or index + 1 == len(parts):
            return (prefix + literal, None, "", variables) if literal.startswith(rest) and literal else None
        if not rest.startswith(literal):
            return None
        prefix += literal
        rest = rest[len(literal) :]
        delimiter = parts[index + 2][:1]
        # A variable ends where the next literal begins. Without a literal between two variables, the first takes the
        # whole rest.
        end = rest.find(delimiter) if delimiter else -1
        if end < 0:
            return prefix, parts[index + 1], rest, variables
        variables[parts[index + 1]] = rest[:end]
        prefix += rest[:end]
    return None
