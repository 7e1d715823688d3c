"""Rows as a CSV file.

Called by ``export_csv`` in a worker thread. The one rule: values are whole, or the row is not in the file.

Source: RFC 4180. The standard library's writer cannot tell NULL from an empty text before Python 3.12, so fields are
written here: NULL is an empty field, an empty text is ``""``, a blob is SQL's ``X'…'``.
"""

from __future__ import annotations

import uuid
from typing import Annotated, Any

from attrs import frozen
from msgspec import Meta

from mcptrio import CallToolResult, Context, EmbeddedResource, TextContent, TextResourceContents, ToolError, tool
from mcptrio.capabilities.schemas import encode_value, schema_of

from .connections import Opened
from .policy import Access
from .queries import Queries
from .reading import Cursor, DatabaseName, Limit, Params, Query
from .rows import cursor_for, position_of

__all__ = ["Export", "Exporting"]


@frozen(kw_only=True)
class Export:
    """What is in an exported file."""

    database: str
    columns: tuple[str, ...]
    rows: Annotated[int, "Rows in the file, the header not counted."]
    bytes: Annotated[int, "The size of the file."]
    uri: Annotated[str, "Of the embedded resource that holds the file."]
    truncated: Annotated[bool, "There are more rows."]
    next_cursor: Annotated[str | None, "Ask again with this cursor for a file of the rows that follow."] = None


@frozen(eq=False)
class Exporting:
    """The exporting tool."""

    queries: Queries

    @tool(
        title="Export CSV",
        read_only=True,
        destructive=False,
        idempotent=True,
        open_world=False,
        output_schema=schema_of(Export),
    )
    async def export_csv(
        self,
        ctx: Context,
        query: Query,
        params: Params = None,
        database: DatabaseName = None,
        limit: Limit = None,
        cursor: Cursor = None,
        header: Annotated[bool, "Begin with the names of the columns."] = True,
        delimiter: Annotated[str, Meta(pattern="^[,;\\t|]$", description="One of , ; | and tab.")] = ",",
    ) -> CallToolResult:
        """Run one query that reads and return its rows as a CSV file, in an embedded resource. Values are not cut.
        NULL is an empty field, an empty text is "". A long file is cut: go on with next_cursor.
        """
        found = await self.queries.find(database)
        skip = position_of(cursor, found.name, query, params)
        config = self.queries.config
        most = min(limit or config.max_export_rows, config.max_export_rows)

        def work(opened: Opened) -> _File:
            file = _File(delimiter=delimiter, most=config.max_export_bytes)
            rows = opened.execute(query, params)
            if rows.description is None:
                raise ToolError("expected a statement that returns rows, such as SELECT")
            file.columns = tuple(name for name, *_ in rows.description)
            if header:
                file.add(file.columns)
            for position, row in enumerate(rows):
                opened.watch.row()
                if position < skip:
                    continue
                if file.rows == most or not file.add(row):
                    file.has_more = True
                    break
                file.rows += 1
            return file

        file = await self.queries.run(ctx, found, self.queries.policy(Access.READ), work)
        if file.has_more and not file.rows:
            raise ToolError(
                f"a row is larger than max_export_bytes, {config.max_export_bytes} bytes; select less of it"
            )
        uri = f"urn:uuid:{uuid.uuid4()}"
        export = Export(
            database=found.name,
            columns=file.columns,
            rows=file.rows,
            bytes=file.size,
            uri=uri,
            truncated=file.has_more,
            next_cursor=cursor_for(skip + file.rows, found.name, query, params) if file.has_more else None,
        )
        more = f"; there are more, go on with cursor={export.next_cursor}" if file.has_more else ""
        contents = TextResourceContents(uri=uri, mime_type="text/csv", text="".join(file.lines))
        return CallToolResult(
            content=(
                TextContent(text=f"{file.rows} rows of {found.name} as CSV, {file.size} bytes{more}"),
                EmbeddedResource(resource=contents),
            ),
            structured_content=encode_value(export),
        )


class _File:
    """A CSV file that grows up to a size."""

    def __init__(self, *, delimiter: str, most: int) -> None:
        self._delimiter = delimiter
        self._most = most
        self.columns: tuple[str, ...] = ()
        self.lines: list[str] = []
        self.size = 0
        self.rows = 0
        self.has_more = False

    def add(self, row: tuple[Any, ...]) -> bool:
        """Add a line; returns whether there was room for it."""
        line = self._delimiter.join(self._field(value) for value in row) + "\r\n"
        size = len(line.encode())
        if self.size + size > self._most:
            return False
        self.size += size
        self.lines.append(line)
        return True

    def _field(self, value: Any) -> str:
        if value is None:
            return ""
        if isinstance(value, bytes):
            return f"X'{value.hex().upper()}'"
        if not isinstance(value, str):
            return repr(value)  # the shortest text that is this number again
        if not value or any(sign in value for sign in (self._delimiter, '"', "\r", "\n")) or value.strip() != value:
            escaped = value.replace('"', '""')
            return f'"{escaped}"'
        return value
