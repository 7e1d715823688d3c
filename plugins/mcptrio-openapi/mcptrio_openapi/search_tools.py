"""The two tools of an API with many operations: one finds operations, the other calls one.

The plugin adds them instead of a tool for each operation, whose schemas would fill a model's context.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from msgspec import Meta

from mcptrio import Context
from mcptrio.errors import InvalidParams, ToolError
from mcptrio.schema import repair_arguments
from mcptrio.types import CallToolResult

from .operation_caller import OperationCaller
from .operations import Operation
from .problems import DocumentError, shorten
from .search import FoundOperation, OperationIndex
from .type_notation import arguments_text

__all__ = ["SearchTools"]

_MAX_PAGE_CHARS = 16_000
"""Maximum length of one page of ``find_operation``, about 4,000 tokens."""
_MAX_OPERATION_CHARS = 36_000
"""Maximum length of one operation in full, about 9,000 tokens."""
_SUMMARY_CHARS = 160
_MAX_TAGS = 40
"""Maximum number of tags in the description of ``find_operation``."""
_MAX_CACHED_OPERATIONS = 64
"""Maximum number of operations whose schemas are cached; a schema has up to 256 KiB."""
_LEVELS = 2
_MAX_LEVELS = 6


class SearchTools:
    """The functions and descriptions of the two tools.

    Args:
        title: The title of the API.
        read: A function that reads an operation, and raises a DocumentError if it is invalid.
    """

    def __init__(
        self,
        title: str,
        index: OperationIndex,
        read: Callable[[FoundOperation], Operation],
        caller: Callable[[], OperationCaller],
    ) -> None:
        self._title = title
        self._index = index
        self._read = read
        self._caller = caller
        self._cache: dict[str, Operation] = {}

    @property
    def find_description(self) -> str:
        tags = self._tag_names(counted=True)
        return (
            f"Find operations of {self._title} by words, best first: their method, path and arguments, which "
            f"call_operation needs. The exact name of an operation shows it in full. The tags of its "
            f"{len(self._index)} operations: {tags}."
        )

    @property
    def call_description(self) -> str:
        return f"Call an operation of {self._title} that find_operation has shown, and return the API's answer."

    async def find(
        self,
        query: Annotated[str, Meta(max_length=1000, description="Words, or the exact name of one operation.")] = "",
        tag: Annotated[str, Meta(max_length=200, description="Only operations with this tag.")] = "",
        limit: Annotated[int, Meta(ge=1, le=50)] = 10,
        offset: Annotated[int, Meta(ge=0, le=100_000)] = 0,
    ) -> str:
        if tag and tag not in self._index.tags:
            raise ToolError(f"expected one of the tags {self._tag_names()}, got {shorten(tag, 60)!r}")
        exact = self._index.get(query.strip())
        if exact is not None:
            return self._full(exact)
        operations = self._index.find(query, tag)
        if not operations:
            return f"No operation has any of these words. The tags are {self._tag_names()}."
        pieces: list[str] = []
        room = _MAX_PAGE_CHARS
        for each in operations[offset : offset + limit]:
            piece = self._short(each)
            if pieces and len(piece) > room:
                break
            pieces.append(piece)
            room -= len(piece)
        end = offset + len(pieces)
        rest = (
            f"[{offset + 1} to {end} of {len(operations)}; continue with offset={end}]" if end < len(operations) else ""
        )
        return (
            "\n".join([*pieces, rest])
            if rest
            else "\n".join(pieces) or f"[no more operations, there are {len(operations)}]"
        )

    async def call(
        self,
        ctx: Context,
        name: Annotated[str, Meta(max_length=128, description="Name of the operation, from find_operation.")],
        arguments: Annotated[dict[str, Any], Meta(description="The operation's arguments, by name.")],
    ) -> CallToolResult:
        match = self._index.get(name)
        if match is None:
            names = [each.name for each in self._index.find(name)[:3]]
            hint = f"; find_operation lists them; similar are {', '.join(names)}" if names else ""
            raise ToolError(f"expected the name of an operation, got {shorten(name, 60)!r}{hint}")
        try:
            operation = self._operation(match)
        except DocumentError as error:
            raise ToolError(f"the document of the API is wrong at {error.pointer}: {error.text}") from error
        return await self._caller().call(ctx, operation, _repaired_arguments(operation, arguments))

    def _tag_names(self, *, counted: bool = False) -> str:
        names = [
            f"{shorten(tag, 60)} ({count})" if counted else shorten(tag, 60)
            for tag, count in self._index.tags.most_common(_MAX_TAGS)
        ]
        more = len(self._index.tags) - len(names)
        return ", ".join(names) + (f" and {more} more" if more else "")

    def _operation(self, match: FoundOperation) -> Operation:
        operation = self._cache.pop(match.name, None) or self._read(match)
        # The dict is ordered by last use; the first entry is the least recently used one.
        self._cache[match.name] = operation
        if len(self._cache) > _MAX_CACHED_OPERATIONS:
            del self._cache[next(iter(self._cache))]
        return operation

    def _short(self, match: FoundOperation) -> str:
        lines = [_heading(match)]
        if match.summary:
            lines.append(f"  {shorten(match.summary, _SUMMARY_CHARS)}")
        try:
            operation = self._operation(match)
        except DocumentError as error:
            return "\n".join([*lines, f"  cannot be called: {error.text}"])
        arguments = ""
        for levels in range(_LEVELS, -1, -1):
            arguments = ", ".join(arguments_text(operation.input_schema, levels=levels, descriptions=False))
            if len(arguments) <= _MAX_PAGE_CHARS // 10:
                break
        return "\n".join([*lines, f"  {shorten(arguments, _MAX_PAGE_CHARS // 4)}"] if arguments else lines)

    def _full(self, match: FoundOperation) -> str:
        try:
            operation = self._operation(match)
        except DocumentError as error:
            return f"{_heading(match)}\n  cannot be called: {error.text}"
        lines: list[str] = []
        for levels in range(_MAX_LEVELS, -1, -1):
            lines = arguments_text(operation.input_schema, levels=levels, descriptions=True)
            if sum(map(len, lines)) <= _MAX_OPERATION_CHARS:
                break
        text = "\n".join([_heading(match), operation.description, "", "arguments:", *(lines or ["none"])])
        return text[:_MAX_OPERATION_CHARS]


def _heading(operation: FoundOperation) -> str:
    location = operation.location
    deprecated = " (deprecated)" if location.operation.get("deprecated") is True else ""
    tags = shorten(", ".join(operation.tags), 100)
    return f"{operation.name}  {location.method} {shorten(location.path, 200)}  [{tags}]{deprecated}"


def _repaired_arguments(operation: Operation, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments, repaired in the same way as the arguments of tools.

    Raises:
        ToolError: The arguments do not match the operation's schema.
    """
    try:
        operation.input_validator.validate(arguments)
        return arguments
    except InvalidParams as error:
        problem = error.message
    repaired, locations = repair_arguments(arguments, operation.input_schema)
    try:
        operation.input_validator.validate(repaired)
    except InvalidParams:
        locations = []
    if not locations:
        raise ToolError(f"invalid arguments: {problem}")
    return repaired
