"""The tools that read, which the plugin registers. Every answer is a page; ``next_cursor`` continues with the next one.

Source: names, arguments, annotations, titles and structured results of the reference memory server (2026.8.31). The
additional arguments limit, cursor, fields and namespace are optional.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final

import msgspec
from attrs import frozen
from msgspec import Meta

from mcptrio import Context, tool

from .examples import in_memory
from .jsonl import write_lines
from .memory import Memory
from .model import Count, Field, Graph, GraphExport, GraphStats
from .pages import AllEntities, GraphPage, GraphPageRequest, SelectedEntities, read_page
from .search import find_entities
from .statements import Statements
from .texts import export_text, graph_text, stats_text

__all__ = ["ALL", "Fields", "Limit", "MemoryReadTools", "read_graph_page"]

Limit = Annotated[int, Meta(ge=0, description="Maximum per page; 0 for the default.")]
Fields = Annotated[list[Field], "Fields to return; empty: all."]

ALL: Final[list[Field]] = []
"""The default of ``fields``. The schemas show it, and the tools do not change it."""


@frozen(eq=False)
class MemoryReadTools:
    """The tools that read one memory."""

    memory: Memory

    @tool(
        title="Read Graph",
        read_only=True,
        examples=in_memory(),
        destructive=False,
        idempotent=True,
        open_world=False,
        text=graph_text,
    )
    async def read_graph(
        self,
        ctx: Context,
        limit: Limit = 0,
        cursor: str = "",
        fields: Fields = ALL,
        namespace: str = "",
    ) -> Graph:
        """Read the whole knowledge graph, oldest entities first. Prefer {tool:search_nodes} to find something."""
        memory = self.memory
        name = memory.graph_name(ctx, namespace)
        return await memory.read(partial(read_graph_page, name, memory.page_request(limit, fields), cursor))

    @tool(
        title="Search Nodes",
        read_only=True,
        examples=in_memory(query="the"),
        destructive=False,
        idempotent=True,
        open_world=False,
        text=graph_text,
    )
    async def search_nodes(
        self,
        ctx: Context,
        query: Annotated[str, Meta(max_length=2048)],
        limit: Limit = 0,
        cursor: str = "",
        fields: Fields = ALL,
        namespace: str = "",
    ) -> Graph:
        """Search names, types and observations for all words or their beginnings; typos are tolerated if nothing
        matches. Best matches first, then the newest, with their relations."""
        memory = self.memory
        name = memory.graph_name(ctx, namespace)
        request = memory.page_request(limit, fields)

        def search(statements: Statements) -> Graph:
            entity_ids = find_entities(statements, name, query)
            return _graph(
                read_page(statements, name, SelectedEntities(entity_ids, "s"), request, cursor), len(entity_ids)
            )

        return await memory.read(search)

    @tool(
        title="Open Nodes",
        read_only=True,
        examples=in_memory(names=["nobody"]),
        destructive=False,
        idempotent=True,
        open_world=False,
        text=graph_text,
    )
    async def open_nodes(
        self,
        ctx: Context,
        names: list[str],
        limit: Limit = 0,
        cursor: str = "",
        fields: Fields = ALL,
        namespace: str = "",
    ) -> Graph:
        """Read entities by their exact names, with their relations. Unknown names are ignored."""
        memory = self.memory
        memory.limits.check_count(names, "names")
        graph_name = memory.graph_name(ctx, namespace)
        request = memory.page_request(limit, fields)
        return await memory.read(partial(_open, graph_name, names, request, cursor))

    @tool(
        title="Graph Statistics",
        read_only=True,
        examples=in_memory(),
        destructive=False,
        idempotent=True,
        open_world=False,
        text=stats_text,
    )
    async def graph_stats(self, ctx: Context, namespace: Annotated[str, "Graph name."] = "") -> GraphStats:
        """Count entities, relations and observations by type, and list the namespaces."""
        memory = self.memory
        name = memory.graph_name(ctx, namespace)

        def count(statements: Statements) -> GraphStats:
            namespaces = [row[0] for row in statements.execute("SELECT name FROM namespaces ORDER BY name").fetchall()]
            if memory.config.is_by_principal:
                named = [memory.display_name(each) for each in namespaces if each == name]
            else:
                named = [each for each in namespaces if memory.config.allowed_namespace(each)]
            return msgspec.structs.replace(_stats(statements, name, named), namespace=memory.display_name(name))

        return await memory.read(count)

    @tool(
        title="Export Graph",
        read_only=True,
        examples=in_memory(),
        destructive=False,
        idempotent=True,
        open_world=False,
        text=export_text,
    )
    async def export_graph(self, ctx: Context, limit: Limit = 0, cursor: str = "", namespace: str = "") -> GraphExport:
        """Export the knowledge graph as lines of JSON, which {tool:import_graph} reads."""
        memory = self.memory
        name = memory.graph_name(ctx, namespace)
        request = memory.page_request(limit, ALL, whole=True)

        def export(statements: Statements) -> GraphExport:
            page = read_page(statements, name, AllEntities(name, "x"), request, cursor)
            lines = write_lines(page.entities, page.relations)
            return GraphExport(
                jsonl="".join(f"{line}\n" for line in lines),
                lines=len(lines),
                truncated=page.cursor is not None,
                next_cursor=page.cursor,
            )

        return await memory.read(export)


def read_graph_page(namespace: str, request: GraphPageRequest, cursor: str, statements: Statements) -> Graph:
    """Return a page of the whole graph. Must be called in a thread."""
    total = statements.fetch_value(
        "SELECT count(*) FROM entities WHERE namespace = (SELECT id FROM namespaces WHERE name = ?)", (namespace,)
    )
    return _graph(read_page(statements, namespace, AllEntities(namespace), request, cursor), total)


def _open(namespace: str, names: list[str], request: GraphPageRequest, cursor: str, statements: Statements) -> Graph:
    entity_ids: list[int] = []
    for name in dict.fromkeys(names):
        entity_id = statements.fetch_value(
            "SELECT id FROM entities WHERE name = ? AND namespace = (SELECT id FROM namespaces WHERE name = ?)",
            (name, namespace),
        )
        if entity_id is not None:
            entity_ids.append(entity_id)
    return _graph(read_page(statements, namespace, SelectedEntities(entity_ids, "o"), request, cursor), len(entity_ids))


def _graph(page: GraphPage, total: int) -> Graph:
    return Graph(
        entities=page.entities,
        relations=page.relations,
        truncated=page.cursor is not None,
        next_cursor=page.cursor,
        total=total,
    )


def _stats(statements: Statements, namespace: str, namespaces: list[str]) -> GraphStats:
    graph_name = statements.fetch_value("SELECT id FROM namespaces WHERE name = ?", (namespace,))

    def types(table: str) -> list[Count]:
        rows = statements.execute(
            f"SELECT type, count(*) FROM {table} WHERE namespace = ? GROUP BY type ORDER BY 2 DESC, 1 LIMIT 100",
            (graph_name,),
        ).fetchall()
        return [Count(type=kind, count=count) for kind, count in rows]

    return GraphStats(
        namespace=namespace,
        entities=statements.fetch_value("SELECT count(*) FROM entities WHERE namespace = ?", (graph_name,)),
        relations=statements.fetch_value("SELECT count(*) FROM relations WHERE namespace = ?", (graph_name,)),
        observations=statements.fetch_value(
            "SELECT count(*) FROM observations WHERE entity IN (SELECT id FROM entities WHERE namespace = ?)",
            (graph_name,),
        ),
        entity_types=types("entities"),
        relation_types=types("relations"),
        namespaces=namespaces,
    )
