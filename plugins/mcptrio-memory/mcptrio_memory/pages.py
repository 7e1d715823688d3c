"""Reads a graph in pages: entities in a given order, each with its relations, up to a size limit.

The tools and resources that read call it in a thread. All pages together contain each entity and each relation exactly
once. An entity that is larger than a page continues, under its name, on the next page. A relation is on the page of the
first of its two entities. A cursor contains the ids of the last items, so deletions between two calls do not shift the
pages.

Source: MCP 2026-07-28, server/utilities/pagination, for opaque cursors.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Collection, Iterator, Sequence
from typing import Final, TypeAlias

from attrs import Factory, define, field, frozen

from mcptrio.errors import ToolError

from .model import Entity, Field, Relation
from .statements import Statements

__all__ = ["AllEntities", "GraphPage", "GraphPageRequest", "Order", "SelectedEntities", "read_page"]

_OBSERVATIONS_DONE: Final = -1
"""The value of ``_Cursor.observation`` if the pages contain all observations of the entity, but not all relations."""
_DANGLING_POSITION: Final = 2**62
"""The position after all entities, at which relations follow whose entities do not exist."""
_BATCH: Final = 200
_OVERHEAD: Final = 40
"""Approximate bytes of JSON around the texts of an entity, an observation or a relation."""

_IN_SPACE: Final = "namespace = (SELECT id FROM namespaces WHERE name = :space)"

Row: TypeAlias = tuple[int, int, str, str]
"""Position, id, name and type of an entity."""


@frozen(eq=False)
class AllEntities:
    """The order of a whole graph: the oldest entities first."""

    namespace: str
    kind: str = "g"
    """A letter that distinguishes the cursors of different tools."""

    def rows(self, statements: Statements, start: int) -> Iterator[Row]:
        """Yield the rows from a position on. The position is the entity's id."""
        while True:
            rows = statements.execute(
                "SELECT id, id, name, type FROM entities WHERE id >= ? AND namespace = "
                "(SELECT id FROM namespaces WHERE name = ?) ORDER BY id LIMIT ?",
                (start, self.namespace, _BATCH),
            ).fetchall()
            yield from rows
            if len(rows) < _BATCH:
                return
            start = rows[-1][0] + 1

    def is_before(self, entity: int, position: int) -> bool:
        """Return whether an entity comes before a position."""
        return entity < position


@frozen(eq=False)
class SelectedEntities:
    """A selection of entities by id, in a given order."""

    ids: Sequence[int]
    kind: str
    _positions: dict[int, int] = field(
        init=False,
        default=Factory(lambda self: {entity: position for position, entity in enumerate(self.ids)}, takes_self=True),
    )

    def rows(self, statements: Statements, start: int) -> Iterator[Row]:
        """Yield the rows from a position on."""
        for position in range(start, len(self.ids)):
            yield from statements.execute(
                "SELECT ?, id, name, type FROM entities WHERE id = ?", (position, self.ids[position])
            ).fetchall()

    def is_before(self, entity: int, position: int) -> bool:
        """Return whether an entity is selected and comes before a position."""
        return self._positions.get(entity, position) < position


Order: TypeAlias = AllEntities | SelectedEntities
"""The entities of the pages, and their order."""


@frozen(kw_only=True, eq=False)
class GraphPageRequest:
    """The requested part of the entities, and its limits.

    Args:
        limit: The maximum number of entities.
        budget: The approximate number of bytes. A page has at least one item, however large it is.
        fields: The fields that each entity contains.
        whole: True if no entity is split, however large it is.
    """

    limit: int
    budget: int
    fields: Collection[Field]
    whole: bool = False


@define(eq=False)
class GraphPage:
    entities: list[Entity] = field(factory=list)
    relations: list[Relation] = field(factory=list)
    cursor: str | None = None
    """The cursor of the next page."""
    size: int = 0

    def has_room(self, size: int, budget: int) -> bool:
        return self.size + size <= budget or not (self.entities or self.relations)


@frozen
class _Cursor:
    position: int = 0
    observation: int = 0
    """Id of the last observation on the previous page."""
    relation: int = 0
    """Id of the last relation on the previous page."""

    def encode(self, kind: str) -> str:
        packed = struct.pack(">cqqq", kind.encode(), self.position, self.observation, self.relation)
        return base64.urlsafe_b64encode(packed).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str, kind: str) -> _Cursor:
        if not text:
            return cls()
        try:
            found, *positions = struct.unpack(">cqqq", base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        except (binascii.Error, struct.error, ValueError) as error:
            raise ToolError("expected the next_cursor of the previous page at `cursor`, got another text") from error
        if found != kind.encode() or min(positions) < _OBSERVATIONS_DONE or positions[0] < 0:
            raise ToolError("expected a next_cursor of the same tool at `cursor`, got one of another tool")
        return cls(*positions)


def read_page(
    statements: Statements, namespace: str, order: Order, request: GraphPageRequest, cursor: str
) -> GraphPage:
    """Return the page at a cursor.

    Raises:
        ToolError: The cursor is invalid or belongs to another tool.
    """
    page = GraphPage()
    start = _Cursor.decode(cursor, order.kind)
    reader = _Reader(statements, namespace, order, request, page)
    rest = reader.read_entities(start) if start.position < _DANGLING_POSITION else None
    if rest is None and "relations" in request.fields and isinstance(order, AllEntities):
        rest = reader.read_dangling_relations(start)
    page.cursor = rest.encode(order.kind) if rest is not None else None
    return page


@frozen(eq=False)
class _Reader:
    statements: Statements
    namespace: str
    order: Order
    request: GraphPageRequest
    page: GraphPage

    def read_entities(self, start: _Cursor) -> _Cursor | None:
        """Fill the page, and return the position for the next one; ``None`` at the end."""
        for count, row in enumerate(self.order.rows(self.statements, start.position)):
            entity_start = start if row[0] == start.position else _Cursor(row[0])
            if count >= self.request.limit:
                return entity_start
            rest = self._read_entity(row, entity_start)
            if rest is None and "relations" in self.request.fields:
                rest = self._read_relations(row, entity_start)
            if rest is not None:
                return rest
        return None

    def read_dangling_relations(self, start: _Cursor) -> _Cursor | None:
        after = start.relation if start.position == _DANGLING_POSITION else 0
        rows = self.statements.execute(
            "SELECT r.id, r.source, r.target, r.type FROM relations r"
            " WHERE r.namespace = (SELECT id FROM namespaces WHERE name = ?) AND r.id > ? AND NOT EXISTS"
            " (SELECT 1 FROM entities e WHERE e.namespace = r.namespace AND e.name IN (r.source, r.target))"
            " ORDER BY r.id LIMIT ?",
            (self.namespace, after, 1 + self.request.budget // _OVERHEAD),
        ).fetchall()
        return self._add_relations(rows, after, _DANGLING_POSITION)

    def _read_entity(self, row: Row, entity_start: _Cursor) -> _Cursor | None:
        position, entity_id, name, kind = row
        if entity_start.observation == _OBSERVATIONS_DONE:
            return None
        request, page = self.request, self.page
        texts: list[str] = []
        size = _OVERHEAD + _size(name) + (_size(kind) if "entity_type" in request.fields else 0)
        rows = self._observations(entity_id, entity_start.observation) if "observations" in request.fields else []
        whole = request.whole and size + sum(_OVERHEAD // 4 + _size(text) for _, text in rows)
        if not page.has_room(whole or size, request.budget):
            return entity_start
        rest = None
        last = entity_start.observation
        for observation, text in rows:
            more = _OVERHEAD // 4 + _size(text)
            fits = page.size + size + more <= request.budget or request.whole
            # A page has at least one item, however large; otherwise the next page would be the same.
            if not fits and (texts or page.entities or page.relations):
                rest = _Cursor(position, last)
                break
            texts.append(text)
            size += more
            last = observation
        if rest is not None and not texts:
            return entity_start  # the next page shows the name together with its observations
        entity = Entity(name=name)
        if "entity_type" in request.fields:
            entity.entity_type = kind
        if "observations" in request.fields:
            entity.observations = texts
        page.entities.append(entity)
        page.size += size
        return rest

    def _observations(self, entity: int, after: int) -> list[tuple[int, str]]:
        rows: list[tuple[int, str]] = self.statements.execute(
            "SELECT id, text FROM observations WHERE entity = ? AND id > ? ORDER BY id", (entity, after)
        ).fetchall()
        return rows

    def _read_relations(self, row: Row, entity_start: _Cursor) -> _Cursor | None:
        position, _, name, _ = row
        rows = self.statements.execute(
            "SELECT r.id, r.source, r.target, r.type, (SELECT e.id FROM entities e WHERE e.namespace = r.namespace"
            " AND e.name = CASE WHEN r.source = :name THEN r.target ELSE r.source END)"
            " FROM relations r WHERE r.id > :after AND r.id IN ("
            f"SELECT id FROM relations WHERE source = :name AND {_IN_SPACE} UNION "
            f"SELECT id FROM relations WHERE target = :name AND {_IN_SPACE}) ORDER BY r.id",
            {"space": self.namespace, "name": name, "after": entity_start.relation},
        ).fetchall()
        new = [found[:4] for found in rows if found[4] is None or not self.order.is_before(found[4], position)]
        return self._add_relations(new, entity_start.relation, position)

    def _add_relations(self, rows: Sequence[tuple[int, str, str, str]], last: int, position: int) -> _Cursor | None:
        for entity_id, source, target, kind in rows:
            size = _OVERHEAD + _size(source) + _size(target) + _size(kind)
            if not self.page.has_room(size, self.request.budget):
                return _Cursor(position, _OBSERVATIONS_DONE, last)
            self.page.relations.append(Relation(source=source, target=target, relation_type=kind))
            self.page.size += size
            last = entity_id
        return None


def _size(text: str) -> int:
    return len(text.encode())
