"""The tools that change a graph, which the plugin registers unless ``read_only`` is set.

Each call is one transaction. Only an import has several, because its lines are independent of each other. Only the
tools that read describe ``namespace``, because models pay for the description in each definition.

Source: names, arguments, annotations, titles, structured results and messages of the reference memory server
(2026.8.31).
"""

from __future__ import annotations

from functools import partial

from attrs import frozen

from mcptrio import Context, ToolError, tool

from .answers import added_observations, created_entities, created_relations
from .graph import GraphEditor
from .jsonl import Line, add_imports, batches_of_lines, import_lines
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
from .texts import added_text, created_text, deleted_text, imported_text, related_text

__all__ = ["MemoryWriteTools"]


@frozen(eq=False)
class MemoryWriteTools:
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
    async def create_entities(self, ctx: Context, entities: list[NewEntity], namespace: str = "") -> CreatedEntities:
        """Create entities. Existing names are skipped; the result lists those created."""
        memory = self.memory
        memory.limits.check_count(entities, "entities")
        for number, entity in enumerate(entities):
            memory.limits.check_entity(entity, f"entities[{number}]")
        created = await memory.change(
            memory.graph_name(ctx, namespace), lambda editor: editor.create_entities(entities)
        )
        return created_entities(created, memory.config.max_answer_bytes)

    @tool(
        title="Create Relations",
        read_only=False,
        destructive=False,
        idempotent=True,
        open_world=False,
        text=related_text,
    )
    async def create_relations(self, ctx: Context, relations: list[Relation], namespace: str = "") -> CreatedRelations:
        """Create relations between existing entities; relation_type is a verb in active voice. Existing relations are
        skipped."""
        memory = self.memory
        memory.limits.check_count(relations, "relations")
        for number, relation in enumerate(relations):
            memory.limits.check_relation(relation, f"relations[{number}]")
        created = await memory.change(
            memory.graph_name(ctx, namespace), lambda editor: editor.create_relations(relations)
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
    async def add_observations(self, ctx: Context, observations: list[NewObservations], namespace: str = "") -> Added:
        """Add observations to existing entities. Fails and adds nothing if an entity does not exist."""
        memory = self.memory
        memory.limits.check_count(observations, "observations")
        for number, addition in enumerate(observations):
            memory.limits.check_addition(addition, f"observations[{number}]")
        results = await memory.change(
            memory.graph_name(ctx, namespace), lambda editor: editor.add_observations(observations)
        )
        return added_observations(results, memory.config.max_answer_bytes)

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
        namespace: str = "",
    ) -> Deleted:
        """Delete entities with their relations. Unknown names are ignored."""
        memory = self.memory
        memory.limits.check_count(entity_names, "entity_names")
        missing = await memory.change(
            memory.graph_name(ctx, namespace), lambda editor: editor.delete_entities(entity_names)
        )
        message = "Entities deleted successfully"
        if missing:
            count = len(entity_names) - len(missing)
            message = f"Deleted {count} of {len(entity_names)} entities. Not found: {_join_names(missing)}"
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
        self, ctx: Context, deletions: list[ObservationsToDelete], namespace: str = ""
    ) -> Deleted:
        """Delete observations. Each of the deletions names an entity. Unknown ones are ignored."""
        memory = self.memory
        memory.limits.check_count(deletions, "deletions")
        for number, deletion in enumerate(deletions):
            memory.limits.check_count(deletion.observations, f"deletions[{number}].observations")
        count, missing = await memory.change(
            memory.graph_name(ctx, namespace), lambda editor: editor.delete_observations(deletions)
        )
        requested = sum(len(deletion.observations) for deletion in deletions)
        message = "Observations deleted successfully"
        if count != requested:
            message = f"Deleted {count} of {requested} observations."
            message += f" Entities not found: {_join_names(missing)}" if missing else ""
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
        namespace: str = "",
    ) -> Deleted:
        """Delete relations. Unknown ones are ignored."""
        memory = self.memory
        memory.limits.check_count(relations, "relations")
        count = await memory.change(
            memory.graph_name(ctx, namespace), lambda editor: editor.delete_relations(relations)
        )
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
        namespace: str = "",
    ) -> Imported:
        """Import lines of JSON (jsonl) as {tool:export_graph} writes them. Existing items are kept."""
        memory = self.memory
        if len(jsonl) > memory.config.max_import_bytes:
            raise ToolError(
                f"expected at most {memory.config.max_import_bytes} characters at `jsonl`, got {len(jsonl)}; "
                f"import the lines in several calls"
            )
        graph_name = memory.graph_name(ctx, namespace)
        result = Imported()
        batches = batches_of_lines(jsonl)
        total = sum(len(batch) for batch in batches)
        line_count = 0
        for batch in batches:
            result = add_imports(result, await memory.change(graph_name, partial(_import, memory, batch)))
            line_count += len(batch)
            await ctx.report_progress(line_count, total, f"{line_count} of {total} lines")
        return result


def _import(memory: Memory, batch: list[Line], editor: GraphEditor) -> Imported:
    return import_lines(editor, memory.limits, batch)


def _join_names(names: list[str]) -> str:
    """Return names for a message, limited in number."""
    text = ", ".join(name[:100] for name in names[:50])
    return text if len(names) <= 50 else f"{text}, and {len(names) - 50} more"
