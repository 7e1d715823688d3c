"""Calls the tools of a plugin with their examples, for ``mcptrio plugins doctor``.

The author writes the examples, and only read-only tools have some. The answers are measured before the server cuts
them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import orjson
import trio
from attrs import define, field

from mcptrio.capabilities.tool_entries import ToolEntry
from mcptrio.cli.server.plugin_server import PluginSelection, make_server
from mcptrio.connecting.connect import connect
from mcptrio.protocol.model.content import TextContent
from mcptrio.protocol.model.tools import CallToolResult
from mcptrio.serve.config import ServeConfig

__all__ = ["ExampleCalls", "call_examples"]

_TIMEOUT = 15.0
"""Seconds for all calls, below the default of ``--timeout``."""
_MAX_CALLS = 30
_MAX_REASON = 200
"""Characters of the reason why an example failed."""


@define(eq=False)
class ExampleCalls:
    """The calls that were made.

    Attributes:
        called: The tools that were called, by plugin.
        warnings: A sentence for each example that failed, or whose answer is too long for a model, by plugin.
    """

    called: dict[str, list[str]] = field(factory=dict)
    warnings: dict[str, list[str]] = field(factory=dict)

    def warn(self, plugin: str, sentence: str) -> None:
        self.warnings.setdefault(plugin, []).append(sentence)


async def call_examples(config: ServeConfig, selection: PluginSelection) -> ExampleCalls:
    """Call each tool once with each of its examples."""
    max_chars = config.server.limits.result_text
    server = make_server(config, selection, {"no_isolation": True})
    calls: list[tuple[str, str, dict[str, Any]]] = []
    for each in server.catalog.tools.registry:
        each.max_text = sys.maxsize
        calls += ((each.owner.name, each.key, arguments) for arguments in _examples(each))
    example_calls = ExampleCalls()
    # Without examples, no lifespan is run: it may wait for a network.
    if calls:
        with trio.move_on_after(_TIMEOUT) as scope:
            async with connect(server) as client:
                for plugin, tool, arguments in calls[:_MAX_CALLS]:
                    result = await client.call_tool(tool, arguments)
                    example_calls.called.setdefault(plugin, []).append(tool)
                    for sentence in _findings(tool, result, max_chars):
                        example_calls.warn(plugin, sentence)
        if scope.cancelled_caught:
            example_calls.warn(calls[0][0], f"the examples of its tools took more than {_TIMEOUT:g} s")
    return example_calls


def _examples(entry: ToolEntry) -> list[dict[str, Any]]:
    examples = entry.mark.examples
    plugin = getattr(entry.function.function, "__self__", None)
    return [dict(arguments) for arguments in (examples(plugin) if callable(examples) else examples)]


def _findings(name: str, result: CallToolResult, max_chars: int) -> Iterator[str]:
    size = sum(len(each.text) for each in result.content if isinstance(each, TextContent))
    if result.is_error:
        text = next((each.text for each in result.content if isinstance(each, TextContent)), "")
        yield f"tool {name}: its example fails: {text[:_MAX_REASON]}"
        return
    if size > max_chars:
        yield f"tool {name}: the answer to its example has {size} characters, more than {max_chars}: return it in pages"
    structured = len(orjson.dumps(result.structured_content)) if result.structured_content is not None else 0
    if structured > max_chars:
        yield f"tool {name}: the structured content of its example has {structured} bytes, more than {max_chars}"
