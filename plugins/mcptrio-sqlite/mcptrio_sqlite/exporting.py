"""The tool that exports rows as a CSV file.

A file is one result of limited size; the next one continues at its cursor.
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
from .examples import in_database
from .jobs import ExportRows
from .queries import Queries
from .reading import NO_PARAMS, Cursor, DatabaseName, Limit, Params, Query
from .rows import cursor_for, position_of
from .values import checked

__all__ = ["ExportedFile", "Exporting"]


@frozen(kw_only=True)
class ExportedFile:
    """The content of an exported file."""

    database: str
    columns: tuple[str, ...]
    rows: Annotated[int, "Rows in the file without the header."]
    bytes: Annotated[int, "Size of the file."]
    uri: Annotated[str, "URI of the embedded resource with the file."]
    truncated: Annotated[bool, "There are more rows."]
    next_cursor: Annotated[str | None, "Cursor for a file with the next rows."] = None


@frozen(eq=False)
class Exporting:
    """The exporting tool."""

    queries: Queries

    @tool(
        title="Export CSV",
        read_only=True,
        examples=in_database(query="SELECT * FROM sqlite_master"),
        destructive=False,
        idempotent=True,
        open_world=False,
        output_schema=schema_of(ExportedFile),
    )
    async def export_csv(
        self,
        ctx: Context,
        query: Query,
        params: Params = NO_PARAMS,
        database: DatabaseName = "",
        limit: Limit = 100_000,
        cursor: Cursor = "",
        header: bool = True,
        delimiter: Annotated[str, Meta(pattern="^[,;\\t|]$", description="Comma, semicolon, tab or bar.")] = ",",
    ) -> CallToolResult:
        """Run one read-only SQL statement and return header and rows as an embedded CSV file with full values."""
        found = await self.queries.find(database)
        values = checked(params)
        skip = position_of(cursor, found.name, query, values)
        config = self.queries.config
        most = min(limit, config.max_export_rows)
        job = ExportRows(
            query=query,
            params=values,
            skip=skip,
            rows=most,
            size=config.max_export_bytes,
            header=header,
            delimiter=delimiter,
        )
        file: Exported = await self.queries.run(ctx, found, job)
        # The next cursor would be the same as this one.
        if file.has_more and not file.rows:
            raise ToolError(
                f"a row is larger than max_export_bytes, {config.max_export_bytes} bytes; select less of it"
            )
        # A new URI for each file, since the same query may return other rows later.
        uri = f"urn:uuid:{uuid.uuid4()}"
        export = ExportedFile(
            database=found.name,
            columns=file.columns,
            rows=file.rows,
            bytes=file.size,
            uri=uri,
            truncated=file.has_more,
            next_cursor=cursor_for(skip + file.rows, found.name, query, values) if file.has_more else None,
        )
        more = f"; more rows: continue with cursor={export.next_cursor}" if file.has_more else ""
        contents = TextResourceContents(uri=uri, mime_type="text/csv", text=file.text)
        return CallToolResult(
            content=(
                TextContent(text=f"{file.rows} rows of {found.name} as CSV, {file.size} bytes{more}"),
                EmbeddedResource(resource=contents),
            ),
            structured_content=encode_value(export),
        )
