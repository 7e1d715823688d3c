"""The tools that change a graph, which the plugin registers unless ``read_only`` is set.

A call is one transaction and happens as a whole or not at all. An import is several, because each line is independent.

Source: names, arguments, annotations, titles, structured results and messages of the reference memory server
(2026.8.31).
"""

from __future__ import annotations

from functools import partial

from attrs import frozen

from mcptrio import Context, ToolError, tool

from .answers import added, created_entities, created_relations
from .graph import Editor
from .jsonl import Line, add_up, import_lines, lines_of
from .memory import Memory
from .model import (
    Added,
    CreatedEntities,
    CreatedRelations,
    Deleted,
    Imported,
    NewEntity,
    NewObservations,
    ObservationsToDelete,
    Relation,
)
from .reading import Namespace
from .texts import added_text, created_text, deleted_text, imported_text, related_text

__all__ = ["Writing"]


@frozen(eq=False)
class Writing:
    """The tools that change one memory."""

    memory: Memory

    @tool(
        title="Create Entities",
        read_only=False,
        destructive=False,
        idempotent=True,
        open_world=False,
        text=created_text,
    )
    async def create_entities(
        self, ctx: Context, entities: list[NewEntity], namespace: Namespace = ""
    ) -> CreatedEntities:
        """Create entities. Existing names are skipped; the result lists those created."""
        memory = self.memory
        memory.bounds.check_count(entities, "entities")
        for number, entity in enumerate(entities):
            memory.bounds.check_entity(entity, f"entities[{number}]")
        created = await memory.change(memory.namespace(ctx, namespace), lambda editor: editor.create_entities(entities))
        return created_entities(created, memory.config.max_answer_bytes)

    @tool(
        title="Create Relations",
        read_only=False,
        destructive=False,
        idempotent=True,
        open_world=False,
        text=related_text,
    )
    async def create_relations(
        self, ctx: Context, relations: list[Relation], namespace: Namespace = ""
    ) -> CreatedRelations:
        """Create relations between existing entities; relation_type is a verb in active voice. Existing relations are
        skipped."""
        memory = self.memory
        memory.bounds.check_count(relations, "relations")
        for number, relation in enumerate(relations):
            memory.bounds.check_relation(relation, f"relations[{number}]")
        created = await memory.change(
            memory.namespace(ctx, namespace), lambda editor: editor.create_relations(relations)
        )
        return created_relations(created, memory.config.max_answer_bytes)

    @tool(
        title="Add Observations",
        read_only=False,
        destructive=False,
        idempotent=True,
        open_world=False,
        text=added_text,
    )
    async def add_observations(
        self, ctx: Context, observations: list[NewObservations], namespace: Namespace = ""
    ) -> Added:
        """Add observations to existing entities. Fails and adds nothing if an entity does not exist."""
        memory = self.memory
        memory.bounds.check_count(observations, "observations")
        for number, addition in enumerate(observations):
            memory.bounds.check_addition(addition, f"observations[{number}]")
        results = await memory.change(
            memory.namespace(ctx, namespace), lambda editor: editor.add_observations(observations)
        )
        return added(results, memory.config.max_answer_bytes)

    @tool(
        title="Delete Entities",
        read_only=False,
        destructive=True,
        idempotent=True,
        open_world=False,
        text=deleted_text,
    )
    async def delete_entities(
        self,
        ctx: Context,
        entity_names: list[str],
        namespace: Namespace = "",
    ) -> Deleted:
        """Delete entities with their relations. Unknown names are ignored."""
        memory = self.memory
        memory.bounds.check_count(entity_names, "entity_names")
        missing = await memory.change(
            memory.namespace(ctx, namespace), lambda editor: editor.delete_entities(entity_names)
        )
        message = "Entities deleted successfully"
        if missing:
            count = len(entity_names) - len(missing)
            message = f"Deleted {count} of {len(entity_names)} entities. Not found: {_listed(missing)}"
        return Deleted(success=True, message=message)

    @tool(
        title="Delete Observations",
        read_only=False,
        destructive=True,
        idempotent=True,
        open_world=False,
        text=deleted_text,
    )
    async def delete_observations(
        self, ctx: Context, deletions: list[ObservationsToDelete], namespace: Namespace = ""
    ) -> Deleted:
        """Delete observations. Each of the deletions names an entity. Unknown ones are ignored."""
        memory = self.memory
        memory.bounds.check_count(deletions, "deletions")
        for number, deletion in enumerate(deletions):
            memory.bounds.check_count(deletion.observations, f"deletions[{number}].observations")
        count, missing = await memory.change(
            memory.namespace(ctx, namespace), lambda editor: editor.delete_observations(deletions)
        )
        requested = sum(len(deletion.observations) for deletion in deletions)
        message = "Observations deleted successfully"
        if count != requested:
            message = f"Deleted {count} of {requested} observations."
            message += f" Entities not found: {_listed(missing)}" if missing else ""
        return Deleted(success=True, message=message)

    @tool(
        title="Delete Relations",
        read_only=False,
        destructive=True,
        idempotent=True,
        open_world=False,
        text=deleted_text,
    )
    async def delete_relations(
        self,
        ctx: Context,
        relations: list[Relation],
        namespace: Namespace = "",
    ) -> Deleted:
        """Delete relations. Unknown ones are ignored."""
        memory = self.memory
        memory.bounds.check_count(relations, "relations")
        count = await memory.change(memory.namespace(ctx, namespace), lambda editor: editor.delete_relations(relations))
        message = "Relations deleted successfully"
        if count != len(relations):
            message = f"Deleted {count} of {len(relations)} relations. The rest matched nothing."
        return Deleted(success=True, message=message)

    @tool(
        title="Import Graph",
        read_only=False,
        destructive=False,
        idempotent=True,
        open_world=False,
        text=imported_text,
    )
    async def import_graph(
        self,
        ctx: Context,
        jsonl: str,
        namespace: Namespace = "",
    ) -> Imported:
        """Import lines of JSON (jsonl) as {tool:export_graph} writes them. Existing items are kept."""
        memory = self.memory
        if len(jsonl) > memory.config.max_import_bytes:
            raise ToolError(
                f"expected at most {memory.config.max_import_bytes} characters at `jsonl`, got {len(jsonl)}; "
                f"import the lines in several calls"
            )
        space = memory.namespace(ctx, namespace)
        done = Imported()
        batches = lines_of(jsonl)
        total = sum(len(batch) for batch in batches)
        seen = 0
        for batch in batches:
            done = add_up(done, await memory.change(space, partial(_import, memory, batch)))
            seen += len(batch)
            await ctx.report_progress(seen, total, f"{seen} of {total} lines")
        return done


def _import(memory: Memory, batch: list[Line], editor: Editor) -> Imported:
    return import_lines(editor, memory.bounds, batch)


def _listed(names: list[str]) -> str:
    """Names for a message, limited in number."""
    shown = ", ".join(name[:100] for name in names[:50])
    return shown if len(names) <= 50 else f"{shown}, and {len(names) - 50} more"
