"""Changes of the graph, in SQL.

The tools that write and the import make them, in a thread and within a transaction. A change reports the entities that
it has changed. The graph gets a new revision only if at least one entity has changed.

Source: rules of the reference memory server, src/memory/index.ts. Existing items are omitted from the answer. If an
entity is unknown, add_observations and create_relations change nothing. Deleting an unknown item is not an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from attrs import field, frozen

from mcptrio.errors import ToolError

from .model import AddedObservations, Entity, NewEntity, NewObservations, ObservationsToDelete, Relation
from .statements import Statements

__all__ = ["GraphChange", "GraphEditor"]

T = TypeVar("T")


@frozen(kw_only=True, eq=False)
class GraphChange(Generic[T]):
    """The result of a change.

    Args:
        result: The result for the tool.
        entity_revisions: The revision of each changed entity, by name; ``None`` for a deleted one.
    """

    namespace: str
    result: T
    entity_revisions: dict[str, int | None] = field(factory=dict)
    revision: int | None = None
    """The graph's new revision; ``None`` if nothing has changed."""


@frozen(eq=False)
class GraphEditor:
    """Changes one graph.

    Args:
        statements: The statements of a transaction that writes.
        namespace: The name of the graph.
        max_observations: Maximum number of observations of one entity.
    """

    statements: Statements
    namespace: str
    max_observations: int
    _changed_entities: dict[str, int | None] = field(init=False, factory=dict)

    def finish(self, result: T) -> GraphChange[T]:
        """End the change: increment the revision, and store it in the changed entities."""
        if not self._changed_entities:
            return GraphChange(namespace=self.namespace, result=result)
        run = self.statements
        run.execute("UPDATE namespaces SET revision = revision + 1 WHERE name = ?", (self.namespace,))
        revision = run.fetch_value("SELECT revision FROM namespaces WHERE name = ?", (self.namespace,))
        entity_revisions: dict[str, int | None] = {}
        for name in self._changed_entities:
            entity = self._entity_id(name)
            if entity is not None:
                run.execute("UPDATE entities SET revision = ? WHERE id = ?", (revision, entity))
            entity_revisions[name] = revision if entity is not None else None
        return GraphChange(
            namespace=self.namespace, result=result, entity_revisions=entity_revisions, revision=revision
        )

    def create_entities(self, entities: Sequence[NewEntity]) -> list[Entity]:
        """Create the missing entities, and return them. Repeated observations count once.

        Raises:
            ToolError: An entity has too many observations.
        """
        created: list[Entity] = []
        for new in entities:
            if self._entity_id(new.name) is not None:
                continue
            space = self._namespace_id()
            cursor = self.statements.execute(
                "INSERT INTO entities (namespace, name, type, revision) VALUES (?, ?, ?, 0)",
                (space, new.name, new.entity_type),
            )
            assert cursor.lastrowid is not None
            observations = self._add(cursor.lastrowid, new.name, new.observations)
            self._index(cursor.lastrowid)
            self._changed_entities[new.name] = None
            created.append(Entity(name=new.name, entity_type=new.entity_type, observations=observations))
        return created

    def create_relations(self, relations: Sequence[Relation], *, allow_dangling: bool = False) -> list[Relation]:
        """Create the missing relations, and return them.

        Args:
            allow_dangling: The entities of a relation need not exist.

        Raises:
            ToolError: An entity does not exist, and nothing is created.
        """
        created: list[Relation] = []
        for relation in relations:
            if not allow_dangling:
                self._require_entity(relation.source)
                self._require_entity(relation.target)
            cursor = self.statements.execute(
                "INSERT OR IGNORE INTO relations (namespace, source, target, type) VALUES (?, ?, ?, ?)",
                (self._namespace_id(), relation.source, relation.target, relation.relation_type),
            )
            if cursor.rowcount:
                self._changed_entities[relation.source] = self._changed_entities[relation.target] = None
                created.append(relation)
        return created

    def add_observations(self, additions: Sequence[NewObservations]) -> list[AddedObservations]:
        """Add the missing observations, and return them by entity.

        Raises:
            ToolError: An entity does not exist, or would have too many observations; nothing is added.
        """
        results: list[AddedObservations] = []
        for addition in additions:
            entity = self._require_entity(addition.entity_name)
            added = self._add(entity, addition.entity_name, addition.contents)
            if added:
                self._index(entity)
                self._changed_entities[addition.entity_name] = None
            results.append(AddedObservations(entity_name=addition.entity_name, added_observations=added))
        return results

    def delete_entities(self, names: Sequence[str]) -> list[str]:
        """Delete entities with their relations. Return the names that do not exist."""
        missing = [name for name in names if self._entity_id(name) is None]
        for name in dict.fromkeys(names):
            entity = self._entity_id(name)
            if entity is None:
                continue
            # One end at a time: for a condition with OR, SQLite would scan all relations of the graph.
            for end in ("source", "target"):
                of = (self._namespace_id(), name)
                rows = self.statements.execute(
                    f"SELECT source, target FROM relations WHERE namespace = ? AND {end} = ?", of
                ).fetchall()
                self._changed_entities.update(dict.fromkeys(each for row in rows for each in row))
                self.statements.execute(f"DELETE FROM relations WHERE namespace = ? AND {end} = ?", of)
            for table, key in (("observations", "entity"), ("search", "rowid"), ("entities", "id")):
                self.statements.execute(f"DELETE FROM {table} WHERE {key} = ?", (entity,))
            self._changed_entities[name] = None
        return missing

    def delete_observations(self, deletions: Sequence[ObservationsToDelete]) -> tuple[int, list[str]]:
        """Delete observations. Return the number of deleted ones, and the names of unknown entities."""
        count = 0
        missing: list[str] = []
        for deletion in deletions:
            entity = self._entity_id(deletion.entity_name)
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
                self._changed_entities[deletion.entity_name] = None
        return count, missing

    def delete_relations(self, relations: Iterable[Relation]) -> int:
        """Delete relations, and return how many were deleted."""
        count = 0
        for relation in relations:
            deleted = self.statements.execute(
                "DELETE FROM relations WHERE namespace = ? AND source = ? AND target = ? AND type = ?",
                (self._namespace_id(), relation.source, relation.target, relation.relation_type),
            ).rowcount
            if deleted:
                count += deleted
                self._changed_entities[relation.source] = self._changed_entities[relation.target] = None
        return count

    def has(self, name: str) -> bool:
        """Return whether an entity with this name exists."""
        return self._entity_id(name) is not None

    # Private

    def _namespace_id(self) -> int:
        run = self.statements
        namespace_id = run.fetch_value("SELECT id FROM namespaces WHERE name = ?", (self.namespace,))
        if namespace_id is None:
            run.execute("INSERT INTO namespaces (name, revision) VALUES (?, 0)", (self.namespace,))
            namespace_id = run.fetch_value("SELECT id FROM namespaces WHERE name = ?", (self.namespace,))
        return int(namespace_id)

    def _entity_id(self, name: str) -> int | None:
        entity_id: int | None = self.statements.fetch_value(
            "SELECT id FROM entities WHERE namespace = (SELECT id FROM namespaces WHERE name = ?) AND name = ?",
            (self.namespace, name),
        )
        return entity_id

    def _require_entity(self, name: str) -> int:
        entity = self._entity_id(name)
        if entity is None:
            raise ToolError(f"Entity with name {name} not found; nothing was changed")
        return entity

    def _add(self, entity: int, name: str, texts: Iterable[str]) -> list[str]:
        count = self.statements.fetch_value("SELECT count(*) FROM observations WHERE entity = ?", (entity,))
        added = [
            text
            for text in texts
            if self.statements.execute(
                "INSERT OR IGNORE INTO observations (entity, text) VALUES (?, ?)", (entity, text)
            ).rowcount
        ]
        if count + len(added) > self.max_observations:
            raise ToolError(
                f"expected at most {self.max_observations} observations of one entity, got {count + len(added)} of "
                f"{name}; nothing was changed"
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
