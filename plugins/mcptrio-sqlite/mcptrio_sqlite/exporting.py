"""The tool that exports rows as a CSV file.

Marked for mcptrio, registered by the plugin. The one rule: a file is one answer, of bounded size, and says where to go
on.
"""

from __future__ import annotations

import uuid
from typing import Annotated

from attrs import frozen
from msgspec import Meta

from mcptrio import Context, ToolError, tool
from mcptrio.schema import encode_value, schema_of
from mcptrio.types import CallToolResult, EmbeddedResource, TextContent, TextResourceContents

from .csv_files import Exported
from .jobs import ExportRows
from .queries import Queries
from .reading import Cursor, DatabaseName, Limit, Params, Query
from .rows import cursor_for, position_of

__all__ = ["ExportedFile", "Exporting"]


@frozen(kw_only=True)
class ExportedFile:
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
        output_schema=schema_of(ExportedFile),
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
        job = ExportRows(
            query=query,
            params=params,
            skip=skip,
            rows=most,
            size=config.max_export_bytes,
            header=header,
            delimiter=delimiter,
        )
        file: Exported = await self.queries.run(ctx, found, job)
        if file.has_more and not file.rows:
            raise ToolError(
                f"a row is larger than max_export_bytes, {config.max_export_bytes} bytes; select less of it"
            )
        uri = f"urn:uuid:{uuid.uuid4()}"
        export = ExportedFile(
            database=found.name,
            columns=file.columns,
            rows=file.rows,
            bytes=file.size,
            uri=uri,
            truncated=file.has_more,
            next_cursor=cursor_for(skip + file.rows, found.name, query, params) if file.has_more else None,
        )
        more = f"; there are more, go on with cursor={export.next_cursor}" if file.has_more else ""
        contents = TextResourceContents(uri=uri, mime_type="text/csv", text=file.text)
        return CallToolResult(
            content=(
                TextContent(text=f"{file.rows} rows of {found.name} as CSV, {file.size} bytes{more}"),
                EmbeddedResource(resource=contents),
            ),
            structured_content=encode_value(export),
        )
