"""The tools that the replicas of a trial of tasks serve. Their arguments are the steps that they perform."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import trio

from mcptrio import Context, Elicit, tool

__all__: list[str] = []

_FOLDER: Final = Path(os.environ["TRIAL_FOLDER"])
_TTL: Final = 300.0
_POLL: Final = 0.2
_CLEAN_UP: Final = 0.1


@tool(task="required", resumable=True, ttl=_TTL, poll_interval=_POLL)
async def resumed(ctx: Context, token: str, steps: list[str]) -> str:
    """Work in a task that another process can resume."""
    return await _perform(ctx, token, steps)


@tool(task="required", ttl=_TTL, poll_interval=_POLL)
async def bound(ctx: Context, token: str, steps: list[str]) -> str:
    """Work in a task of one process."""
    return await _perform(ctx, token, steps)


@tool(task="optional", resumable=True, ttl=_TTL, poll_interval=_POLL)
async def resumed_later(ctx: Context, token: str, steps: list[str]) -> str:
    """Work in a call that may become a task that another process can resume."""
    return await _perform(ctx, token, steps)


@tool(task="optional", ttl=_TTL, poll_interval=_POLL)
async def bound_later(ctx: Context, token: str, steps: list[str]) -> str:
    """Work in a call that may become a task of one process."""
    return await _perform(ctx, token, steps)


@tool(task="required", resumable=True, concurrency=4, ttl=_TTL, poll_interval=_POLL)
async def resumed_queued(ctx: Context, token: str, steps: list[str]) -> str:
    """Work in a task that waits for its turn, and that another process can resume."""
    return await _perform(ctx, token, steps)


@tool(task="required", concurrency=4, ttl=_TTL, poll_interval=_POLL)
async def bound_queued(ctx: Context, token: str, steps: list[str]) -> str:
    """Work in a task that waits for its turn, and then belongs to one process."""
    return await _perform(ctx, token, steps)


@tool(task="required", resumable=True, ttl=_TTL, poll_interval=_POLL)
async def large(size: int) -> str:
    """Return a text of so many characters."""
    return "x" * size


async def _perform(ctx: Context, token: str, steps: Sequence[str]) -> str:
    _append("runs", f"{token} {os.getpid()}")
    parts: list[Any] = [token]
    try:
        for number, step in enumerate(steps):
            kind, _, amount = step.partition(" ")
            match kind:
                case "begin":
                    await ctx.task.begin()
                case "sleep":
                    await trio.sleep(float(amount))
                case "file":
                    # Until a test makes it.
                    while not (_FOLDER / amount).exists():  # noqa: ASYNC110 - another process creates it
                        await trio.sleep(0.02)
                case "status":
                    ctx.task.set_status(f"step {number}")
                case "effect":
                    parts.append(await ctx.once(_effect, token, number, float(amount)))
                case "repeat":
                    parts.append(await ctx.once(_count, token, number, float(amount), repeatable=True))
                case "ask":
                    parts += await ctx.ask_all(*[Elicit(f"{token} {number} {at}?", str) for at in range(int(amount))])
                case "again":
                    # Each time the same question.
                    parts.append(await ctx.ask(f"{token} again?", str))
                case "both":
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(_ask_into, ctx, f"{token} {number}?", parts)
                        parts.append(await ctx.once(_effect, token, number, float(amount)))
    except trio.Cancelled:
        with trio.CancelScope(shield=True):
            await trio.sleep(_CLEAN_UP)
        raise
    return " ".join(map(str, parts))


async def _ask_into(ctx: Context, message: str, parts: list[Any]) -> None:
    parts.append(await ctx.ask(message, str))


async def _effect(token: str, number: int, seconds: float) -> str:
    """Append a line that no other run of this effect has, and return its number."""
    await trio.sleep(seconds)
    nonce = secrets.token_hex(4)
    _append("effects", f"{token}/{number} {nonce}")
    return nonce


async def _count(token: str, number: int, seconds: float) -> int:
    """Do something that may be done again."""
    await trio.sleep(seconds)
    return number


def _append(name: str, text: str) -> None:
    # One write of an O_APPEND file is atomic.
    file = os.open(_FOLDER / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, f"{text}\n".encode())
    finally:
        os.close(file)
