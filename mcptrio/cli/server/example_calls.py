"""Calls the tools of a plugin with their examples, for ``mcptrio plugins doctor``.

Only read-only tools are called, and only those that have an example of each required argument, so the author decides
which calls are made. The answers are measured before the server cuts them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import orjson
import trio

from mcptrio.cli.server.plugin_server import WantedPlugins, make_server
from mcptrio.connecting.connect import connect
from mcptrio.protocol.model.content import TextContent
from mcptrio.protocol.model.tools import CallToolResult, Tool
from mcptrio.serve.config import ServeConfig

__all__ = ["example_warnings"]

_TIMEOUT = 15.0
"""Seconds for all calls, below the default of ``--timeout``."""
_MAX_CALLS = 20
_MAX_REASON = 200
"""Characters of the reason why an example failed."""


async def example_warnings(read: ServeConfig, wanted: WantedPlugins) -> dict[str, list[str]]:
    """Return, by plugin, a sentence for each example that fails, or whose answer is too long for a model."""
    most = read.server.limits.result_text
    server = make_server(read, wanted, {"no_isolation": True})
    calls: list[tuple[str, str, dict[str, Any]]] = []
    for each in server.catalog.tools.registry:
        each.max_text = sys.maxsize
        is_read_only = each.tool.annotations is not None and each.tool.annotations.read_only_hint
        if is_read_only and (arguments := _example_arguments(each.tool)) is not None:
            calls.append((each.owner.name, each.key, arguments))
    warnings: dict[str, list[str]] = {}
    # Without examples, no lifespan is run: it may wait for a network.
    if calls:
        with trio.move_on_after(_TIMEOUT) as scope:
            async with connect(server) as client:
                for plugin, tool, arguments in calls[:_MAX_CALLS]:
                    result = await client.call_tool(tool, arguments)
                    warnings.setdefault(plugin, []).extend(_findings(tool, result, most))
        if scope.cancelled_caught:
            warnings.setdefault(calls[0][0], []).append(f"the examples of its tools took more than {_TIMEOUT:g} s")
    return warnings


def _example_arguments(tool: Tool) -> dict[str, Any] | None:
    """Return the first example of each argument; ``None`` if a required one has none, or there are none at all."""
    properties = tool.input_schema.get("properties")
    if not isinstance(properties, dict):
        return None
    found: dict[str, Any] = {}
    for name, schema in properties.items():
        examples = schema.get("examples") if isinstance(schema, dict) else None
        if isinstance(examples, list) and examples:
            found[name] = examples[0]
    return found if found and set(tool.input_schema.get("required", ())) <= set(found) else None


def _findings(name: str, result: CallToolResult, most: int) -> Iterator[str]:
    size = sum(len(each.text) for each in result.content if isinstance(each, TextContent))
    if result.is_error:
        text = next((each.text for each in result.content if isinstance(each, TextContent)), "")
        yield f"tool {name}: its example fails: {text[:_MAX_REASON]}"
        return
    if size > most:
        yield f"tool {name}: the answer to its example has {size} characters, more than {most}: return it in pages"
    structured = len(orjson.dumps(result.structured_content)) if result.structured_content is not None else 0
    if structured > most:
        yield f"tool {name}: the structured content of its example has {structured} bytes, more than {most}"
