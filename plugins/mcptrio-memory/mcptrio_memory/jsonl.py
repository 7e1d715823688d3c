"""The file format of the reference server: lines of JSON, each an entity or a relation.

import_graph, export_graph and, at the first start, ``import_file`` use it. Invalid lines are reported with their
numbers; all other lines are imported. Existing items change nothing, so a file may be imported again.

Source: src/memory/index.ts of the reference memory server, loadGraph and saveGraph.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import msgspec
import trio
from attrs import frozen
from msgspec import Meta, Struct
from msgspec.structs import replace

from mcptrio.errors import ConfigError, ToolError

from .config import Config
from .graph import GraphChange, GraphEditor
from .limits import MemoryLimits
from .model import Entity, Imported, ImportProblem, NewEntity, NewObservations, Relation
from .statements import Statements

if TYPE_CHECKING:
    from .database import MemoryDatabase

__all__ = ["BATCH", "Line", "add_imports", "batches_of_lines", "import_lines", "import_once", "write_lines"]

logger = logging.getLogger(__name__)

BATCH: Final = 500
"""Maximum number of lines in one transaction. Other processes wait for less than a second."""
_MAX_LINE_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of a line of a file, and of the lines in one transaction."""
_MAX_PROBLEMS: Final = 50

Line: TypeAlias = tuple[int, bytes]
"""A line and its number, from 1."""


class _EntityLine(Struct, tag_field="type", tag="entity"):
    name: str
    entityType: str
    observations: list[str] = []


class _RelationLine(Struct, tag_field="type", tag="relation"):
    source: Annotated[str, Meta(min_length=1)] = msgspec.field(name="from")
    target: Annotated[str, Meta(min_length=1)] = msgspec.field(name="to")
    relationType: str


_decoder = msgspec.json.Decoder(_EntityLine | _RelationLine)


@frozen(eq=False)
class _Importer:
    editor: GraphEditor
    limits: MemoryLimits

    def import_lines(self, lines: Sequence[Line]) -> Imported:
        """Add the items in the lines to the graph."""
        imported = Imported()
        for number, line in lines:
            text = line.removeprefix(b"\xef\xbb\xbf").strip()
            if not text:
                continue
            imported = replace(imported, lines=imported.lines + 1)
            run = self.editor.statements
            run.execute("SAVEPOINT line")
            try:
                imported = self._import_line(text, imported)
            except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, ToolError) as error:
                run.execute("ROLLBACK TO line")
                imported = _with_problem(imported, ImportProblem(line=number, problem=str(error)))
            run.execute("RELEASE line")
        return imported

    def _import_line(self, text: bytes, imported: Imported) -> Imported:
        item = _decoder.decode(text)
        if isinstance(item, _RelationLine):
            relation = Relation(source=item.source, target=item.target, relation_type=item.relationType)
            self.limits.check_relation(relation, "relation")
            created = self.editor.create_relations([relation], allow_dangling=True)
            return replace(imported, relations_created=imported.relations_created + len(created))
        entity = NewEntity(name=item.name, entity_type=item.entityType, observations=item.observations)
        self.limits.check_entity(entity, "entity")
        if self.editor.create_entities([entity]):
            return replace(imported, entities_created=imported.entities_created + 1)
        addition = NewObservations(entity_name=entity.name, contents=entity.observations)
        added = len(self.editor.add_observations([addition])[0].added_observations)
        return replace(imported, observations_added=imported.observations_added + added)


def import_lines(editor: GraphEditor, limits: MemoryLimits, lines: Sequence[Line]) -> Imported:
    """Add the items in the lines to a graph. Must be called in a thread and inside a transaction."""
    return _Importer(editor, limits).import_lines(lines)


def batches_of_lines(text: str) -> list[list[Line]]:
    """Return the numbered lines of a text in batches."""
    return list(_batches(enumerate(text.encode("utf-8", "surrogatepass").split(b"\n"), 1)))


def write_lines(entities: Iterable[Entity], relations: Iterable[Relation]) -> list[str]:
    """Return a page of a graph as lines of the reference server's file."""
    lines: list[dict[str, Any]] = [
        {
            "type": "entity",
            "name": entity.name,
            "entityType": entity.entity_type,
            "observations": entity.observations,
        }
        for entity in entities
    ]
    lines += [
        {"type": "relation", "from": each.source, "to": each.target, "relationType": each.relation_type}
        for each in relations
    ]
    return [msgspec.json.encode(line).decode() for line in lines]


def add_imports(one: Imported, other: Imported) -> Imported:
    """Return the sum of two parts of an import."""
    return Imported(
        lines=one.lines + other.lines,
        entities_created=one.entities_created + other.entities_created,
        observations_added=one.observations_added + other.observations_added,
        relations_created=one.relations_created + other.relations_created,
        skipped=one.skipped + other.skipped,
        problems=[*one.problems, *other.problems][:_MAX_PROBLEMS],
    )


async def import_once(database: MemoryDatabase, config: Config, limits: MemoryLimits) -> None:
    """Import ``import_file`` into ``namespace`` unless this was done before; log invalid lines.

    Raises:
        ConfigError: The file cannot be read.
    """
    path = config.import_path()
    if path is None or await database.read(partial(_was_imported, config.namespace, str(path))):
        return
    imported = Imported()
    try:
        file = await trio.to_thread.run_sync(_open, path)
        try:
            batches = _batches(_lines_in(file))
            while batch := await trio.to_thread.run_sync(next, batches, None):
                imported = add_imports(imported, await database.write(partial(_import_batch, config, limits, batch)))
        finally:
            file.close()
    except OSError as error:
        raise ConfigError(f"import_file {path}: cannot be read: {error.strerror or error}") from error
    await database.write(partial(_mark_imported, config, str(path)))
    for problem in imported.problems:
        logger.warning("%s: line %d was skipped: %s", path, problem.line, problem.problem)
    logger.info(
        "%s: %d entities and %d relations imported, %d lines skipped",
        path,
        imported.entities_created,
        imported.relations_created,
        imported.skipped,
    )


def _import_batch(config: Config, limits: MemoryLimits, batch: Sequence[Line], statements: Statements) -> Imported:
    editor = GraphEditor(statements, config.namespace, config.max_observations)
    change: GraphChange[Imported] = editor.finish(import_lines(editor, limits, batch))
    return change.result


def _was_imported(namespace: str, file: str, statements: Statements) -> bool:
    return bool(
        statements.fetch_value(
            "SELECT 1 FROM imports WHERE file = ? AND namespace = (SELECT id FROM namespaces WHERE name = ?)",
            (file, namespace),
        )
    )


def _mark_imported(config: Config, file: str, statements: Statements) -> None:
    statements.execute("INSERT OR IGNORE INTO namespaces (name, revision) VALUES (?, 0)", (config.namespace,))
    statements.execute(
        "INSERT OR IGNORE INTO imports (namespace, file) SELECT id, ? FROM namespaces WHERE name = ?",
        (file, config.namespace),
    )


def _open(path: Path) -> io.BufferedReader:
    return open(path, "rb")


def _lines_in(file: io.BufferedReader) -> Iterator[Line]:
    number = 0
    while line := file.readline(_MAX_LINE_BYTES):
        number += 1
        if len(line) == _MAX_LINE_BYTES and not line.endswith(b"\n"):
            while (rest := file.readline(_MAX_LINE_BYTES)) and not rest.endswith(b"\n"):
                pass
            line = b"{ a line that is too long"
        yield number, line


def _batches(lines: Iterable[Line]) -> Iterator[list[Line]]:
    batch: list[Line] = []
    size = 0
    for line in lines:
        batch.append(line)
        size += len(line[1])
        if len(batch) >= BATCH or size >= _MAX_LINE_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _with_problem(imported: Imported, problem: ImportProblem) -> Imported:
    return replace(imported, skipped=imported.skipped + 1, problems=[*imported.problems, problem][:_MAX_PROBLEMS])
