"""Changes of the graph, in SQL.

The tools that write and the import call it, in a thread and within a transaction. A change reports the entities that it
touched, and the graph gets a new revision exactly if something has changed.

Source: rules of the reference memory server, src/memory/index.ts: known items are omitted from the answer;
add_observations and create_relations fail as a whole for an unknown entity; deleting an unknown item is no error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from attrs import field, frozen

from mcptrio.errors import ToolError

from .model import AddedObservations, Entity, NewEntity, NewObservations, ObservationsToDelete, Relation
from .statements import Statements

__all__ = ["Editor", "GraphChange"]

T = TypeVar("T")


@frozen(kw_only=True, eq=False)
class GraphChange(Generic[T]):
    """The result of a change.

    Args:
        result: for the tool.
        touched: names of changed entities with their revisions; ``None`` for a deleted one.
    """

    namespace: str
    result: T
    touched: dict[str, int | None] = field(factory=dict)
    revision: int | None = None
    """The graph's new revision; ``None`` if nothing has changed."""


@frozen(eq=False)
class Editor:
    """Changes one graph.

    Args:
        statements: inside a transaction that writes.
        namespace: of the graph.
        most: observations of one entity.
    """

    statements: Statements
    namespace: str
    most: int
    _touched: dict[str, int | None] = field(init=False, factory=dict)

    def done(self, result: T) -> GraphChange[T]:
        """End the change: raise the revision, and set it on the touched entities."""
        if not self._touched:
            return GraphChange(namespace=self.namespace, result=result)
        run = self.statements
        run.execute("UPDATE namespaces SET revision = revision + 1 WHERE name = ?", (self.namespace,))
        revision = run.one("SELECT revision FROM namespaces WHERE name = ?", (self.namespace,))
        touched: dict[str, int | None] = {}
        for name in self._touched:
            entity = self._entity(name)
            if entity is not None:
                run.execute("UPDATE entities SET revision = ? WHERE id = ?", (revision, entity))
            touched[name] = revision if entity is not None else None
        return GraphChange(namespace=self.namespace, result=result, touched=touched, revision=revision)

    def create_entities(self, entities: Sequence[NewEntity]) -> list[Entity]:
        """Create the missing entities, and return them. Repeated observations count once.

        Raises:
            ToolError: one has too many observations.
        """
        created: list[Entity] = []
        for new in entities:
            if self._entity(new.name) is not None:
                continue
            space = self._space()
            cursor = self.statements.execute(
                "INSERT INTO entities (namespace, name, type, revision) VALUES (?, ?, ?, 0)",
                (space, new.name, new.entity_type),
            )
            assert cursor.lastrowid is not None
            observations = self._add(cursor.lastrowid, new.name, new.observations)
            self._index(cursor.lastrowid)
            self._touched[new.name] = None
            created.append(Entity(name=new.name, entity_type=new.entity_type, observations=observations))
        return created

    def create_relations(self, relations: Sequence[Relation], *, loose: bool = False) -> list[Relation]:
        """Create the missing relations, and return them.

        Args:
            loose: the ends need not be there.

        Raises:
            ToolError: an end is not there; nothing is created.
        """
        created: list[Relation] = []
        for relation in relations:
            if not loose:
                self._known(relation.source)
                self._known(relation.target)
            cursor = self.statements.execute(
                "INSERT OR IGNORE INTO relations (namespace, source, target, type) VALUES (?, ?, ?, ?)",
                (self._space(), relation.source, relation.target, relation.relation_type),
            )
            if cursor.rowcount:
                self._touched[relation.source] = self._touched[relation.target] = None
                created.append(relation)
        return created

    def add_observations(self, additions: Sequence[NewObservations]) -> list[AddedObservations]:
        """Add the missing observations, and return them by entity.

        Raises:
            ToolError: an entity is not there, or would have too many; nothing is added.
        """
        results: list[AddedObservations] = []
        for addition in additions:
            entity = self._known(addition.entity_name)
            added = self._add(entity, addition.entity_name, addition.contents)
            if added:
                self._index(entity)
                self._touched[addition.entity_name] = None
            results.append(AddedObservations(entity_name=addition.entity_name, added_observations=added))
        return results

    def delete_entities(self, names: Sequence[str]) -> list[str]:
        """Delete entities with their relations. The names that were not there."""
        missing = [name for name in names if self._entity(name) is None]
        for name in dict.fromkeys(names):
            entity = self._entity(name)
            if entity is None:
                continue
            # One end at a time: for "either" SQLite would go through all relations of the graph.
            for end in ("source", "target"):
                of = (self._space(), name)
                rows = self.statements.execute(
                    f"SELECT source, target FROM relations WHERE namespace = ? AND {end} = ?", of
                ).fetchall()
                self._touched.update(dict.fromkeys(each for row in rows for each in row))
                self.statements.execute(f"DELETE FROM relations WHERE namespace = ? AND {end} = ?", of)
            for table, key in (("observations", "entity"), ("search", "rowid"), ("entities", "id")):
                self.statements.execute(f"DELETE FROM {table} WHERE {key} = ?", (entity,))
            self._touched[name] = None
        return missing

    def delete_observations(self, deletions: Sequence[ObservationsToDelete]) -> tuple[int, list[str]]:
        """Delete observations. Returns how many were deleted, and the names of unknown entities."""
        count = 0
        missing: list[str] = []
        for deletion in deletions:
            entity = self._entity(deletion.entity_name)
            if entity is None:
                missing.append(deletion.entity_name)
                continue
            before = count
            for text in deletion.observations:
                count += self.statements.execute(
                    "DELETE FROM observations WHERE entity = ? AND text = ?", (entity, text)
                ).rowcount
            if count > before:
                self._index(entity)
                self._touched[deletion.entity_name] = None
        return count, missing

    def delete_relations(self, relations: Iterable[Relation]) -> int:
        """Delete relations, and return how many were deleted."""
        count = 0
        for relation in relations:
            deleted = self.statements.execute(
                "DELETE FROM relations WHERE namespace = ? AND source = ? AND target = ? AND type = ?",
                (self._space(), relation.source, relation.target, relation.relation_type),
            ).rowcount
            if deleted:
                count += deleted
                self._touched[relation.source] = self._touched[relation.target] = None
        return count

    def has(self, name: str) -> bool:
        """Whether there is such an entity."""
        return self._entity(name) is not None

    # Private

    def _space(self) -> int:
        run = self.statements
        found = run.one("SELECT id FROM namespaces WHERE name = ?", (self.namespace,))
        if found is None:
            run.execute("INSERT INTO namespaces (name, revision) VALUES (?, 0)", (self.namespace,))
            found = run.one("SELECT id FROM namespaces WHERE name = ?", (self.namespace,))
        return int(found)

    def _entity(self, name: str) -> int | None:
        found: int | None = self.statements.one(
            "SELECT id FROM entities WHERE namespace = (SELECT id FROM namespaces WHERE name = ?) AND name = ?",
            (self.namespace, name),
        )
        return found

    def _known(self, name: str) -> int:
        entity = self._entity(name)
        if entity is None:
            raise ToolError(f"Entity with name {name} not found; nothing was changed")
        return entity

    def _add(self, entity: int, name: str, texts: Iterable[str]) -> list[str]:
        count = self.statements.one("SELECT count(*) FROM observations WHERE entity = ?", (entity,))
        added = [
            text
            for text in texts
            if self.statements.execute(
                "INSERT OR IGNORE INTO observations (entity, text) VALUES (?, ?)", (entity, text)
            ).rowcount
        ]
        if count + len(added) > self.most:
            raise ToolError(
                f"expected at most {self.most} observations of one entity, got {count + len(added)} of {name}; "
                f"nothing was changed"
            )
        return added

    def _index(self, entity: int) -> None:
        """Update the search index of an entity."""
        run = self.statements
        name, kind = run.execute("SELECT name, type FROM entities WHERE id = ?", (entity,)).fetchall()[0]
        rows = run.execute("SELECT text FROM observations WHERE entity = ? ORDER BY id", (entity,)).fetchall()
        body = "\n".join(text for (text,) in rows)
        run.execute(
            "INSERT OR REPLACE INTO search (rowid, name, type, body) VALUES (?, ?, ?, ?)",
            (entity, name.casefold(), kind.casefold(), body.casefold()),
        )
