"""What a client knows of a server's tools from its lists: which headers repeat arguments, and what results must be.

Fed by the client with each page of ``tools/list``, asked before and after each call.
The one rule: a tool that breaks a rule is left out alone, and a schema that cannot be checked makes nothing fail.

Source: MCP 2026-07-28, server/tools, "Output Schema"; basic/transports/streamable-http, "Custom Headers from Tool
Parameters"; basic/index, "JSON Schema Usage".
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType

from mcptrio.errors import InvalidParams, RemoteProtocolError
from mcptrio.protocol.model.fields import ABSENT, evolve
from mcptrio.protocol.model.tools import CallToolResult, ListToolsResult, Tool
from mcptrio.schema.validation import Validator, check_header_annotations

__all__ = ["KnownTools"]

_log = logging.getLogger("mcptrio.client.known_tools")

_NOTHING: Mapping[str, tuple[str, ...]] = MappingProxyType({})
_MOST = 10_000
"""Tools that are remembered; results of later ones are not checked."""


class KnownTools:
    def __init__(self) -> None:
        self._tools: dict[str, Tool] = {}
        self._mirrored: dict[str, Mapping[str, tuple[str, ...]]] = {}
        self._validators: dict[str, Validator | None] = {}
        self.forgotten = 0
        """How often the list has changed."""

    def learn(self, page: ListToolsResult, *, mirrors: bool) -> ListToolsResult:
        """Remember a page.

        Args:
            mirrors: whether arguments are repeated in headers.

        Returns:
            The page without the tools whose ``x-mcp-header`` annotations break a rule.
        """
        kept = tuple(tool for tool in page.tools if self._learn(tool, mirrors=mirrors))
        return page if len(kept) == len(page.tools) else evolve(page, tools=kept)

    def get(self, name: str) -> Tool | None:
        """A tool, if it has been listed."""
        return self._tools.get(name)

    def mirrored(self, name: str) -> Mapping[str, tuple[str, ...]]:
        """Header name, without ``mcp-param-``, to the path of the argument it repeats."""
        return self._mirrored.get(name, _NOTHING)

    def check(self, name: str, result: CallToolResult) -> None:
        """Compare a result with the tool's output schema, where one is known.

        Raises:
            RemoteProtocolError: structured content is missing or does not fit.
        """
        tool = self._tools.get(name)
        if tool is None or tool.output_schema is None or result.is_error:
            return
        if result.structured_content is ABSENT:
            raise RemoteProtocolError(f"tool {name!r}: expected structured content, since it has an output schema")
        validator = self._validator(tool)
        if validator is not None:
            try:
                validator.validate(result.structured_content)
            except InvalidParams as error:
                raise RemoteProtocolError(f"tool {name!r}: structured content: {error.message}") from error

    def forget(self) -> None:
        """The list has changed."""
        self.forgotten += 1
        self._tools.clear()
        self._mirrored.clear()
        self._validators.clear()

    # Private

    def _learn(self, tool: Tool, *, mirrors: bool) -> bool:
        self._mirrored.pop(tool.name, None)
        if mirrors:
            try:
                mirrored = check_header_annotations(tool.input_schema)
            except ValueError as error:
                _log.warning("tool %r is left out: %s", tool.name, error)
                self._tools.pop(tool.name, None)
                return False
            if mirrored:
                self._mirrored[tool.name] = mirrored
        if tool.name in self._tools or len(self._tools) < _MOST:
            if self._tools.get(tool.name) != tool:
                self._validators.pop(tool.name, None)
            self._tools[tool.name] = tool
        return True

    def _validator(self, tool: Tool) -> Validator | None:
        """``None`` for a schema that refers outside, is too costly, or is no schema: results pass as they are."""
        if tool.name not in self._validators:
            try:
                self._validators[tool.name] = Validator(tool.output_schema or {})
            except ValueError as error:
                _log.warning("tool %r: results are not checked: %s", tool.name, error)
                self._validators[tool.name] = None
        return self._validators[tool.name]
