"""A snapshot of a server's tools: the arguments that are repeated in headers, and the output schemas.

ToolRequests adds each page of ``tools/list``, and reads the snapshot before and after each call. A changed list gets a
new snapshot. A page that was requested before the change is still added to the old one.

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
from mcptrio.ground.quoting import quote_name
from mcptrio.protocol.model.fields import ABSENT, evolve
from mcptrio.protocol.model.tools import CallToolResult, ListToolsResult, Tool
from mcptrio.schema.validation import Validator, check_header_annotations

__all__ = ["KnownTools"]

_log = logging.getLogger("mcptrio.client.known_tools")

_NO_HEADERS: Mapping[str, tuple[str, ...]] = MappingProxyType({})
MAX_TOOLS = 10_000
"""Tools in a snapshot. Results of further tools are not checked."""


@define(eq=False)
class _KnownTool:
    tool: Tool
    param_headers: Mapping[str, tuple[str, ...]]

    @cached_property
    def validator(self) -> Validator | None:
        """The compiled output schema; ``None`` if it is invalid, too costly or has external references."""
        try:
            return Validator(self.tool.output_schema or {})
        except ValueError as error:
            # The call has succeeded, and an unusable schema must not lose its result.
            _log.warning("tool %r: results are not checked: %s", self.tool.name, error)
            return None


class KnownTools:
    """The tools of one listing."""

    def __init__(self) -> None:
        self._tools: dict[str, _KnownTool] = {}
        self.listed_at = -inf
        """Trio clock time at which a complete listing began; minus infinity before the first one."""

    def add_page(self, page: ListToolsResult, *, sends_param_headers: bool) -> ListToolsResult:
        """Add a page to the snapshot.

        Args:
            sends_param_headers: True if the link repeats arguments in headers.

        Returns:
            The page without the tools whose ``x-mcp-header`` annotations are invalid.
        """
        valid = tuple(tool for tool in page.tools if self._add_tool(tool, sends_param_headers=sends_param_headers))
        return page if len(valid) == len(page.tools) else evolve(page, tools=valid)

    def __contains__(self, name: str) -> bool:
        return name in self._tools

    def param_headers(self, name: str) -> Mapping[str, tuple[str, ...]]:
        """Return the headers of a tool. Each name, without ``mcp-param-``, maps to the path of its argument."""
        known = self._tools.get(name)
        return known.param_headers if known is not None else _NO_HEADERS

    def task_support(self, name: str) -> str | None:
        """Return the ``taskSupport`` of a tool: whether a call may or must ask for a task; ``None`` if it must not."""
        known = self._tools.get(name)
        execution = known.tool.execution if known is not None else None
        return execution.task_support if execution is not None else None

    def check(self, name: str, result: CallToolResult) -> None:
        """Validate a result against the tool's output schema, if one is known.

        Raises:
            RemoteProtocolError: Structured content is missing or does not match the schema.
        """
        known = self._tools.get(name)
        if known is None or known.tool.output_schema is None or result.is_error:
            return
        if result.structured_content is ABSENT:
            raise RemoteProtocolError(
                f"tool {quote_name(name)}: expected structured content, since it has an output schema, got none"
            )
        if known.validator is not None:
            try:
                known.validator.validate(result.structured_content)
            except InvalidParams as error:
                raise RemoteProtocolError(f"tool {quote_name(name)}: structured content: {error.message}") from error

    # Private

    def _add_tool(self, tool: Tool, *, sends_param_headers: bool) -> bool:
        previous = self._tools.pop(tool.name, None)
        param_headers = _NO_HEADERS
        if sends_param_headers:
            try:
                param_headers = check_header_annotations(tool.input_schema)
            except ValueError as error:
                # streamable-http: clients must exclude such a tool from the list, and keep the others.
                _log.warning("tool ignored, invalid header annotation: tool=%r error=%s", tool.name, error)
                return False
        if len(self._tools) < MAX_TOOLS:
            # An unchanged tool keeps its compiled schema.
            is_same = previous is not None and (previous.tool, previous.param_headers) == (tool, param_headers)
            self._tools[tool.name] = previous if previous is not None and is_same else _KnownTool(tool, param_headers)
        return True
