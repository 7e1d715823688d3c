"""``mcptrio prompt``: gets a prompt with arguments."""

from __future__ import annotations

from pathlib import Path

import click

from mcptrio.cli.client.arguments import read_file, split_word
from mcptrio.cli.client.client_command import ClientCommand
from mcptrio.cli.client.command_context import CommandContext
from mcptrio.cli.client.contents import Contents
from mcptrio.cli.terminal.progress import progress_line
from mcptrio.errors import ConfigError
from mcptrio.ground.quoting import printable, quote_name
from mcptrio.ground.suggestions import suggest
from mcptrio.protocol.model.prompts import Prompt

__all__ = ["command", "read_texts"]


@click.command("prompt", cls=ClientCommand)
@click.argument("name")
@click.argument("words", nargs=-1, metavar="[KEY=VALUE]...")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, file_okay=False), help="Save images, audio and blobs here."
)
async def command(cmd: CommandContext, name: str, words: tuple[str, ...], output: Path | None) -> None:
    """Get a prompt, and show its messages.

    \b
    mcptrio prompt --plugin garden.py plan season=spring

    Arguments are strings: KEY=VALUE, or KEY=@FILE for the contents of a file.
    """
    cmd.require("prompts")
    arguments = read_texts(words)
    names: list[str] = []
    unlisted: ConfigError | None = None
    async for prompt in cmd.client.prompts():
        if prompt.name == name:
            _check_arguments(prompt, arguments)
            break
        names.append(prompt.name)
    else:
        unlisted = await cmd.unlisted_error("prompt", name, names)
    with cmd.raising_if_refused(unlisted), progress_line(cmd.console, name) as line:
        result = await cmd.client.get_prompt(name, arguments, progress=line)
    if cmd.as_json:
        cmd.console.print_json(cmd.wire(result))
        return
    console = cmd.console
    contents = Contents(console, output, name=name)
    for number, message in enumerate(result.messages):
        if console.is_out_terminal:
            console.print_painted(console.layout.paint(f"{printable(message.role)}:", "bold"))
        # Without the roles, an empty line separates the messages.
        elif number:
            console.print()
        await contents.show((message.content,))


def read_texts(words: tuple[str, ...]) -> dict[str, str]:
    """Convert words to arguments that are strings."""
    arguments: dict[str, str] = {}
    for text in words:
        word = split_word(text)
        # In MCP, arguments of prompts are always strings, so KEY:=JSON has no meaning.
        if word.is_raw:
            raise ConfigError(
                f"argument {quote_name(word.key)}: expected {word.key}=TEXT, got {word.key}:=…; every value is a string"
            )
        if word.key in arguments:
            raise ConfigError(f"argument {quote_name(word.key)}: expected one value, got two")
        value = word.value
        # A text that begins with @ is entered with two.
        if value.startswith("@@"):
            value = value[1:]
        elif value.startswith("@"):
            value = read_file(value[1:], f"argument {quote_name(word.key)}").decode("utf-8", "replace")
        arguments[word.key] = value
    return arguments


def _check_arguments(prompt: Prompt, arguments: dict[str, str]) -> None:
    known = [argument.name for argument in prompt.arguments]
    for name in arguments:
        if name not in known:
            raise ConfigError(f"argument {quote_name(name)}: no such argument{suggest(name, known)}")
    missing = []
    for argument in prompt.arguments:
        if argument.required and argument.name not in arguments:
            description = printable((argument.description or "").strip().rstrip("."))
            missing.append(quote_name(argument.name) + (f" ({description})" if description else ""))
    if missing:
        raise ConfigError(f"missing argument{'s' if len(missing) > 1 else ''}: {', '.join(missing)}")
