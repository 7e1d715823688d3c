"""The parts of a graph, as arguments and results of the tools.

All other modules use them. They are msgspec structs, because an attrs class takes half a millisecond at each start and
cannot have a field with the name ``from``. The fields are those of the reference server in snake case, followed by
additional optional ones. Files keep the names of the reference server.

Source: schemas of the reference memory server (2026.8.31), src/memory/index.ts.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec import field as wire

__all__ = [
    "Added",
    "AddedObservations",
    "Count",
    "CreatedEntities",
    "CreatedRelations",
    "Deleted",
    "Entity",
    "Field",
    "Graph",
    "GraphExport",
    "GraphStats",
    "ImportProblem",
    "Imported",
    "NewEntity",
    "NewObservations",
    "ObservationsToDelete",
    "Relation",
]

Field: TypeAlias = Literal["name", "entity_type", "observations", "relations"]
"""Fields that a result can contain in addition to the name."""

_Truncated = Annotated[bool, Meta(description="Incomplete: pass next_cursor as cursor to get the rest.")]
_LeftOut = Annotated[bool, Meta(description="The result is shortened; everything was stored.")]
_NextCursor = Annotated[str | None, Meta(description="The cursor of the next page; null on the last one.")]


class NewEntity(Struct, kw_only=True):
    name: str
    entity_type: str
    observations: list[str] = []


class Entity(Struct, kw_only=True):
    """An entity, or its requested fields."""

    name: str
    entity_type: str | UnsetType = UNSET
    observations: list[str] | UnsetType = UNSET


class Relation(Struct, kw_only=True, frozen=True):
    source: str = wire(name="from")
    target: str = wire(name="to")
    relation_type: str


class NewObservations(Struct, kw_only=True):
    entity_name: str
    contents: list[str]


class ObservationsToDelete(Struct, kw_only=True):
    entity_name: str
    observations: list[str]


class CreatedEntities(Struct, kw_only=True, frozen=True):
    entities: list[Entity]
    truncated: _LeftOut | UnsetType = UNSET
    total: Annotated[int, Meta(description="Entities that were created.")] | UnsetType = UNSET


class CreatedRelations(Struct, kw_only=True, frozen=True):
    relations: list[Relation]
    truncated: _LeftOut | UnsetType = UNSET
    total: Annotated[int, Meta(description="Relations that were created.")] | UnsetType = UNSET


class AddedObservations(Struct, kw_only=True, frozen=True):
    entity_name: str
    added_observations: list[str]


class Added(Struct, kw_only=True, frozen=True):
    results: list[AddedObservations]
    truncated: _LeftOut | UnsetType = UNSET
    total: Annotated[int, Meta(description="Observations that were added.")] | UnsetType = UNSET


class Deleted(Struct, kw_only=True, frozen=True):
    success: bool
    message: str


class Graph(Struct, kw_only=True, frozen=True):
    """A page of a graph. An entity that is longer than a page continues, under its name, on the next one."""

    entities: list[Entity]
    relations: list[Relation]
    truncated: _Truncated = False
    next_cursor: _NextCursor = None
    total: Annotated[int, Meta(description="Entities on all pages together.")] = 0


class Count(Struct, kw_only=True, frozen=True):
    type: str
    count: int


class GraphStats(Struct, kw_only=True, frozen=True):
    namespace: str
    entities: int
    relations: int
    observations: int
    entity_types: Annotated[list[Count], Meta(description="The most frequent types of entities, at most 100.")]
    relation_types: Annotated[list[Count], Meta(description="The most frequent types of relations, at most 100.")]
    namespaces: Annotated[list[str], Meta(description="Namespaces that are not empty and that this caller may use.")]


class GraphExport(Struct, kw_only=True, frozen=True):
    """A page of a graph, as lines of JSON."""

    jsonl: Annotated[
        str, Meta(description="JSON Lines, one entity or relation per line. Concatenate the pages to get a whole file.")
    ]
    lines: int
    truncated: _Truncated = False
    next_cursor: _NextCursor = None


class ImportProblem(Struct, kw_only=True, frozen=True):
    line: Annotated[int, Meta(description="The number of the line, from 1.")]
    problem: str


class Imported(Struct, kw_only=True, frozen=True):
    """The changes by an import. Lines with known data change nothing."""

    lines: Annotated[int, Meta(description="Lines that are not empty.")] = 0
    entities_created: int = 0
    observations_added: Annotated[int, Meta(description="Observations added to existing entities.")] = 0
    relations_created: int = 0
    skipped: Annotated[int, Meta(description="Invalid lines, which were skipped.")] = 0
    problems: Annotated[list[ImportProblem], Meta(description="The reasons, for the first 50 of them.")] = []
