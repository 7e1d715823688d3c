"""``mcptrio show``: the messages of a recording as a sequence, or one message in full.

Exit codes: 0 done, 2 invalid usage, or no recording.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import click

from mcptrio.cli.help_pages import CLICommand
from mcptrio.cli.param_types import IntegerRange
from mcptrio.cli.terminal.json_output import json_text
from mcptrio.cli.terminal.layout import Style, TerminalStyle, counted
from mcptrio.errors import ConfigError
from mcptrio.ground.printable import printable
from mcptrio.recording.transcript import RecordedEntry, Transcript, read_transcript

__all__ = ["command"]

_HEAD = ("number", "seconds", "session", "", "message", "took", "outcome")
_STYLES: dict[str, Style] = {"error": "red", "no response": "yellow"}
_MAX_TEXT_CHARS = 120
"""Characters of a name or an error in the table."""


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
    look = TerminalStyle.of_stdout()
    if number is not None:
        if number > len(transcript.entries):
            raise ConfigError(f"--message: expected a number up to {len(transcript.entries)}, got {number}")
        entry = transcript.entries[number - 1]
        click.echo(json_text(attrs.asdict(entry), is_terminal=True))
        return
    entries = transcript.entries if session is None else transcript.of_session(session)
    rows = [row.cells for row in _rows(entries) if method in (None, row.method) and (not errors or row.has_failed)]
    if rows:
        click.echo(look.table(_HEAD, rows, optional=("seconds", "session"), styles=_STYLES))
    click.echo(_summary(transcript), err=True)


@attrs.frozen
class _Row:
    method: str | None
    has_failed: bool
    cells: Sequence[str]


def _rows(entries: Sequence[RecordedEntry]) -> Iterator[_Row]:
    requests: dict[int, RecordedEntry] = {}
    responses: dict[int, RecordedEntry] = {}
    waiting: dict[tuple[str, bool, str | int | None], RecordedEntry] = {}
    for entry in entries:
        if entry.is_request:
            waiting[entry.session, entry.to_server, entry.id] = entry
        elif entry.is_response:
            request = waiting.pop((entry.session, not entry.to_server, entry.id), None)
            if request is not None:
                requests[entry.number], responses[request.number] = request, entry
    for entry in entries:
        request = requests.get(entry.number)
        response = entry if request is not None else responses.get(entry.number)
        outcome = ""
        if entry.is_response:
            outcome = _outcome(entry.message)
        elif entry.is_request and response is None:
            outcome = "no response"
        named = request if request is not None else entry
        has_failed = (entry.is_request and response is None) or (
            response is not None and _outcome(response.message).startswith("error")
        )
        took = f"{(entry.t - request.t) * 1000:.1f} ms" if request is not None else ""
        cells = (
            str(entry.number),
            f"{entry.t:.3f}",
            entry.session,
            "-->" if entry.to_server else "<--",
            _short(f"{named.method or 'a response without its request'} {_target(named.params)}".rstrip()),
            took,
            outcome,
        )
        yield _Row(named.method, has_failed, [printable(cell) for cell in cells])


def _target(params: Mapping[str, Any]) -> str:
    """Return the parameter that says most to a person."""
    for name in ("name", "uri", "message", "protocolVersion", "progress", "level"):
        if isinstance(value := params.get(name), str | int | float):
            return str(value)
    return ""


def _outcome(message: Mapping[str, Any]) -> str:
    error, result = message.get("error"), message.get("result")
    if isinstance(error, dict):
        return _short(f"error, {error.get('code')}: {error.get('message')}")
    if isinstance(result, dict):
        if result.get("isError"):
            return "error, of the tool"
        for name in ("action", "resultType"):
            if isinstance(value := result.get(name), str) and value != "complete":
                return _short(value.replace("_", " "))
    return "ok"


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MAX_TEXT_CHARS else f"{text[:_MAX_TEXT_CHARS]}…"


def _summary(transcript: Transcript) -> str:
    header = transcript.header
    text = f"{counted(len(transcript.entries), 'messages')} of the {header.get('side')} {transcript.server}, recorded"
    text += f" by mcptrio {header.get('mcptrio')} at {header.get('at')}"
    if transcript.dropped:
        text += f"; {counted(transcript.dropped, 'messages')} missing: the disk was slow or full"
    if transcript.unreadable:
        text += f"; {counted(transcript.unreadable, 'lines')} cannot be read"
    return printable(text)
