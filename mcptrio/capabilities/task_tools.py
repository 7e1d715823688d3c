"""Fallback tools, for clients that do not support tasks: one starts a task of a tool, the other shows its status.

The capability of tools makes them for ``@tool(task="required", fallback_tools=True)``. Their tasks do not differ from
those of other clients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from mcptrio.capabilities.context import Context, inputs_of
from mcptrio.capabilities.decorators import ToolMark
from mcptrio.capabilities.relayed_question import RelayedQuestion
from mcptrio.errors import InvalidParams, MCPError, ToolError
from mcptrio.protocol.model.content import TextContent
from mcptrio.protocol.model.fields import evolve
from mcptrio.protocol.model.input_required import InputRequest
from mcptrio.protocol.model.tools import CallToolParams, CallToolResult, Tool
from mcptrio.runtime.inputs import declares
from mcptrio.runtime.request import RequestScope
from mcptrio.tasks.document import TaskDocument
from mcptrio.tasks.tasks import TaskPolicy, Tasks

__all__ = ["TaskTools", "original_names", "start_name"]

_START = "start_"
_STATUS = "_status"


def start_name(name: str) -> str:
    """Return the name of the tool that starts a task of a tool."""
    return _START + name


def original_names(name: str) -> Iterator[str]:
    """Yield the names of the tools for which a tool of this name may be a fallback."""
    if name.startswith(_START):
        yield name.removeprefix(_START)
    if name.endswith(_STATUS):
        yield name.removesuffix(_STATUS)


class TaskTools:
    """Makes fallback tools."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks

    def pair(
        self, tool: Tool, mark: ToolMark, check: Callable[[dict[str, Any]], object], policy: Callable[[], TaskPolicy]
    ) -> tuple[tuple[Callable[..., Any], ToolMark], ...]:
        """Return the functions and the marks of the two fallback tools.

        Args:
            check: Raises InvalidParams if arguments do not match the schema of the tool.
            policy: Returns the policy for tasks of the tool.
        """
        start, status = start_name(tool.name), tool.name + _STATUS

        async def begin(context: Context, arguments: dict[str, Any]) -> CallToolResult:
            try:
                check(arguments)
            except InvalidParams as error:
                raise ToolError(f"invalid arguments: {error.message}") from error
            call = CallToolParams(name=tool.name, arguments=arguments)
            created = await self._tasks.submit(inputs_of(context).scope, policy(), call)
            return _text(
                f"{tool.name} has started with the id {created.task_id}. Call {status} with this id for its status and,"
                f" once it has ended, its result; wait about {mark.poll_interval:g} seconds before you ask again."
            )

        async def show(context: Context, id: str, cancel: bool = False) -> CallToolResult:
            return await self._show(context, tool.name, id, cancel=cancel)

        note = f"This takes long. It returns an id at once; call {status} with the id for the result."
        listed = evolve(
            tool, description="\n\n".join(filter(None, (tool.description, note))), output_schema=None, execution=None
        )
        return (
            (begin, ToolMark(name=start, listed=listed, scopes=mark.scopes)),
            (
                show,
                ToolMark(
                    name=status,
                    description=f"Show the status of what {start} has started, and its result once it has ended.",
                    scopes=mark.scopes,
                    input_schema=_status_schema(start),
                ),
            ),
        )

    async def _show(self, context: Context, tool: str, id: str, *, cancel: bool) -> CallToolResult:
        scope = inputs_of(context).scope
        document = await self._find(scope, tool, id)
        if cancel:
            await self._tasks.cancel(scope, id)
            document = await self._find(scope, tool, id)
        elif document.questions and await self._ask(context, id, document):
            document = await self._find(scope, tool, id)
        revision = scope.request.peer.revision
        if document.has_ended_for(revision):
            try:
                return revision.structure(document.outcome(revision), CallToolResult)
            except MCPError as error:
                raise ToolError(f"{document.status}: {error.message}") from error
        if document.is_cancelled:
            return _text("it is being cancelled")
        questions = [
            str((wire.get("params") or {}).get("message", wire["method"])) for wire in document.questions.values()
        ]
        if questions:
            return _text(
                f"it waits for an answer from the user, but this client cannot ask the user: {'; '.join(questions)}"
            )
        return _text(document.status if document.message is None else f"{document.status}: {document.message}")

    async def _find(self, scope: RequestScope, tool: str, id: str) -> TaskDocument:
        try:
            record = await self._tasks.find(scope, id)
        except InvalidParams:
            record = None
        if record is None or record.tool != tool:
            expected = f"an id that {start_name(tool)} has returned, of work that has not expired"
            raise ToolError(f"expected {expected}, got {id[:100]!r}")
        return TaskDocument.decode(record.data)

    async def _ask(self, context: Context, id: str, document: TaskDocument) -> bool:
        """Pass the open questions to the client of this call. Returns False if it does not support them."""
        inputs, task_revision = inputs_of(context), document.revision
        questions = {
            key: RelayedQuestion.of(task_revision.structure(wire, InputRequest), f"{id}:{key}")
            for key, wire in document.questions.items()
        }
        if not all(declares(inputs.scope.request.peer, each.capability) for each in questions.values()):
            return False
        answers = await inputs.ask(list(questions.values()))
        wire = {key: task_revision.unstructure(answer) for key, answer in zip(questions, answers, strict=True)}
        await self._tasks.answer(inputs.scope, id, wire)
        return True


def _status_schema(start: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "id": {"type": "string", "description": f"The id that {start} has returned."},
            "cancel": {"type": "boolean", "description": "Whether to cancel the work."},
        },
        "required": ["id"],
    }


def _text(text: str) -> CallToolResult:
    return CallToolResult(content=(TextContent(text=text),))
