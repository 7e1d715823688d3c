"""The results of tools that write, cut to the size limit of an answer.

The tools that create and add return them. Items that an answer omits were written as well; ``total`` counts all of
them. An answer that is not cut is equal to the reference server's.
"""

from __future__ import annotations

from collections.abc import Sequence

from .model import Added, AddedObservations, CreatedEntities, CreatedRelations, Entity, Relation

__all__ = ["added_observations", "created_entities", "created_relations"]

_OVERHEAD = 40
"""Approximate bytes of JSON around the texts of an entity, an observation or a relation."""


def created_entities(created: Sequence[Entity], budget: int) -> CreatedEntities:
    """Return the first entities that fit. The last one has only the observations that fit."""
    visible: list[Entity] = []
    is_cut = False
    for entity in created:
        observations = entity.observations if isinstance(entity.observations, list) else []
        budget -= _size(entity.name, str(entity.entity_type))
        if is_cut or (budget < 0 and visible):
            is_cut = True
            break
        fitting = _those_that_fit(observations, budget)
        budget -= sum(map(_size, observations))
        is_cut = len(fitting) < len(observations)
        visible.append(
            entity if not is_cut else Entity(name=entity.name, entity_type=entity.entity_type, observations=fitting)
        )
    return (
        CreatedEntities(entities=visible, truncated=True, total=len(created))
        if is_cut
        else CreatedEntities(entities=visible)
    )


def created_relations(created: Sequence[Relation], budget: int) -> CreatedRelations:
    """Return the first relations that fit."""
    visible: list[Relation] = []
    for relation in created:
        budget -= _size(relation.source, relation.target, relation.relation_type)
        if budget < 0 and visible:
            break
        visible.append(relation)
    if len(visible) < len(created):
        return CreatedRelations(relations=visible, truncated=True, total=len(created))
    return CreatedRelations(relations=visible)


def added_observations(results: Sequence[AddedObservations], budget: int) -> Added:
    """Return the first results that fit. The last one has only the observations that fit."""
    visible: list[AddedObservations] = []
    is_cut = False
    for result in results:
        budget -= _size(result.entity_name)
        if is_cut or (budget < 0 and visible):
            is_cut = True
            break
        fitting = _those_that_fit(result.added_observations, budget)
        budget -= sum(map(_size, result.added_observations))
        is_cut = len(fitting) < len(result.added_observations)
        visible.append(AddedObservations(entity_name=result.entity_name, added_observations=fitting))
    total = sum(len(result.added_observations) for result in results)
    return Added(results=visible, truncated=True, total=total) if is_cut else Added(results=visible)


def _those_that_fit(texts: list[str], budget: int) -> list[str]:
    for number, text in enumerate(texts):
        budget -= _size(text)
        if budget < 0:
            return texts[:number]
    return texts


def _size(*texts: str) -> int:
    return _OVERHEAD + sum(len(text.encode()) for text in texts)
