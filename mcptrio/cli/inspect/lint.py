"""What is odd about what a server lists: rules broken, things left unsaid, texts that look like a trap.

Used by ``inspect``. The one rule: it only looks: at lists, names and schemas; nothing is called, read or fetched.

Source: MCP 2026-07-28, server/tools ("Tool Names", "Output Schema", "x-mcp-header"), basic/index ("JSON Schema Usage"),
server/resources, server/prompts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from attrs import frozen

from mcptrio.cli.client.schema_words import properties
from mcptrio.cli.inspect.prompt_injection import suspicions
from mcptrio.ground.quoting import quote, quote_name
from mcptrio.protocol.model.prompts import Prompt
from mcptrio.protocol.model.resources import Resource, ResourceTemplate
from mcptrio.protocol.model.tools import Tool
from mcptrio.schema.uri_templates import URITemplate
from mcptrio.schema.validation import Validator, check_header_annotations

__all__ = ["SEVERITIES", "Oddity", "Severity", "odd_prompts", "odd_resources", "odd_templates", "odd_text", "odd_tools"]

Severity: TypeAlias = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""A rule that is broken; what may do harm; what could be better."""

LONGEST_NAME = 128
LONGEST_DESCRIPTION = 2_000
"""Characters; some models take 1,024, and all of it is part of each conversation."""
LARGEST_SCHEMA = 10_000
"""Characters as JSON."""
_TEXTS = 500
"""Texts of one schema that are looked at."""
_NAME = re.compile(r"[A-Za-z0-9_.-]+\Z")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


@frozen(kw_only=True)
class Oddity:
    severity: Severity
    where: str
    what: str


def odd_tools(tools: Sequence[Tool], *, mirrors: bool) -> Iterator[Oddity]:
    """
    Args:
        mirrors: whether arguments are repeated in headers in this revision, so that ``x-mcp-header`` counts.
    """
    yield from _twice("tool", (tool.name for tool in tools))
    for tool in tools:
        where = f"tool {quote_name(tool.name)}"
        yield from _odd_name(where, tool.name)
        yield from _odd_description(where, tool.description)
        yield from _odd_input(where, tool, mirrors=mirrors)
        if tool.output_schema is not None:
            yield from _odd_schema(where, "outputSchema", tool.output_schema)
        hints = tool.annotations
        if hints is not None and hints.read_only_hint and hints.destructive_hint:
            yield Oddity(severity="warning", where=where, what="says that it only reads, and that it destroys")
        if hints is not None and hints.read_only_hint and hints.idempotent_hint is False:
            yield Oddity(severity="note", where=where, what="says that it only reads, and that doing so twice differs")
        titles = [tool.name, tool.title, hints.title if hints is not None else None, tool.description]
        yield from odd_text(where, *titles, *_texts(tool.input_schema), *_texts(tool.output_schema or {}))


def odd_prompts(prompts: Sequence[Prompt]) -> Iterator[Oddity]:
    yield from _twice("prompt", (prompt.name for prompt in prompts))
    for prompt in prompts:
        where = f"prompt {quote_name(prompt.name)}"
        yield from _odd_description(where, prompt.description)
        yield from _twice(f"{where}: argument", (argument.name for argument in prompt.arguments))
        silent = [quote_name(argument.name) for argument in prompt.arguments if not argument.description]
        if silent:
            yield Oddity(severity="note", where=where, what=f"no description of {', '.join(silent)}")
        yield from odd_text(where, prompt.name, prompt.title, prompt.description)
        for argument in prompt.arguments:
            yield from odd_text(where, argument.name, argument.title, argument.description)


def odd_resources(resources: Sequence[Resource]) -> Iterator[Oddity]:
    yield from _twice("resource", (resource.uri for resource in resources))
    for resource in resources:
        where = f"resource {quote_name(resource.uri)}"
        if not _SCHEME.match(resource.uri):
            yield Oddity(severity="error", where=where, what="expected a URI with a scheme, got one without")
        if not resource.mime_type:
            yield Oddity(severity="note", where=where, what="no MIME type")
        yield from odd_text(where, resource.uri, resource.name, resource.title, resource.description)


def odd_templates(templates: Sequence[ResourceTemplate]) -> Iterator[Oddity]:
    yield from _twice("template", (template.uri_template for template in templates))
    for template in templates:
        where = f"template {quote_name(template.uri_template)}"
        try:
            URITemplate(template.uri_template)
        except ValueError as error:
            yield Oddity(severity="error", where=where, what=f"is no URI template (RFC 6570): {error}")
        if not template.description:
            yield Oddity(severity="note", where=where, what="no description")
        yield from odd_text(where, template.uri_template, template.name, template.title, template.description)


def odd_text(where: str, *texts: str | None) -> Iterator[Oddity]:
    """What looks like a trap, each once."""
    found = dict.fromkeys(what for text in texts if text for what in suspicions(text))
    for what in found:
        yield Oddity(severity="warning", where=where, what=what)


def _odd_name(where: str, name: str) -> Iterator[Oddity]:
    if not name:
        yield Oddity(severity="error", where=where, what="the name is empty")
    elif not _NAME.match(name):
        yield Oddity(severity="warning", where=where, what="a name should have letters, digits, _, - and . alone")
    if len(name) > LONGEST_NAME:
        what = f"a name should have at most {LONGEST_NAME} characters, got {len(name)}"
        yield Oddity(severity="warning", where=where, what=what)


def _odd_description(where: str, description: str | None) -> Iterator[Oddity]:
    if not (description or "").strip():
        yield Oddity(severity="warning", where=where, what="no description: a model has nothing but the name to go by")
    elif description and len(description) > LONGEST_DESCRIPTION:
        what = f"the description has {len(description)} characters, which are part of each conversation"
        yield Oddity(severity="warning", where=where, what=what)


def _odd_input(where: str, tool: Tool, *, mirrors: bool) -> Iterator[Oddity]:
    schema = tool.input_schema
    if schema.get("type") != "object":
        got = quote(str(schema["type"])) if "type" in schema else "none"
        yield Oddity(severity="error", where=where, what=f'inputSchema: expected the type "object", got {got}')
    yield from _odd_schema(where, "inputSchema", schema)
    try:
        check_header_annotations(schema)
    except ValueError as error:
        left_out = "; clients leave it out over HTTP" if mirrors else ""
        yield Oddity(severity="error" if mirrors else "warning", where=where, what=f"{error}{left_out}")
    known = properties(schema, schema)
    silent = [
        quote_name(name)
        for name, member in known.items()
        if not (isinstance(member, Mapping) and (member.get("description") or member.get("title")))
    ]
    if silent:
        shown = ", ".join(silent[:8]) + (", …" if len(silent) > 8 else "")
        yield Oddity(severity="note", where=where, what=f"no description of {shown}")
    needed = schema.get("required")
    for name in needed if isinstance(needed, list) else ():
        if isinstance(name, str) and name not in known:
            what = f"inputSchema: {quote_name(name)} is required, but not described"
            yield Oddity(severity="warning", where=where, what=what)


def _odd_schema(where: str, what: str, schema: Mapping[str, Any]) -> Iterator[Oddity]:
    try:
        Validator(dict(schema))
    except ValueError as error:
        yield Oddity(severity="error", where=where, what=f"{what}: {str(error).removeprefix('schema: ')}")
    size = len(str(schema))
    if size > LARGEST_SCHEMA:
        yield Oddity(severity="warning", where=where, what=f"{what}: about {size} characters")


def _twice(what: str, names: Iterable[str]) -> Iterator[Oddity]:
    for name, count in Counter(names).items():
        if count > 1:
            yield Oddity(severity="error", where=f"{what} {quote_name(name)}", what=f"is there {count} times")


def _texts(schema: Any) -> Iterator[str]:
    """The texts of a schema, names of members included."""
    queue: list[Any] = [schema]
    seen = 0
    while queue and seen < _TEXTS:
        each = queue.pop(0)
        if isinstance(each, str):
            seen += 1
            yield each
        elif isinstance(each, Mapping):
            queue.extend(each)
            queue.extend(each.values())
        elif isinstance(each, list):
            queue.extend(each)
