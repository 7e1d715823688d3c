"""The tools that read, which the plugin registers. Every answer is a page and tells whether there is another one.

Source: names, arguments, annotations, titles and results of the reference memory server (2026.8.31). Arguments that it
does not have are optional: limit, cursor, fields, namespace.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated

import msgspec
from attrs import frozen
from msgspec import Meta

from mcptrio import Context, tool

from .jsonl import write_lines
from .memory import Memory
from .model import Count, Field, Graph, GraphExport, GraphStats
from .pages import Chosen, Everything, GraphPage, Wanted, read_page
from .searching import find_entities
from .statements import Statements

__all__ = ["Cursor", "Fields", "Limit", "MemoryReading", "Namespace", "read_graph_page"]

Limit = Annotated[
    Annotated[int, Meta(ge=1, le=10_000)] | None,
    "Maximum number of entities; the operator sets the default and the upper limit.",
]
Cursor = Annotated[Annotated[str, Meta(max_length=200)] | None, "next_cursor of the previous page."]
Fields = Annotated[
    list[Field] | None,
    "The fields of entities to return in addition to the name; by default all. "
    '["name"] returns names only, which is the cheapest overview.',
]
Namespace = Annotated[Annotated[str, Meta(max_length=100)] | None, "The graph to use; by default the configured one."]


@frozen(eq=False)
class MemoryReading:
    """The tools that read one memory."""

    memory: Memory

    @tool(title="Read Graph", read_only=True, destructive=False, idempotent=True, open_world=False)
    async def read_graph(
        self,
        ctx: Context,
        limit: Limit = None,
        cursor: Cursor = None,
        fields: Fields = None,
        namespace: Namespace = None,
    ) -> Graph:
        """Read the entire knowledge graph, page by page: entities in order of creation, each with its
        relations. {tool:search_nodes} is cheaper if you know what you are looking for.
        """
        memory = self.memory
        name = memory.namespace(ctx, namespace)
        return await memory.read(partial(read_graph_page, name, memory.wanted(limit, fields), cursor))

    @tool(title="Search Nodes", read_only=True, destructive=False, idempotent=True, open_world=False)
    async def search_nodes(
        self,
        ctx: Context,
        query: Annotated[
            str,
            Meta(
                max_length=2048,
                description="The search query to match against entity names, types, and observation content",
            ),
        ],
        limit: Limit = None,
        cursor: Cursor = None,
        fields: Fields = None,
        namespace: Namespace = None,
    ) -> Graph:
        """Search for nodes in the knowledge graph: entities whose names, types or observations contain all
        words of the query or words that start with them, and entities that contain the query literally,
        ignoring case. The best matches come first, each with its relations."""
        memory = self.memory
        name = memory.namespace(ctx, namespace)
        wanted = memory.wanted(limit, fields)

        def search(statements: Statements) -> Graph:
            found = find_entities(statements, name, query)
            return _graph(read_page(statements, name, Chosen(found, "s"), wanted, cursor), len(found))

        return await memory.read(search)

    @tool(title="Open Nodes", read_only=True, destructive=False, idempotent=True, open_world=False)
    async def open_nodes(
        self,
        ctx: Context,
        names: Annotated[list[str], Meta(description="An array of entity names to retrieve")],
        limit: Limit = None,
        cursor: Cursor = None,
        fields: Fields = None,
        namespace: Namespace = None,
    ) -> Graph:
        """Open specific nodes in the knowledge graph by their names, with their relations to others. Unknown
        names are ignored.
        """
        memory = self.memory
        memory.bounds.check_count(names, "names")
        space = memory.namespace(ctx, namespace)
        wanted = memory.wanted(limit, fields)
        return await memory.read(partial(_open, space, names, wanted, cursor))

    @tool(title="Graph Statistics", read_only=True, destructive=False, idempotent=True, open_world=False)
    async def graph_stats(self, ctx: Context, namespace: Namespace = None) -> GraphStats:
        """Count the entities, relations and observations of the knowledge graph, by type, and list all graphs."""
        memory = self.memory
        name = memory.namespace(ctx, namespace)

        def count(statements: Statements) -> GraphStats:
            found = [row[0] for row in statements.execute("SELECT name FROM namespaces ORDER BY name").fetchall()]
            if memory.config.is_by_principal:
                named = [memory.shown(each) for each in found if each == name]
            else:
                named = [each for each in found if memory.config.allowed(each)]
            return msgspec.structs.replace(_stats(statements, name, named), namespace=memory.shown(name))

        return await memory.read(count)

    @tool(title="Export Graph", read_only=True, destructive=False, idempotent=True, open_world=False)
    async def export_graph(
        self, ctx: Context, limit: Limit = None, cursor: Cursor = None, namespace: Namespace = None
    ) -> GraphExport:
        """Export the knowledge graph as lines of JSON, page by page, in the format of the reference memory
        server's file, which import_graph reads. The resource memory://export contains the whole graph.
        """
        memory = self.memory
        name = memory.namespace(ctx, namespace)
        wanted = memory.wanted(limit, None, whole=True)

        def export(statements: Statements) -> GraphExport:
            page = read_page(statements, name, Everything(name, "x"), wanted, cursor)
            lines = write_lines(page.entities, page.relations)
            return GraphExport(
                jsonl="".join(f"{line}\n" for line in lines),
                lines=len(lines),
                truncated=page.cursor is not None,
                next_cursor=page.cursor,
            )

        return await memory.read(export)


def read_graph_page(namespace: str, wanted: Wanted, cursor: str | None, statements: Statements) -> Graph:
    """A page of the whole graph, in a thread."""
    total = statements.one(
        "SELECT count(*) FROM entities WHERE namespace = (SELECT id FROM namespaces WHERE name = ?)", (namespace,)
    )
    return _graph(read_page(statements, namespace, Everything(namespace), wanted, cursor), total)


def _open(namespace: str, names: list[str], wanted: Wanted, cursor: str | None, statements: Statements) -> Graph:
    found: list[int] = []
    for name in dict.fromkeys(names):
        identity = statements.one(
            "SELECT id FROM entities WHERE name = ? AND namespace = (SELECT id FROM namespaces WHERE name = ?)",
            (name, namespace),
        )
        if identity is not None:
            found.append(identity)
    return _graph(read_page(statements, namespace, Chosen(found, "o"), wanted, cursor), len(found))


def _graph(page: GraphPage, total: int) -> Graph:
    return Graph(
        entities=page.entities,
        relations=page.relations,
        truncated=page.cursor is not None,
        next_cursor=page.cursor,
        total=total,
    )


def _stats(statements: Statements, namespace: str, namespaces: list[str]) -> GraphStats:
    space = statements.one("SELECT id FROM namespaces WHERE name = ?", (namespace,))

    def types(table: str) -> list[Count]:
        rows = statements.execute(
            f"SELECT type, count(*) FROM {table} WHERE namespace = ? GROUP BY type ORDER BY 2 DESC, 1 LIMIT 100",
            (space,),
        ).fetchall()
        return [Count(type=kind, count=count) for kind, count in rows]

    return GraphStats(
        namespace=namespace,
        entities=statements.one("SELECT count(*) FROM entities WHERE namespace = ?", (space,)),
        relations=statements.one("SELECT count(*) FROM relations WHERE namespace = ?", (space,)),
        observations=statements.one(
            "SELECT count(*) FROM observations WHERE entity IN (SELECT id FROM entities WHERE namespace = ?)", (space,)
        ),
        entity_types=types("entities"),
        relation_types=types("relations"),
        namespaces=namespaces,
    )
