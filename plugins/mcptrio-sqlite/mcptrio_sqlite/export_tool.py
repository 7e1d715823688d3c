"""The tool that exports rows as a CSV file.

A result contains one file of limited size; its cursor continues with the next file.
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
from .read_tools import NO_PARAMS, Cursor, DatabaseName, Limit, Params, Query
from .rows import cursor_for, position_of
from .values import checked_parameters

__all__ = ["ExportTool", "ExportedFile"]


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
class ExportTool:
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
        database_file = await self.queries.find(database)
        values = checked_parameters(params)
        skip = position_of(cursor, database_file.name, query, values)
        config = self.queries.config
        max_rows = min(limit, config.max_export_rows)
        job = ExportRows(
            query=query,
            params=values,
            skip=skip,
            max_rows=max_rows,
            max_bytes=config.max_export_bytes,
            header=header,
            delimiter=delimiter,
        )
        file: Exported = await self.queries.run(ctx, database_file, job)
        # The next cursor would equal this one, so the model would never get past this row.
        if file.has_more and not file.rows:
            raise ToolError(
                f"a row is larger than max_export_bytes, {config.max_export_bytes} bytes; select less of it"
            )
        # A new URI for each file, since the same query may return other rows later.
        uri = f"urn:uuid:{uuid.uuid4()}"
        export = ExportedFile(
            database=database_file.name,
            columns=file.columns,
            rows=file.rows,
            bytes=file.size,
            uri=uri,
            truncated=file.has_more,
            next_cursor=cursor_for(skip + file.rows, database_file.name, query, values) if file.has_more else None,
        )
        more = f"; more rows: continue with cursor={export.next_cursor}" if file.has_more else ""
        contents = TextResourceContents(uri=uri, mime_type="text/csv", text=file.text)
        return CallToolResult(
            content=(
                TextContent(text=f"{file.rows} rows of {database_file.name} as CSV, {file.size} bytes{more}"),
                EmbeddedResource(resource=contents),
            ),
            structured_content=encode_value(export),
        )
