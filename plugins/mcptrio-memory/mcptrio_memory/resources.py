"""Graphs and nodes as resources, with completion and subscriptions, which the plugin registers.

A resource shows only what the tools show as well.

Source: MCP 2026-07-28, server/resources; ``memory://knowledge-graph`` of the reference memory server.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from urllib.parse import quote

from attrs import evolve, frozen

from mcptrio import Context, ResourceNotFound, ToolError, completion, resource

from .config import ANY
from .jsonl import write_lines
from .memory import ALL_FIELDS, Memory
from .model import Graph
from .pages import AllEntities, GraphPageRequest, SelectedEntities, read_page
from .read_tools import read_graph_page
from .search import find_names
from .statements import Statements
from .uris import EXPORT, EXPORT_OF, GRAPH, GRAPH_OF, NODE, NODE_OF

__all__ = ["MemoryResources"]

_JSON = "application/json"
_LINES = "application/jsonl"
_UNLIMITED_ENTITIES = 10_000_000
"""A number of entities that no graph reaches, so that only the size limits the result."""
_MAX_COMPLETIONS = 1000
"""Maximum number of names that mcptrio ranks. A person who sees none of them types another letter."""


@frozen(eq=False)
class MemoryResources:
    """The resources over one memory."""

    memory: Memory

    @resource(GRAPH, name="knowledge-graph", title="Knowledge Graph", mime_type=_JSON)
    async def knowledge_graph(self, ctx: Context) -> Graph:
        """The full knowledge graph with all entities and relations; a very large one is truncated, and says so."""
        return await self.knowledge_graph_of(ctx)

    @resource(GRAPH_OF, name="knowledge-graph-of", title="Knowledge Graph of a Namespace", mime_type=_JSON)
    async def knowledge_graph_of(self, ctx: Context, namespace: str | None = None) -> Graph:
        """The full knowledge graph of a namespace; a very large one is truncated, and says so."""
        name = self._namespace(ctx, namespace, GRAPH)
        return await self.memory.read(partial(read_graph_page, name, self._whole_graph(), ""))

    @resource(EXPORT, name="export", title="Export", mime_type=_LINES)
    async def export(self, ctx: Context) -> str:
        """The full knowledge graph as lines of JSON, in the form of the reference memory server's file."""
        return await self.export_of(ctx)

    @resource(EXPORT_OF, name="export-of", title="Export of a Namespace", mime_type=_LINES)
    async def export_of(self, ctx: Context, namespace: str | None = None) -> str:
        """The full knowledge graph of a namespace as lines of JSON."""
        name = self._namespace(ctx, namespace, EXPORT)
        request = evolve(self._whole_graph(), whole=True)

        def export(statements: Statements) -> str:
            page = read_page(statements, name, AllEntities(name, "x"), request, "")
            if page.cursor is not None:
                # A reader could not distinguish a cut file from a complete one.
                raise ToolError(
                    f"the graph is larger than {request.budget} bytes; {{tool:export_graph}} returns it in pages"
                )
            return "".join(f"{line}\n" for line in write_lines(page.entities, page.relations))

        return await self.memory.read(export)

    @resource(NODE, name="node", title="Node", mime_type=_JSON)
    async def node(self, ctx: Context, name: str) -> Graph:
        """One entity of the knowledge graph, with its relations to others."""
        return await self.node_of(ctx, name)

    @resource(NODE_OF, name="node-of", title="Node of a Namespace", mime_type=_JSON)
    async def node_of(self, ctx: Context, name: str = "", namespace: str | None = None) -> Graph:
        """One entity of a namespace, with its relations to others. Its name may contain a slash."""
        uri = f"memory://node/{quote(name, safe='')}"
        graph_name = self._namespace(ctx, namespace, uri)
        graph = await self.memory.read(partial(_read_node, graph_name, name, self._whole_graph()))
        if graph is None:
            raise ResourceNotFound(uri)
        return graph

    @completion("resource", NODE, "name")
    async def complete_name(self, ctx: Context, value: str) -> list[str]:
        """Return names that contain the typed text, without those that cannot be a segment of a URI's path."""
        return [name for name in await self.complete_name_of(ctx, value, {}) if "/" not in name and name != ".."]

    @completion("resource", NODE_OF, "name")
    async def complete_name_of(self, ctx: Context, value: str, arguments: Mapping[str, str]) -> list[str]:
        """Return names that contain the typed text."""
        graph_name = self.memory.find_graph_name(ctx, arguments.get("namespace"))
        if graph_name is None:
            return []
        return await self.memory.read(lambda statements: find_names(statements, graph_name, value, _MAX_COMPLETIONS))

    @completion("resource", NODE_OF, "namespace")
    async def complete_node_namespace(self) -> list[str]:
        """Return namespaces that a call may name."""
        return await self._namespaces()

    @completion("resource", GRAPH_OF, "namespace")
    async def complete_graph_namespace(self) -> list[str]:
        """Return namespaces that a call may name."""
        return await self._namespaces()

    @completion("resource", EXPORT_OF, "namespace")
    async def complete_export_namespace(self) -> list[str]:
        """Return namespaces that a call may name."""
        return await self._namespaces()

    async def _namespaces(self) -> list[str]:
        config = self.memory.config
        if config.is_by_principal:
            return [config.namespace]
        rows = await self.memory.read(
            lambda statements: statements.execute(
                "SELECT name FROM namespaces ORDER BY name LIMIT ?", (_MAX_COMPLETIONS,)
            ).fetchall()
        )
        allowed_names = [name for (name,) in rows if config.allowed_namespace(name)]
        return list(
            dict.fromkeys(
                [config.namespace, *(each for each in config.other_namespaces if each != ANY), *allowed_names]
            )
        )

    def _namespace(self, ctx: Context, request: str | None, uri: str) -> str:
        namespace = self.memory.find_graph_name(ctx, request)
        if namespace is None:
            raise ResourceNotFound(f"{uri}?namespace={quote(str(request), safe='')}")
        return namespace

    def _whole_graph(self) -> GraphPageRequest:
        return GraphPageRequest(
            limit=_UNLIMITED_ENTITIES, budget=self.memory.config.max_resource_bytes, fields=ALL_FIELDS
        )


def _read_node(namespace: str, name: str, request: GraphPageRequest, statements: Statements) -> Graph | None:
    row = statements.fetch_value(
        "SELECT id FROM entities WHERE name = ? AND namespace = (SELECT id FROM namespaces WHERE name = ?)",
        (name, namespace),
    )
    if row is None:
        return None
    page = read_page(statements, namespace, SelectedEntities([row], "n"), request, "")
    return Graph(entities=page.entities, relations=page.relations, truncated=page.cursor is not None, total=1)
