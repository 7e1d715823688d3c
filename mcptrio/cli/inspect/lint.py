"""Findings about a server's lists: violated rules, missing information, and suspicious texts.

``inspect`` uses it. It only reads lists, names and schemas; it calls and fetches nothing.

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
from mcptrio.cli.inspect.prompt_injection import suspicious_parts
from mcptrio.ground.quoting import quote, quote_name
from mcptrio.protocol.model.prompts import Prompt
from mcptrio.protocol.model.resources import Resource, ResourceTemplate
from mcptrio.protocol.model.tools import Tool
from mcptrio.schema.uri_templates import URITemplate
from mcptrio.schema.validation import Validator, check_header_annotations

__all__ = [
    "SEVERITIES",
    "LintFinding",
    "Severity",
    "lint_prompts",
    "lint_resources",
    "lint_templates",
    "lint_text",
    "lint_tools",
]

Severity: TypeAlias = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""A violated rule; possible harm; a possible improvement."""

# The length and the characters of a name: server/tools, "Tool Names".
MAX_NAME_CHARS = 128
MAX_DESCRIPTION_CHARS = 2_000
"""Some models accept at most 1,024 characters, and each conversation contains the whole description."""
MAX_SCHEMA_CHARS = 10_000
"""Length of the schema as JSON."""
_MAX_TEXTS = 500
"""Maximum number of texts of one schema that are examined."""
_MAX_NAMED_ARGUMENTS = 8
"""Maximum number of arguments without a description that one finding names."""
_NAME = re.compile(r"[A-Za-z0-9_.-]+\Z")
# RFC 3986 section 3.1.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


@frozen
class LintFinding:
    severity: Severity
    where: str
    what: str


def lint_tools(tools: Sequence[Tool], *, sends_param_headers: bool) -> Iterator[LintFinding]:
    """Yield the findings about a server's tools.

    Args:
        sends_param_headers: True if this revision repeats arguments in headers, so that ``x-mcp-header`` matters.
    """
    yield from _lint_duplicates("tool", (tool.name for tool in tools))
    for tool in tools:
        where = f"tool {quote_name(tool.name)}"
        yield from _lint_name(where, tool.name)
        yield from _lint_description(where, tool.description)
        yield from _lint_input(where, tool, sends_param_headers=sends_param_headers)
        if tool.output_schema is not None:
            yield from _lint_schema(where, "outputSchema", tool.output_schema)
        hints = tool.annotations
        # destructiveHint and idempotentHint have a meaning only without readOnlyHint (schema, ToolAnnotations).
        if hints is not None and hints.read_only_hint and hints.destructive_hint:
            yield LintFinding("warning", where, "is marked both as read-only and as destructive")
        if hints is not None and hints.read_only_hint and hints.idempotent_hint is False:
            yield LintFinding("note", where, "is marked as read-only and as not idempotent")
        # Every text that reaches a model, also inside schemas.
        titles = [tool.name, tool.title, hints.title if hints is not None else None, tool.description]
        yield from lint_text(
            where, *titles, *_schema_texts(tool.input_schema), *_schema_texts(tool.output_schema or {})
        )


def lint_prompts(prompts: Sequence[Prompt]) -> Iterator[LintFinding]:
    yield from _lint_duplicates("prompt", (prompt.name for prompt in prompts))
    for prompt in prompts:
        where = f"prompt {quote_name(prompt.name)}"
        yield from _lint_description(where, prompt.description)
        yield from _lint_duplicates(f"{where}: argument", (argument.name for argument in prompt.arguments))
        undescribed = [quote_name(argument.name) for argument in prompt.arguments if not argument.description]
        if undescribed:
            yield LintFinding("note", where, f"no description of {', '.join(undescribed)}")
        yield from lint_text(where, prompt.name, prompt.title, prompt.description)
        for argument in prompt.arguments:
            yield from lint_text(where, argument.name, argument.title, argument.description)


def lint_resources(resources: Sequence[Resource]) -> Iterator[LintFinding]:
    yield from _lint_duplicates("resource", (resource.uri for resource in resources))
    for resource in resources:
        where = f"resource {quote_name(resource.uri)}"
        if not _SCHEME.match(resource.uri):
            yield LintFinding("error", where, "expected a URI with a scheme, got one without")
        if not resource.mime_type:
            yield LintFinding("note", where, "no MIME type")
        yield from lint_text(where, resource.uri, resource.name, resource.title, resource.description)


def lint_templates(templates: Sequence[ResourceTemplate]) -> Iterator[LintFinding]:
    yield from _lint_duplicates("template", (template.uri_template for template in templates))
    for template in templates:
        where = f"template {quote_name(template.uri_template)}"
        try:
            URITemplate(template.uri_template)
        except ValueError as error:
            yield LintFinding("error", where, f"is not a URI template (RFC 6570): {error}")
        if not template.description:
            yield LintFinding("note", where, "no description")
        yield from lint_text(where, template.uri_template, template.name, template.title, template.description)


def lint_text(where: str, *texts: str | None) -> Iterator[LintFinding]:
    """Yield each suspicious part of some texts once."""
    for what in dict.fromkeys(what for text in texts if text for what in suspicious_parts(text)):
        yield LintFinding("warning", where, what)


def _lint_name(where: str, name: str) -> Iterator[LintFinding]:
    if not name:
        yield LintFinding("error", where, "the name is empty")
    elif not _NAME.match(name):
        yield LintFinding("warning", where, "a name should contain only letters, digits, _, - and .")
    if len(name) > MAX_NAME_CHARS:
        what = f"a name should have at most {MAX_NAME_CHARS} characters, got {len(name)}"
        yield LintFinding("warning", where, what)


def _lint_description(where: str, description: str | None) -> Iterator[LintFinding]:
    if not (description or "").strip():
        yield LintFinding("warning", where, "no description: a model sees only the name")
    elif description and len(description) > MAX_DESCRIPTION_CHARS:
        what = f"the description has {len(description)} characters, which are part of each conversation"
        yield LintFinding("warning", where, what)


def _lint_input(where: str, tool: Tool, *, sends_param_headers: bool) -> Iterator[LintFinding]:
    schema = tool.input_schema
    if schema.get("type") != "object":
        got = quote(str(schema["type"])) if "type" in schema else "none"
        yield LintFinding("error", where, f'inputSchema: expected the type "object", got {got}')
    yield from _lint_schema(where, "inputSchema", schema)
    try:
        check_header_annotations(schema)
    except ValueError as error:
        # Clients must leave such a tool out (2026-07-28, "x-mcp-header").
        consequence = "; clients leave it out over HTTP" if sends_param_headers else ""
        yield LintFinding("error" if sends_param_headers else "warning", where, f"{error}{consequence}")
    known = properties(schema, schema)
    undescribed = [
        quote_name(name)
        for name, member in known.items()
        if not (isinstance(member, Mapping) and (member.get("description") or member.get("title")))
    ]
    if undescribed:
        names = ", ".join(undescribed[:_MAX_NAMED_ARGUMENTS]) + (
            ", …" if len(undescribed) > _MAX_NAMED_ARGUMENTS else ""
        )
        yield LintFinding("note", where, f"no description of {names}")
    needed = schema.get("required")
    for name in needed if isinstance(needed, list) else ():
        if isinstance(name, str) and name not in known:
            what = f"inputSchema: {quote_name(name)} is required, but not in properties"
            yield LintFinding("warning", where, what)


def _lint_schema(where: str, what: str, schema: Mapping[str, Any]) -> Iterator[LintFinding]:
    try:
        Validator(dict(schema))
    except ValueError as error:
        yield LintFinding("error", where, f"{what}: {str(error).removeprefix('schema: ')}")
    # The repr of a schema is about as long as its JSON.
    size = len(str(schema))
    if size > MAX_SCHEMA_CHARS:
        yield LintFinding("warning", where, f"{what}: about {size} characters")


def _lint_duplicates(what: str, names: Iterable[str]) -> Iterator[LintFinding]:
    for name, count in Counter(names).items():
        if count > 1:
            yield LintFinding("error", f"{what} {quote_name(name)}", f"is listed {count} times")


def _schema_texts(schema: Any) -> Iterator[str]:
    """Yield the texts of a schema, including names of members."""
    queue: list[Any] = [schema]
    count = 0
    while queue and count < _MAX_TEXTS:
        each = queue.pop(0)
        if isinstance(each, str):
            count += 1
            # A model reads the names of properties too, so a name can contain an instruction.
            yield each
        elif isinstance(each, Mapping):
            queue.extend(each)
            queue.extend(each.values())
        elif isinstance(each, list):
            queue.extend(each)
