"""The results of tools that write, within the bound of an answer.

The tools that create and add call it. Items that the answer omits were written too, and it has their number. A complete
answer is equal to the reference server's.
"""

from __future__ import annotations

from collections.abc import Sequence

from .model import Added, AddedObservations, CreatedEntities, CreatedRelations, Entity, Relation

__all__ = ["added", "created_entities", "created_relations"]

_OVERHEAD = 40
"""Bytes around the texts of an entity, an observation or a relation, more or less."""


def created_entities(created: Sequence[Entity], budget: int) -> CreatedEntities:
    """Return the items that fit, from the first on. The last one has only the observations that fit."""
    shown: list[Entity] = []
    is_cut = False
    for entity in created:
        observations = entity.observations if isinstance(entity.observations, list) else []
        budget -= _size(entity.name, str(entity.entity_type))
        if is_cut or (budget < 0 and shown):
            is_cut = True
            break
        kept = _first(observations, budget)
        budget -= sum(map(_size, observations))
        is_cut = len(kept) < len(observations)
        shown.append(
            entity if not is_cut else Entity(name=entity.name, entity_type=entity.entity_type, observations=kept)
        )
    return (
        CreatedEntities(entities=shown, truncated=True, total=len(created))
        if is_cut
        else CreatedEntities(entities=shown)
    )


def created_relations(created: Sequence[Relation], budget: int) -> CreatedRelations:
    """Return the items that fit, from the first on."""
    shown: list[Relation] = []
    for relation in created:
        budget -= _size(relation.source, relation.target, relation.relation_type)
        if budget < 0 and shown:
            break
        shown.append(relation)
    if len(shown) < len(created):
        return CreatedRelations(relations=shown, truncated=True, total=len(created))
    return CreatedRelations(relations=shown)


def added(results: Sequence[AddedObservations], budget: int) -> Added:
    """Return the items that fit, from the first on. The last one has only the observations that fit."""
    shown: list[AddedObservations] = []
    is_cut = False
    for result in results:
        budget -= _size(result.entity_name)
        if is_cut or (budget < 0 and shown):
            is_cut = True
            break
        kept = _first(result.added_observations, budget)
        budget -= sum(map(_size, result.added_observations))
        is_cut = len(kept) < len(result.added_observations)
        shown.append(AddedObservations(entity_name=result.entity_name, added_observations=kept))
    total = sum(len(result.added_observations) for result in results)
    return Added(results=shown, truncated=True, total=total) if is_cut else Added(results=shown)


def _first(texts: list[str], budget: int) -> list[str]:
    for number, text in enumerate(texts):
        budget -= _size(text)
        if budget < 0:
            return texts[:number]
    return texts


def _size(*texts: str) -> int:
    return _OVERHEAD + sum(len(text.encode()) for text in texts)
