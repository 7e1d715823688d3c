"""The tools that read, which the plugin registers. Every answer is a page and tells whether there is another one.

Source: names, arguments, annotations, titles and structured results of the reference memory server (2026.8.31).
Arguments that it does not have are optional: limit, cursor, fields, namespace.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final, TypeAlias

import msgspec
from attrs import frozen
from msgspec import Meta

from mcptrio import Context, tool

from .examples import in_memory
from .jsonl import write_lines
from .memory import Memory
from .model import Count, Field, Graph, GraphExport, GraphStats
from .pages import Chosen, Everything, GraphPage, Wanted, read_page
from .searching import find_entities
from .statements import Statements
from .texts import export_text, graph_text, stats_text

__all__ = ["ALL", "Cursor", "Fields", "Limit", "MemoryReading", "Namespace", "read_graph_page"]

Limit = Annotated[int, Meta(ge=0, description="0 for the default.")]
# An answer that has a next page says how to get it.
Cursor: TypeAlias = str
Fields = Annotated[list[Field], "What to return; empty for all."]
# An unknown one is refused with the allowed ones, which costs less than a description in each tool.
Namespace: TypeAlias = str

ALL: Final[list[Field]] = []
"""Default of ``fields``. Never changed, and shown in the schemas."""


@frozen(eq=False)
class MemoryReading:
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
        cursor: Cursor = "",
        fields: Fields = ALL,
        namespace: Namespace = "",
    ) -> Graph:
        """Read the whole knowledge graph, oldest entities first. Prefer {tool:search_nodes} to find something."""
        memory = self.memory
        name = memory.namespace(ctx, namespace)
        return await memory.read(partial(read_graph_page, name, memory.wanted(limit, fields), cursor))

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
        cursor: Cursor = "",
        fields: Fields = ALL,
        namespace: Namespace = "",
    ) -> Graph:
        """Search names, types and observations for all words or their beginnings; typos are tolerated if nothing
        matches. Best matches first, then the newest, with their relations."""
        memory = self.memory
        name = memory.namespace(ctx, namespace)
        wanted = memory.wanted(limit, fields)

        def search(statements: Statements) -> Graph:
            found = find_entities(statements, name, query)
            return _graph(read_page(statements, name, Chosen(found, "s"), wanted, cursor), len(found))

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
        cursor: Cursor = "",
        fields: Fields = ALL,
        namespace: Namespace = "",
    ) -> Graph:
        """Read entities by their exact names, with their relations. Unknown names are ignored."""
        memory = self.memory
        memory.bounds.check_count(names, "names")
        space = memory.namespace(ctx, namespace)
        wanted = memory.wanted(limit, fields)
        return await memory.read(partial(_open, space, names, wanted, cursor))

    @tool(
        title="Graph Statistics",
        read_only=True,
        examples=in_memory(),
        destructive=False,
        idempotent=True,
        open_world=False,
        text=stats_text,
    )
    async def graph_stats(self, ctx: Context, namespace: Namespace = "") -> GraphStats:
        """Count entities, relations and observations by type, and list the namespaces."""
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

    @tool(
        title="Export Graph",
        read_only=True,
        examples=in_memory(),
        destructive=False,
        idempotent=True,
        open_world=False,
        text=export_text,
    )
    async def export_graph(
        self, ctx: Context, limit: Limit = 0, cursor: Cursor = "", namespace: Namespace = ""
    ) -> GraphExport:
        """Export the knowledge graph as lines of JSON, which {tool:import_graph} reads."""
        memory = self.memory
        name = memory.namespace(ctx, namespace)
        wanted = memory.wanted(limit, ALL, whole=True)

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


def read_graph_page(namespace: str, wanted: Wanted, cursor: str, statements: Statements) -> Graph:
    """A page of the whole graph, in a thread."""
    total = statements.one(
        "SELECT count(*) FROM entities WHERE namespace = (SELECT id FROM namespaces WHERE name = ?)", (namespace,)
    )
    return _graph(read_page(statements, namespace, Everything(namespace), wanted, cursor), total)


def _open(namespace: str, names: list[str], wanted: Wanted, cursor: str, statements: Statements) -> Graph:
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
