"""``mcptrio show``: the messages of a recording as a sequence, or one message in full.

Exit codes: 0 done, 2 invalid usage, or no recording.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs
import click

from mcptrio.cli.help_pages import CLICommand
from mcptrio.cli.param_types import IntegerRange
from mcptrio.cli.terminal.json_output import json_text
from mcptrio.cli.terminal.layout import Style, TerminalLayout, count_text
from mcptrio.errors import ConfigError
from mcptrio.ground.printable import printable
from mcptrio.recording.sequence import RecordedMessage, sequence_of
from mcptrio.recording.transcript import Transcript, read_transcript

__all__ = ["command"]

_HEAD = ("number", "seconds", "session", "", "message", "took", "outcome")
_STYLES: dict[str, Style] = {"error": "red", "no response": "yellow"}


@click.command("show", cls=CLICommand)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--session", metavar="NAME", help="Only the messages of this session.")
@click.option("--method", metavar="METHOD", help="Only requests and notifications of this method, and their responses.")
@click.option("--errors", is_flag=True, help="Only requests that failed or have no response, with their responses.")
@click.option(
    "--message",
    "number",
    type=IntegerRange("the number of a message, from 1", 1),
    metavar="NUMBER",
    help="Print this message in full, as JSON.",
)
def command(file: Path, session: str | None, method: str | None, errors: bool, number: int | None) -> None:
    """Show the messages of a recording.

    \b
    mcptrio show trip.jsonl
    mcptrio show trip.jsonl --errors
    mcptrio show trip.jsonl --message 12

    --> is a message of the client, and <-- one of the server. TOOK is the time from a request to its response.
    """
    transcript = read_transcript(file)
    layout = TerminalLayout.of_stdout()
    if number is not None:
        if number > len(transcript.entries):
            raise ConfigError(f"--message: expected a number up to {len(transcript.entries)}, got {number}")
        entry = transcript.entries[number - 1]
        click.echo(json_text(attrs.asdict(entry), is_terminal=True))
        return
    entries = transcript.entries if session is None else transcript.of_session(session)
    messages = sequence_of(entries)
    rows = [_cells(each) for each in messages if method in (None, each.method) and (not errors or each.has_failed)]
    if rows:
        click.echo(layout.table(_HEAD, rows, optional=("seconds", "session"), styles=_STYLES))
    click.echo(_summary(transcript), err=True)


def _cells(message: RecordedMessage) -> Sequence[str]:
    cells = (
        str(message.number),
        f"{message.t:.3f}",
        message.session,
        "-->" if message.to_server else "<--",
        f"{message.method or 'a response without its request'} {message.target}".rstrip(),
        f"{message.seconds * 1000:.1f} ms" if message.seconds is not None else "",
        message.outcome,
    )
    return [printable(cell) for cell in cells]


def _summary(transcript: Transcript) -> str:
    header = transcript.header
    text = (
        f"{count_text(len(transcript.entries), 'messages')} of the {header.get('side')} {transcript.server}, recorded"
    )
    text += f" by mcptrio {header.get('mcptrio')} at {header.get('at')}"
    if transcript.dropped:
        text += f"; {count_text(transcript.dropped, 'messages')} missing: the disk was slow or full"
    if transcript.unreadable:
        text += f"; {count_text(transcript.unreadable, 'lines')} cannot be read"
    return printable(text)
