"""``mcptrio task``: shows the state of a task, waits for its result, or cancels it."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import click
import trio

from mcptrio.cli.call import show_result
from mcptrio.cli.client.client_command import common_options
from mcptrio.cli.client.client_settings import VARIABLES, client_settings
from mcptrio.cli.client.command_context import CommandContext
from mcptrio.cli.client.detached_tasks import DetachedTask, DetachedTasks
from mcptrio.cli.client.exit_codes import EXIT_CODES, ExitCode
from mcptrio.cli.client.running import run_action
from mcptrio.cli.client.targets import TargetOptions
from mcptrio.cli.help_pages import CLICommand
from mcptrio.cli.terminal.progress import progress_line
from mcptrio.client.calls import Progress
from mcptrio.errors import ConfigError, InvalidParams
from mcptrio.ground.quoting import quote_name

__all__ = ["command"]

_OPTIONS = ("headers", "env", "timeout", "as_json", "verbose")
_MIN_ID_CHARS = 16
"""Characters from which a word that begins with one hyphen is an id and no option."""
_MARK = "id="
_REMOVE_SECONDS = 5.0
_HINTS = {
    "completed": "--wait prints the result",
    "failed": "--wait prints the error",
    "input_required": "--wait shows the questions of the server",
}


class _TaskCommand(CLICommand):
    arguments = (
        ("ID", "The id that `mcptrio call --detach` has printed; `mcptrio tasks` lists them."),
        ("TARGET", "The server, for a task that is not in that list."),
    )
    environment = VARIABLES

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # Ids are often random in Base64, in which one of 64 begins with a hyphen, as an option does.
        marked = [f"{_MARK}{arg}" if len(arg) >= _MIN_ID_CHARS and re.match("-[^-]", arg) else arg for arg in args]
        return super().parse_args(ctx, marked)


def _without_mark(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    return value.removeprefix(_MARK)


@click.command("task", cls=_TaskCommand, epilog=EXIT_CODES)
@click.argument("id", callback=_without_mark)
@click.argument("target", required=False)
@click.option("--wait", is_flag=True, help="Wait for the result and print it. Ctrl-C leaves the task running.")
@click.option("--cancel", is_flag=True, help="Ask the server to cancel the task.")
@click.pass_context
def command(
    ctx: click.Context,
    id: str,
    target: str | None,
    wait: bool,
    cancel: bool,
    headers: tuple[str, ...],
    env: tuple[str, ...],
    timeout: float | None,
    as_json: bool,
    verbose: bool,
) -> None:
    """Show the state of a task, wait for its result, or cancel it.

    Questions of the server are asked as in `mcptrio call`. Pass --header and --env as in the call: they are not stored
    with the task.
    """
    if wait and cancel:
        raise click.UsageError("expected --wait or --cancel, got both", ctx)
    more: dict[str, Any] = {
        "headers": headers,
        "env": env,
        "settings": client_settings(),
        "timeout": timeout,
        "as_json": as_json,
        "verbose": verbose,
    }
    action = partial(_run, id=id, wait=wait, cancel=cancel)
    if target is not None:
        # The tool is not known, so the id stands for it in messages.
        ctx.exit(run_action(partial(action, tool=id), TargetOptions(target=target, **more)))
    task = trio.run(_find_task, id)
    with task.in_folder():
        ctx.exit(run_action(partial(action, tool=task.tool), task.options(**more)))


command.params.extend(option for option in common_options() if option.name in _OPTIONS)


async def _find_task(id: str) -> DetachedTask:
    task = await DetachedTasks.here().find(id)
    if task is None:
        raise ConfigError(f"no detached task {quote_name(id)}; name its server too: mcptrio task ID TARGET")
    return task


async def _run(cmd: CommandContext, *, id: str, tool: str, wait: bool, cancel: bool) -> int:
    task = cmd.client.task(id)
    is_gone = False
    try:
        if cancel:
            await task.cancel()
        if wait:
            with progress_line(cmd.console, tool) as line:

                def report(progress: Progress) -> None:
                    line.show_status(progress.message or "")

                result = await task.result(progress=report)
            return await show_result(cmd, tool, None, result, None)
        state = await task.state()
    except InvalidParams:
        is_gone = True
        raise
    finally:
        if is_gone:
            # The server has deleted the task for good.
            with trio.move_on_after(_REMOVE_SECONDS, shield=True):
                await DetachedTasks.here().remove(id)
    if cmd.as_json:
        cmd.console.print_json({"taskId": state.id, "status": state.status, "statusMessage": state.message})
        return ExitCode.DONE
    cmd.console.print(state.status if state.message is None else f"{state.status}: {state.message}")
    if (hint := _HINTS.get(state.status)) is not None:
        cmd.console.note(hint, "dim")
    return ExitCode.DONE
