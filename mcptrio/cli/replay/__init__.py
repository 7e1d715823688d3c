"""``mcptrio replay``: answers as a recorded server, or repeats a recorded client's requests at a live server.

Exit codes: those of client commands; 1 if a live server answers differently.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click
import trio

from mcptrio.cli.client.client_settings import client_settings
from mcptrio.cli.client.command_context import CommandContext
from mcptrio.cli.client.exit_codes import ExitCode
from mcptrio.cli.client.running import run_at_console, run_connected
from mcptrio.cli.client.targets import TargetOptions, find_target
from mcptrio.cli.help_pages import CLICommand
from mcptrio.cli.param_types import OneOf
from mcptrio.cli.replay.recorded_calls import RecordedAnswers, recorded_calls
from mcptrio.cli.replay.repetition import repeat_calls
from mcptrio.cli.server.log_output import log_to_stderr
from mcptrio.recording.exchanges import exchanges_of, revision_of
from mcptrio.recording.replay_server import ReplayServer
from mcptrio.recording.transcript import Transcript, read_transcript
from mcptrio.serve.process import run
from mcptrio.transports.stdio import open_stdio

__all__ = ["command"]


class _Speed(click.ParamType[float]):
    name = "speed"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if value == "max":
            return 0.0
        try:
            speed = float(str(value))
        except ValueError:
            speed = -1.0
        if not 0 <= speed < float("inf"):
            self.fail(f"expected a number from 0, or max, got {value!r}", param, ctx)
        return speed


@click.command(
    "replay", cls=CLICommand, epilog="Exit codes: those of `mcptrio call`; with --as client, 1 if a result differs."
)
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("target", required=False)
@click.option(
    "--as",
    "role",
    type=OneOf(["server", "client"]),
    metavar="ROLE",
    required=True,
    help="Replay this side: server or client.",
)
@click.option(
    "--speed",
    type=_Speed(),
    metavar="NUMBER",
    help="Divide recorded pauses by this; 0 or max leaves them out.  [default: 1 for a server, max for a client]",
)
@click.option("--session", metavar="NAME", help="Replay only this session of the recording; `mcptrio show` lists them.")
@click.option(
    "--ignore",
    multiple=True,
    metavar="PATH",
    help="Do not compare this part of results, such as structuredContent.at or content.*.text; repeat for more.",
)
@click.pass_context
def command(
    ctx: click.Context,
    file: Path,
    target: str | None,
    role: str,
    speed: float | None,
    session: str | None,
    ignore: tuple[str, ...],
) -> None:
    """Answer as a recorded server did, or repeat the requests of a recorded client.

    \b
    mcptrio call "mcptrio replay trip.jsonl --as server" book city=Oslo
    mcptrio replay trip.jsonl --as client http://127.0.0.1:8000/mcp

    With --as server, it serves over stdio, so this command can be the TARGET of other commands, or the command of
    [mount.NAME]. With --as client, it repeats the requests at TARGET, and prints the results that differ.
    """
    transcript = read_transcript(file)
    if role == "server":
        if target is not None or ignore:
            raise click.UsageError("TARGET and --ignore can only be used with --as client", ctx)
        _serve(transcript, session, 1.0 if speed is None else speed)
        return
    if target is None:
        raise click.UsageError("missing TARGET: pass the server that gets the recorded requests", ctx)
    ctx.exit(_repeat(transcript, session, target, speed or 0.0, ignore))


def _serve(transcript: Transcript, session: str | None, speed: float) -> None:
    server = ReplayServer(transcript.server, transcript.of_session(session), speed=speed)
    log_to_stderr("info", "text")

    async def serve(stop: trio.Event) -> None:
        async with open_stdio(restore=False) as channel, trio.open_nursery() as nursery:

            async def end() -> None:
                await stop.wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(end)
            await server.serve(channel)
            nursery.cancel_scope.cancel()

    run(serve)


def _repeat(transcript: Transcript, session: str | None, target: str, speed: float, ignore: tuple[str, ...]) -> int:
    entries = transcript.of_session(session)
    calls = recorded_calls(entries)
    # The results of another revision have other members.
    revision = revision_of(exchanges_of(entries))
    options = TargetOptions(target=target, settings=client_settings(), revision=revision)
    answers = RecordedAnswers(calls)

    async def action(cmd: CommandContext) -> int:
        difference_count = await repeat_calls(cmd, calls, answers, speed=speed, ignored=ignore)
        return ExitCode.FAILED if difference_count else ExitCode.DONE

    server = find_target(options)
    return run_at_console(
        lambda: partial(run_connected, action, options, server, handlers=answers.handlers()), url=target
    )
