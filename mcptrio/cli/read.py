"""``mcptrio read``: prints or saves the contents of a resource."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click
import trio

from mcptrio.cli.client.client_command import ClientCommand
from mcptrio.cli.client.command_context import CommandContext
from mcptrio.cli.client.contents import Contents, bytes_of
from mcptrio.cli.client.saving import write_file
from mcptrio.cli.terminal.progress import progress_line
from mcptrio.cli.terminal.terminal import Interrupted
from mcptrio.errors import ConfigError
from mcptrio.protocol.model.resource_contents import BlobResourceContents

__all__ = ["command"]

_STDOUT = Path("-")


@click.command("read", cls=ClientCommand)
@click.argument("uri")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Write to this file, to files in this folder, or to standard output (-).",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
async def command(cmd: CommandContext, uri: str, output: Path | None, force: bool) -> None:
    """Read a resource.

    \b
    mcptrio read --plugin notes.py note:///1
    mcptrio read http://127.0.0.1:8000/mcp image:///logo -o logo.png

    Text is printed with a line break at its end. Binary data is printed only into a pipe. With -o -, both are printed
    unchanged.
    """
    cmd.require("resources")
    file = None if output is None or output == _STDOUT or await trio.Path(output).is_dir() else output
    # The user is asked before the request, whose result would be lost after a no.
    if file is not None and not force and await trio.Path(file).exists():
        force = await _may_overwrite(cmd, file)
    with progress_line(cmd.console, uri) as line:
        result = await cmd.client.read_resource(uri, progress=line)
    if cmd.as_json:
        cmd.console.print_json(cmd.wire(result))
    elif file is not None:
        if len(result.contents) != 1:
            raise ConfigError(
                f"--output: expected a folder for the {len(result.contents)} parts of {uri}, got a file name"
            )
        data = bytes_of(result.contents[0], result.contents[0].uri)
        # Without a yes, a file that was created during the request is not overwritten either.
        await trio.to_thread.run_sync(partial(write_file, file, data, overwrite=force))
        cmd.console.note(f"{len(data)} bytes saved as {file}", "dim")
    elif output is not None and output != _STDOUT:
        contents = Contents(cmd.console, output, name=uri)
        for each in result.contents:
            await contents.save_resource(each)
    else:
        for each in result.contents:
            # Bytes could contain control sequences for the terminal.
            if output == _STDOUT or (isinstance(each, BlobResourceContents) and not cmd.console.is_out_terminal):
                cmd.console.write_bytes(bytes_of(each, each.uri))
            else:
                await Contents(cmd.console, None, name=uri).show_resource(each)


async def _may_overwrite(cmd: CommandContext, path: Path) -> bool:
    if cmd.terminal is not None and cmd.is_interactive:
        async with cmd.terminal.exclusive():
            try:
                answer = await cmd.terminal.read_line(f"{path} exists; overwrite it? (yes/no) ")
            except (EOFError, Interrupted):
                answer = "no"
        if answer.strip().lower() in ("yes", "y"):
            return True
        raise ConfigError(f"--output: {path} was not changed")
    raise ConfigError(f"--output: {path} exists; --force overwrites it")
