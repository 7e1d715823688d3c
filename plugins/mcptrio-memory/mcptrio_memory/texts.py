"""The texts of the tools' results, for models. Programs read the structured content instead.

The tools pass these functions as ``text=``.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import UNSET, UnsetType

from .model import (
    Added,
    Count,
    CreatedEntities,
    CreatedRelations,
    Deleted,
    Entity,
    Graph,
    GraphExport,
    GraphStats,
    Imported,
    Relation,
)

__all__ = [
    "added_text",
    "created_text",
    "deleted_text",
    "export_text",
    "graph_text",
    "imported_text",
    "related_text",
    "stats_text",
]


def graph_text(graph: Graph) -> str:
    """Return a line for each entity, observation and relation."""
    lines = [*_entities(graph.entities), *map(_relation, graph.relations)]
    if graph.next_cursor is not None:
        lines.append(f"[{graph.total} entities in all; continue with cursor={graph.next_cursor}]")
    return "\n".join(lines) or "no entities"


def created_text(created: CreatedEntities) -> str:
    """Return the names of new entities."""
    return _list_text("created", [entity.name for entity in created.entities], created.total)


def related_text(created: CreatedRelations) -> str:
    """Return the new relations."""
    return _list_text("created", map(_relation, created.relations), created.total)


def added_text(added: Added) -> str:
    """Return the number of new observations of each entity."""
    counts = [f"{each.entity_name} +{len(each.added_observations)}" for each in added.results]
    return _list_text("observations added", counts, added.total)


def deleted_text(deleted: Deleted) -> str:
    """Return the message."""
    return deleted.message


def stats_text(stats: GraphStats) -> str:
    """Return the total counts, and the counts by type."""
    lines = [
        f"{stats.namespace}: {stats.entities} entities, {stats.relations} relations, {stats.observations} observations",
        *_counts("entities", stats.entity_types),
        *_counts("relations", stats.relation_types),
        f"namespaces: {', '.join(stats.namespaces) or 'none'}",
    ]
    return "\n".join(lines)


def export_text(export: GraphExport) -> str:
    """Return the lines of JSON, and how to continue."""
    if export.next_cursor is None:
        return export.jsonl
    return f"{export.jsonl}[more lines; continue with cursor={export.next_cursor}]"


def imported_text(imported: Imported) -> str:
    """Return the changes that an import has made, and the invalid lines."""
    lines = [
        f"{imported.lines} lines: {imported.entities_created} entities and {imported.relations_created} relations"
        f" created, {imported.observations_added} observations added, {imported.skipped} lines skipped"
    ]
    lines += [f"line {each.line}: {each.problem}" for each in imported.problems]
    return "\n".join(lines)


def _entities(entities: Iterable[Entity]) -> Iterable[str]:
    for entity in entities:
        yield entity.name if isinstance(entity.entity_type, UnsetType) else f"{entity.name} ({entity.entity_type})"
        if not isinstance(entity.observations, UnsetType):
            yield from (f"- {text}" for text in entity.observations)


def _relation(relation: Relation) -> str:
    return f"{relation.source} -> {relation.relation_type} -> {relation.target}"


def _counts(what: str, counts: list[Count]) -> list[str]:
    return [f"{what}: {', '.join(f'{each.type} {each.count}' for each in counts)}"] if counts else []


def _list_text(what: str, items: Iterable[str], total: int | UnsetType) -> str:
    lines = [*items]
    more = "" if total is UNSET else f"\n[{total} in all; the rest was stored too]"
    return f"{what}: {', '.join(lines)}{more}" if lines else f"{what}: nothing, all already existed"
