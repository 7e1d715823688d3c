"""``mcptrio call``: calls a tool, whose schema decides the types of the arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from mcptrio.cli.client.arguments import check_arguments, read_arguments, read_file, read_json
from mcptrio.cli.client.client_command import RecordingCommand
from mcptrio.cli.client.command_context import CommandContext
from mcptrio.cli.client.contents import Contents, repeats_structured
from mcptrio.cli.client.exit_codes import ExitCode
from mcptrio.cli.client.following import follow_call, record_detached
from mcptrio.cli.client.tool_options import as_words, help_of
from mcptrio.cli.terminal.console import refers_to_log
from mcptrio.cli.terminal.input_lines import read_input
from mcptrio.cli.terminal.progress import progress_line
from mcptrio.errors import ConfigError
from mcptrio.ground.printable import printable
from mcptrio.ground.quoting import quote, quote_name
from mcptrio.ground.suggestions import did_you_mean
from mcptrio.protocol.model.content import TextContent
from mcptrio.protocol.model.fields import ABSENT
from mcptrio.protocol.model.tools import CallToolResult, Tool

__all__ = ["command", "show_result"]


_HELP = ("--help", "-h")
_FORM = """a JSON object such as {"city": "Oslo"}"""


class _CallCommand(RecordingCommand):
    """Treats unknown options, and ``--help`` after the name of a tool, as options of the tool."""

    arguments = (
        *RecordingCommand.arguments,
        ("KEY=VALUE", "A string if the tool's schema accepts one; otherwise JSON: a number, true, an array, …"),
        ("KEY:=JSON", "JSON, whatever the schema accepts."),
        ("KEY=@FILE", "The contents of a file."),
        ("A.B=VALUE", "The member B of the object A."),
        ("--KEY VALUE", "The same as KEY=VALUE. Repeat either for an array."),
    )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # Options of the tool are unknown to click and end up among the words.
        ctx.ignore_unknown_options = True
        # After `--` comes the command of a server, which may have its own `--help`.
        end = args.index("--") if "--" in args else len(args)
        rest = [word for number, word in enumerate(args) if number >= end or word not in _HELP]
        if len(rest) == len(args) or not self._has_tool(ctx, rest):
            return super().parse_args(ctx, args)
        parsed = super().parse_args(ctx, rest)
        # The command shows the tool's help if it finds this word.
        ctx.params["words"] = (_HELP[0],)
        return parsed

    def _has_tool(self, ctx: click.Context, args: list[str]) -> bool:
        # Parsed on trial, because only the whole command line shows whether a tool is named.
        trial = click.Context(self, parent=ctx.parent, info_name=ctx.info_name, ignore_unknown_options=True)
        try:
            super().parse_args(trial, [*args])
        except click.UsageError:
            return False
        return True


@click.command("call", cls=_CallCommand)
@click.argument("tool")
@click.argument("words", nargs=-1, metavar="[KEY=VALUE|--KEY VALUE]...")
@click.option("--args", "base", metavar="JSON|@FILE|-", help="The arguments as a JSON object; KEY=VALUE adds to them.")
@click.option("--no-check", is_flag=True, help="Send the arguments without checking them against the tool's schema.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, file_okay=False), help="Save images, audio and blobs here."
)
@click.option("--detach", is_flag=True, help="Print the id of the task that the server creates, and leave it running.")
async def command(
    cmd: CommandContext,
    tool: str,
    words: tuple[str, ...],
    base: str | None,
    no_check: bool,
    output: Path | None,
    detach: bool,
) -> int:
    """Call a tool.

    \b
    mcptrio call --plugin hello.py add a=2 b=3
    mcptrio call http://127.0.0.1:8000/mcp greet

    TOOL --help lists the arguments of the tool.
    """
    names = []
    listed_tool: Tool | None = None
    # Stops at the tool: a server may have thousands, on many pages.
    async for each in cmd.client.tools():
        names.append(each.name)
        if each.name == tool:
            listed_tool = each
            break
    option_names = [name for param in command.params if isinstance(param, click.Option) for name in param.opts]
    if listed_tool is None and tool.startswith("--"):
        raise ConfigError(
            f"no option {quote_name(tool)}{did_you_mean(tool, option_names)}; options of a tool follow its name"
        )
    # A hidden tool can still be called, and the server's answer then names the missing scope.
    unlisted = await cmd.unlisted_error("tool", tool, names) if listed_tool is None and not no_check else None
    if unlisted is not None and _HELP[0] in words:
        raise unlisted
    no_check = no_check or unlisted is not None
    if listed_tool is not None and _HELP[0] in words:
        cmd.console.print_painted(
            help_of(listed_tool, f"mcptrio call … {printable(tool)}", is_coloured=cmd.console.layout.is_coloured)
        )
        return ExitCode.DONE
    base_arguments = await _read_base(cmd, base)
    schema = listed_tool.input_schema if listed_tool is not None else {}
    arguments = read_arguments(
        [*as_words(words, schema, option_names)], schema, base=base_arguments, checked=not no_check
    )
    if not no_check:
        check_arguments(arguments, schema)
    with cmd.raising_if_refused(unlisted), progress_line(cmd.console, tool) as line:
        async with cmd.client.start_tool(tool, arguments, as_task=detach) as call:
            id = await call.detach() if detach else None
            result = await follow_call(cmd, call, line) if id is None else None
    if result is None:
        assert call.task_id is not None
        await record_detached(cmd, tool, call.task_id)
        return ExitCode.DONE
    if detach:
        cmd.console.note(f"{tool} has ended without a task", "dim")
    return await show_result(cmd, tool, listed_tool, result, output)


async def _read_base(cmd: CommandContext, text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    is_typed = text != "-" and not text.startswith("@")
    if text == "-":
        # The shell reads its own commands from standard input.
        if not cmd.may_read_input:
            raise ConfigError("--args: expected JSON or @FILE in the shell, which reads standard input itself, got -")
        text = await read_input()
    elif text.startswith("@"):
        text = read_file(text[1:], "--args").decode("utf-8", "replace")
    value = read_json(text, "--args", _FORM, "in a shell put all of it in single quotes" if is_typed else "")
    if not isinstance(value, dict):
        raise ConfigError(f"--args: expected {_FORM}, got {quote(text)}")
    return value


async def show_result(
    cmd: CommandContext, name: str, tool: Tool | None, result: CallToolResult, output: Path | None
) -> int:
    """Show the result of a tool, and return the exit code.

    Args:
        tool: The tool as the server lists it; ``None`` if it is not known.
        output: The folder for images, audio and blobs.
    """
    code = ExitCode.FAILED if result.is_error else ExitCode.DONE
    contents = Contents(cmd.console, output, name=name)
    if cmd.as_json:
        cmd.console.print_json(cmd.wire(result))
        if output is not None:
            await contents.save(result.content)
        return code
    if result.is_error:
        answer = " ".join(each.text for each in result.content if isinstance(each, TextContent))
        # A plugin in this process has already logged its failure, with the author's frames.
        if cmd.console.has_shown(answer):
            return code
        # A plugin that is not configured warns at the start, and returns the same text for each call.
        if answer in cmd.console.warnings:
            cmd.console.print_error(f"{name} reported an error: see the warning above")
            return code
        cmd.console.print_error(f"{name} reported an error:")
        await contents.show(result.content, as_error=True)
        if cmd.has_started_server and not cmd.verbose and refers_to_log(answer):
            cmd.console.note("--verbose shows the server's log")
        return code
    structured = result.structured_content
    # At a terminal the structured content is easier to read than the same JSON in one line.
    if repeats_structured(result.content, structured) and cmd.console.is_out_terminal:
        cmd.console.print_json(structured)
        return code
    await contents.show(result.content)
    if structured is not ABSENT and not repeats_structured(result.content, structured):
        # The text was written for the model and describes the result. Other content, such as an image, does not.
        if any(isinstance(each, TextContent) for each in result.content):
            if cmd.console.is_out_terminal:
                cmd.console.note("--json shows the structured content too", "dim")
        else:
            cmd.console.print_json(structured)
    if structured is not ABSENT and tool is not None and tool.output_schema is None and cmd.verbose:
        cmd.console.note(f"{name} has no output schema, yet its result is structured", "yellow")
    return code
