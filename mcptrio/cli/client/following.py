"""Follows a running tool call for ``mcptrio call``: shows its progress, and leaves it running as a task on request.

Ctrl-C cancels a call. If the server has made a task of it, the user at a terminal is asked first.
"""

from __future__ import annotations

from typing import Literal

import trio

from mcptrio.cli.client.command_context import CommandContext
from mcptrio.cli.client.detached_tasks import DetachedTask, DetachedTasks
from mcptrio.cli.terminal.progress import ProgressLine
from mcptrio.cli.terminal.terminal import Interrupted, Terminal
from mcptrio.client.tool_calls import ToolCall
from mcptrio.errors import ConfigError, StoreFailed
from mcptrio.ground.quoting import printable
from mcptrio.protocol.model.tools import CallToolResult

__all__ = ["follow_call", "record_detached"]

_ANSWERS: dict[str, Literal["detach", "cancel", "wait"]] = {
    word: answer for answer in ("detach", "cancel", "wait") for word in (answer, answer[0])
}


async def follow_call(cmd: CommandContext, call: ToolCall, line: ProgressLine) -> CallToolResult | None:
    """Return the result of a call; ``None`` if the user has detached it."""
    interrupts = cmd.console.interrupts
    while True:
        with trio.CancelScope() as scope, interrupts.cancelling(scope):
            async for progress in call:
                if call.task_id is None:
                    line(progress)
                elif progress.message is not None:
                    line.show_status(progress.message)
            return await call.result()
        # Ctrl-C. In a pipe there is no user to ask, and the program that started the command expects it to end.
        answer = "cancel"
        if cmd.terminal is not None and call.task_id is not None:
            answer = await _ask(cmd, cmd.terminal, call.task_id)
        if answer == "cancel":
            # Until here, the interrupt only opened this question. It now ends the command, or the line of the shell.
            interrupts.interrupt()
            await trio.sleep_forever()
        # The call may have ended during the question.
        if answer == "detach" and await call.detach() is not None:
            return None


async def record_detached(cmd: CommandContext, tool: str, id: str) -> None:
    """Print the id of a detached task, and add it to the user's list."""
    if cmd.as_json:
        cmd.console.print_json({"taskId": id})
    else:
        cmd.console.print(id)
    try:
        await DetachedTasks.here().add(DetachedTask.of(id, tool, cmd.server, cmd.options))
    except (ConfigError, StoreFailed) as error:
        # The task runs and its id was printed, so the command has done its work.
        cmd.console.note(f"`mcptrio tasks` will not list it: {error}", "yellow")
    if cmd.options.plugins or cmd.has_started_server:
        cmd.console.note("this server ends with its client, and usually its tasks too", "yellow")


async def _ask(cmd: CommandContext, terminal: Terminal, id: str) -> Literal["detach", "cancel", "wait"]:
    async with terminal.exclusive():
        cmd.console.note(f"the tool runs as task {printable(id)}")
        while True:
            try:
                line = await terminal.read_line(cmd.console.paint("[d]etach, [c]ancel or [w]ait? ", "bold"))
            except (Interrupted, EOFError):
                return "cancel"
            if (answer := _ANSWERS.get(line.strip().lower())) is not None:
                return answer
