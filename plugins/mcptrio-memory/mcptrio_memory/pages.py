"""A graph in pages: entities in some order, each with its relations, within a bound.

The tools and resources that read call it in a thread. All pages together contain every entity and every relation
exactly once, and no page exceeds the bound, however large an entity is: it then continues, under its name, on the next
page. A relation comes with the first of its ends. The cursor names the last item, so deletions in between shift
nothing.

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

__all__ = ["Chosen", "Everything", "GraphPage", "Order", "Wanted", "read_page"]

_ALL_OUT: Final = -1
"""In place of an observation: they were all given, the relations were not."""
_LOOSE: Final = 2**62
"""The position behind all entities: relations of which no end is there."""
_BATCH: Final = 200
_OVERHEAD: Final = 40
"""Bytes around the texts of an entity, an observation or a relation, more or less."""

_IN_SPACE: Final = "namespace = (SELECT id FROM namespaces WHERE name = :space)"

Row: TypeAlias = tuple[int, int, str, str]
"""Position, id, name and type of an entity."""


@frozen(eq=False)
class Everything:
    """The whole graph, in the order in which it was made."""

    namespace: str
    kind: str = "g"
    """One letter, which distinguishes cursors of different tools."""

    def rows(self, statements: Statements, start: int) -> Iterator[Row]:
        """Return the rows from a position on. The position is the entity's id."""
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
        """Whether an entity comes before a position."""
        return entity < position


@frozen(eq=False)
class Chosen:
    """A selection of entities by id, in a given order."""

    ids: Sequence[int]
    kind: str
    _positions: dict[int, int] = field(
        init=False,
        default=Factory(lambda self: {entity: position for position, entity in enumerate(self.ids)}, takes_self=True),
    )

    def rows(self, statements: Statements, start: int) -> Iterator[Row]:
        """Return the rows from a position on."""
        for position in range(start, len(self.ids)):
            yield from statements.execute(
                "SELECT ?, id, name, type FROM entities WHERE id = ?", (position, self.ids[position])
            ).fetchall()

    def is_before(self, entity: int, position: int) -> bool:
        """Whether an entity is one of these, and comes before a position."""
        return self._positions.get(entity, position) < position


Order: TypeAlias = Everything | Chosen
"""Which entities, and in which order."""


@frozen(kw_only=True, eq=False)
class Wanted:
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
    """The last one given."""
    relation: int = 0
    """The last one given."""

    def write(self, kind: str) -> str:
        packed = struct.pack(">cqqq", kind.encode(), self.position, self.observation, self.relation)
        return base64.urlsafe_b64encode(packed).decode().rstrip("=")

    @classmethod
    def read(cls, text: str, kind: str) -> _Cursor:
        if not text:
            return cls()
        try:
            found, *places = struct.unpack(">cqqq", base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        except (binascii.Error, struct.error, ValueError) as error:
            raise ToolError("expected the next_cursor of the previous page at `cursor`, got another text") from error
        if found != kind.encode() or min(places) < _ALL_OUT or places[0] < 0:
            raise ToolError("expected a next_cursor of the same tool at `cursor`, got one of another tool")
        return cls(*places)


def read_page(statements: Statements, namespace: str, order: Order, wanted: Wanted, cursor: str) -> GraphPage:
    """One page.

    Raises:
        ToolError: the cursor is none of this tool's.
    """
    page = GraphPage()
    start = _Cursor.read(cursor, order.kind)
    reader = _Reader(statements, namespace, order, wanted, page)
    rest = reader.read_entities(start) if start.position < _LOOSE else None
    if rest is None and "relations" in wanted.fields and isinstance(order, Everything):
        rest = reader.read_loose(start)
    page.cursor = rest.write(order.kind) if rest is not None else None
    return page


@frozen(eq=False)
class _Reader:
    statements: Statements
    namespace: str
    order: Order
    wanted: Wanted
    page: GraphPage

    def read_entities(self, start: _Cursor) -> _Cursor | None:
        """Fill the page, and return the position for the next one; ``None`` at the end."""
        for count, row in enumerate(self.order.rows(self.statements, start.position)):
            place = start if row[0] == start.position else _Cursor(row[0])
            if count >= self.wanted.limit:
                return place
            rest = self._read_entity(row, place)
            if rest is None and "relations" in self.wanted.fields:
                rest = self._read_relations(row, place)
            if rest is not None:
                return rest
        return None

    def read_loose(self, start: _Cursor) -> _Cursor | None:
        after = start.relation if start.position == _LOOSE else 0
        rows = self.statements.execute(
            "SELECT r.id, r.source, r.target, r.type FROM relations r"
            " WHERE r.namespace = (SELECT id FROM namespaces WHERE name = ?) AND r.id > ? AND NOT EXISTS"
            " (SELECT 1 FROM entities e WHERE e.namespace = r.namespace AND e.name IN (r.source, r.target))"
            " ORDER BY r.id LIMIT ?",
            (self.namespace, after, 1 + self.wanted.budget // _OVERHEAD),
        ).fetchall()
        return self._give(rows, after, _LOOSE)

    def _read_entity(self, row: Row, place: _Cursor) -> _Cursor | None:
        position, identity, name, kind = row
        if place.observation == _ALL_OUT:
            return None
        wanted, page = self.wanted, self.page
        texts: list[str] = []
        size = _OVERHEAD + _size(name) + (_size(kind) if "entity_type" in wanted.fields else 0)
        rows = self._observations(identity, place.observation) if "observations" in wanted.fields else []
        whole = wanted.whole and size + sum(_OVERHEAD // 4 + _size(text) for _, text in rows)
        if not page.has_room(whole or size, wanted.budget):
            return place
        rest = None
        last = place.observation
        for observation, text in rows:
            more = _OVERHEAD // 4 + _size(text)
            fits = page.size + size + more <= wanted.budget or wanted.whole
            # The first thing on a page is given however large, or the next page could not be another one.
            if not fits and (texts or page.entities or page.relations):
                rest = _Cursor(position, last)
                break
            texts.append(text)
            size += more
            last = observation
        if rest is not None and not texts:
            return place  # a name alone says less than the whole on the next page
        entity = Entity(name=name)
        if "entity_type" in wanted.fields:
            entity.entity_type = kind
        if "observations" in wanted.fields:
            entity.observations = texts
        page.entities.append(entity)
        page.size += size
        return rest

    def _observations(self, entity: int, after: int) -> list[tuple[int, str]]:
        rows: list[tuple[int, str]] = self.statements.execute(
            "SELECT id, text FROM observations WHERE entity = ? AND id > ? ORDER BY id", (entity, after)
        ).fetchall()
        return rows

    def _read_relations(self, row: Row, place: _Cursor) -> _Cursor | None:
        position, _, name, _ = row
        rows = self.statements.execute(
            "SELECT r.id, r.source, r.target, r.type, (SELECT e.id FROM entities e WHERE e.namespace = r.namespace"
            " AND e.name = CASE WHEN r.source = :name THEN r.target ELSE r.source END)"
            " FROM relations r WHERE r.id > :after AND r.id IN ("
            f"SELECT id FROM relations WHERE source = :name AND {_IN_SPACE} UNION "
            f"SELECT id FROM relations WHERE target = :name AND {_IN_SPACE}) ORDER BY r.id",
            {"space": self.namespace, "name": name, "after": place.relation},
        ).fetchall()
        new = [found[:4] for found in rows if found[4] is None or not self.order.is_before(found[4], position)]
        return self._give(new, place.relation, position)

    def _give(self, rows: Sequence[tuple[int, str, str, str]], last: int, position: int) -> _Cursor | None:
        for identity, source, target, kind in rows:
            size = _OVERHEAD + _size(source) + _size(target) + _size(kind)
            if not self.page.has_room(size, self.wanted.budget):
                return _Cursor(position, _ALL_OUT, last)
            self.page.relations.append(Relation(source=source, target=target, relation_type=kind))
            self.page.size += size
            last = identity
        return None


def _size(text: str) -> int:
    return len(text.encode())
