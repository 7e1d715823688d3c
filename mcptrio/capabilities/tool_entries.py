"""The entry of a tool: what clients see, and how its function is called.

Tools make and keep the entries. Their access, their results and their calls are in :mod:`mcptrio.capabilities.tools`.

Source: MCP 2026-07-28, server/tools, "Tool" and "Tool Names".
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from inspect import getdoc
from typing import Any

from attrs import Factory, define, field

from mcptrio.capabilities.authorization import Component
from mcptrio.capabilities.contents import BLOCKS, Blob
from mcptrio.capabilities.decorators import Header, ToolMark
from mcptrio.capabilities.functions import Function
from mcptrio.capabilities.owner import Owner
from mcptrio.protocol.model.fields import evolve
from mcptrio.protocol.model.resource_contents import BlobResourceContents, TextResourceContents
from mcptrio.protocol.model.tools import (
    CallToolResult,
    Tool,
    ToolAnnotations,
    ToolExecution,
)
from mcptrio.runtime.fair_limiter import FairLimiter
from mcptrio.schema.docstrings import parse_docstring
from mcptrio.schema.signatures import OutputSchema
from mcptrio.schema.validation import Validator, check_header_annotations

__all__ = ["ToolEntry", "make_entry"]

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_CONTENT = (*BLOCKS, Blob, CallToolResult, TextResourceContents, BlobResourceContents)
_UNSTRUCTURED = OutputSchema.of(None)


@define(eq=False, slots=True)
class ToolEntry:
    """A registered tool."""

    key: str
    owner: Owner
    tool: Tool
    function: Function
    mark: ToolMark
    output: OutputSchema
    input_validator: Validator | None
    output_validator: Validator | None
    param_headers: Mapping[str, tuple[str, ...]]
    limiter: FairLimiter | None
    """Limits the calls of the tool that run at the same time; ``None`` without a limit."""
    dict_parameter: str | None
    """The parameter that takes all arguments as a dict, for a schema that the author has written."""
    max_text: int
    """Characters of text in one result."""
    authorized_as: str = field(default=Factory(lambda self: self.key, takes_self=True))
    """The name for authorizers. A fallback tool has the name of its original tool."""
    fallback: tuple[ToolEntry, ...] = ()
    """The tools that clients without support for tasks see instead."""

    @property
    def scopes(self) -> frozenset[str]:
        return self.mark.scopes

    @property
    def component(self) -> Component:
        """The entry as authorizers see it."""
        meta = self.tool.meta or {}
        return Component(kind="tool", name=self.authorized_as, plugin=self.owner.plugin, meta=meta, scopes=self.scopes)


def make_entry(function: Callable[..., Any], mark: ToolMark, owner: Owner, max_text: int) -> ToolEntry:
    """Return the entry of a function.

    Args:
        max_text: Characters of text in one result.

    Raises:
        TypeError, ValueError: The mark, the signature or a schema is wrong.
    """
    name = mark.name or str(getattr(function, "__name__", ""))
    if not _NAME.fullmatch(name):
        raise ValueError(f"expected a tool name of 1 to 128 characters A-Za-z0-9_.-, got {name!r}")
    if mark.concurrency is not None and mark.concurrency < 1:
        raise ValueError(f"tool {name}: expected a concurrency of at least 1, got {mark.concurrency}")
    if mark.task == "never" and (mark.ttl is not None or mark.resumable):
        raise ValueError(f'tool {name}: expected task="optional" or "required" with ttl or resumable, got "never"')
    if mark.fallback_tools and mark.task != "required":
        raise ValueError(f'tool {name}: expected task="required" with fallback_tools, got {mark.task!r}')
    if mark.listed is not None:
        return _relayed_entry(function, mark, evolve(mark.listed, name=name, execution=_execution(mark)), owner)
    called = Function(function, raw=mark.input_schema is not None)
    if mark.input_schema is not None:
        input_schema = dict(mark.input_schema)
        if input_schema.get("type") != "object":
            raise ValueError(f"tool {name}: expected an input schema of type object, got {input_schema.get('type')!r}")
        input_validator = Validator(input_schema)
        dict_parameter = _dict_parameter(called, input_schema)
    else:
        assert called.arguments is not None
        input_schema, input_validator, dict_parameter = called.arguments.schema, None, None
        _add_header_annotations(called.arguments.hints, input_schema)
    output = OutputSchema.of_function(function, content=_CONTENT) if mark.output_schema is None else _UNSTRUCTURED
    output_schema = dict(mark.output_schema) if mark.output_schema is not None else output.schema
    if mark.text is not None and output_schema is None:
        raise ValueError(f"tool {name}: expected a return annotation or an output schema with text=, got neither")
    tool = Tool(
        name=name,
        title=mark.title,
        description=mark.description or parse_docstring(getdoc(function)).description or None,
        input_schema=input_schema,
        output_schema=output_schema,
        annotations=_annotations(mark),
        icons=mark.icons,
        execution=_execution(mark),
        meta=dict(mark.meta) if mark.meta is not None else None,
    )
    return ToolEntry(
        key=name,
        owner=owner,
        tool=tool,
        function=called,
        mark=mark,
        output=output,
        input_validator=input_validator,
        output_validator=Validator(output_schema) if mark.output_schema is not None and output_schema else None,
        param_headers=check_header_annotations(input_schema),
        limiter=FairLimiter(mark.concurrency) if mark.concurrency is not None else None,
        dict_parameter=dict_parameter,
        max_text=max_text,
    )


def _relayed_entry(function: Callable[..., Any], mark: ToolMark, tool: Tool, owner: Owner) -> ToolEntry:
    """Return the entry for a tool of another server. That server checks arguments and results."""
    return ToolEntry(
        key=tool.name,
        owner=owner,
        tool=tool,
        function=Function(function, raw=True),
        mark=mark,
        output=_UNSTRUCTURED,
        input_validator=None,
        output_validator=None,
        param_headers=check_header_annotations(tool.input_schema),
        limiter=FairLimiter(mark.concurrency) if mark.concurrency is not None else None,
        dict_parameter="arguments",
        # The result of another server is not cut.
        max_text=sys.maxsize,
    )


def _annotations(mark: ToolMark) -> ToolAnnotations | None:
    hints = (mark.read_only, mark.destructive, mark.idempotent, mark.open_world)
    if all(hint is None for hint in hints):
        return None
    return ToolAnnotations(
        title=mark.title,
        read_only_hint=mark.read_only,
        destructive_hint=mark.destructive,
        idempotent_hint=mark.idempotent,
        open_world_hint=mark.open_world,
    )


def _execution(mark: ToolMark) -> ToolExecution | None:
    return None if mark.task == "never" else ToolExecution(task_support=mark.task)


def _dict_parameter(function: Function, schema: Mapping[str, Any]) -> str | None:
    free = [name for name in function.parameters if name != function.context]
    if len(free) == 1 and free[0] not in schema.get("properties", {}):
        return free[0]
    return None


def _add_header_annotations(hints: Mapping[str, Any], schema: dict[str, Any]) -> None:
    for name, hint in hints.items():
        for item in getattr(hint, "__metadata__", ()):
            if isinstance(item, Header):
                schema["properties"][name]["x-mcp-header"] = item.name
