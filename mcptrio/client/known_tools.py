"""One snapshot of a server's tools: which headers repeat their arguments, and which schemas their results fit.

Filled by the client with each page of ``tools/list``, asked before and after each call. When the list changes, the
client begins another snapshot; a page that was asked for before is still read into the old one.
The one rule: a tool that breaks a rule is left out alone, and a schema that cannot be checked makes nothing fail.

Source: MCP 2026-07-28, server/tools, "Output Schema"; basic/transports/streamable-http, "Custom Headers from Tool
Parameters"; basic/index, "JSON Schema Usage".
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cached_property
from math import inf
from types import MappingProxyType

from attrs import define

from mcptrio.errors import InvalidParams, RemoteProtocolError
from mcptrio.protocol.model.fields import ABSENT, evolve
from mcptrio.protocol.model.tools import CallToolResult, ListToolsResult, Tool
from mcptrio.schema.validation import Validator, check_header_annotations

__all__ = ["KnownTools"]

_log = logging.getLogger("mcptrio.client.known_tools")

_NO_HEADERS: Mapping[str, tuple[str, ...]] = MappingProxyType({})
MAX_TOOLS = 10_000
"""Tools that are remembered; results of later ones are not checked."""


@define(eq=False)
class _KnownTool:
    tool: Tool
    mirrored: Mapping[str, tuple[str, ...]]

    @cached_property
    def validator(self) -> Validator | None:
        """``None`` for a schema that refers outside, is too costly, or is invalid: results pass as they are."""
        try:
            return Validator(self.tool.output_schema or {})
        except ValueError as error:
            _log.warning("tool %r: results are not checked: %s", self.tool.name, error)
            return None


class KnownTools:
    def __init__(self) -> None:
        self._tools: dict[str, _KnownTool] = {}
        self.listed_at = -inf
        """When the client began to list all tools; minus infinity if it has not listed all of them."""

    def learn(self, page: ListToolsResult, *, mirrors: bool) -> ListToolsResult:
        """Remember a page.

        Args:
            mirrors: whether arguments are repeated in headers.

        Returns:
            The page without the tools whose ``x-mcp-header`` annotations break a rule.
        """
        kept = tuple(tool for tool in page.tools if self._learn(tool, mirrors=mirrors))
        return page if len(kept) == len(page.tools) else evolve(page, tools=kept)

    def __contains__(self, name: str) -> bool:
        return name in self._tools

    def mirrored(self, name: str) -> Mapping[str, tuple[str, ...]]:
        """Header name, without ``mcp-param-``, to the path of the argument it repeats."""
        known = self._tools.get(name)
        return known.mirrored if known is not None else _NO_HEADERS

    def check(self, name: str, result: CallToolResult) -> None:
        """Compare a result with the tool's output schema, where one is known.

        Raises:
            RemoteProtocolError: structured content is missing or does not fit.
        """
        known = self._tools.get(name)
        if known is None or known.tool.output_schema is None or result.is_error:
            return
        if result.structured_content is ABSENT:
            raise RemoteProtocolError(f"tool {name!r}: expected structured content, since it has an output schema")
        if known.validator is not None:
            try:
                known.validator.validate(result.structured_content)
            except InvalidParams as error:
                raise RemoteProtocolError(f"tool {name!r}: structured content: {error.message}") from error

    # Private

    def _learn(self, tool: Tool, *, mirrors: bool) -> bool:
        before = self._tools.pop(tool.name, None)
        mirrored = _NO_HEADERS
        if mirrors:
            try:
                mirrored = check_header_annotations(tool.input_schema)
            except ValueError as error:
                _log.warning("tool %r is left out: %s", tool.name, error)
                return False
        if len(self._tools) < MAX_TOOLS:
            is_same = before is not None and (before.tool, before.mirrored) == (tool, mirrored)
            self._tools[tool.name] = before if before is not None and is_same else _KnownTool(tool, mirrored)
        return True
