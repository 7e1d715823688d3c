"""The tools, the prompt and the resource that the replicas of a trial serve."""

from __future__ import annotations

import fcntl
import logging
import os
import time
from pathlib import Path

import trio

from mcptrio import Context, prompt, resource, tool

__all__: list[str] = []

_FOLDER = Path(os.environ["TRIAL_FOLDER"])
"""Shared by all replicas of the trial, as a database that the tools use would be."""
# The log of a replica has those of all its processes. This line begins a new one.
logging.getLogger("trial").info("loaded")


@tool
async def echo(text: str) -> str:
    return text


@tool
async def slow(ctx: Context, token: str, count: int, pause: float) -> str:
    """Log and report progress for some time."""
    for number in range(count):
        await ctx.info(number)
        await ctx.report_progress(number + 1, count)
        await trio.sleep(pause)
    return token


@tool
async def ask(ctx: Context, token: str) -> str:
    """Ask the user."""
    return f"{token} {await ctx.ask('Which one?', str)}"


@tool
async def sample(ctx: Context, token: str) -> str:
    """Ask the client's model."""
    message = await ctx.sample("Say something", max_tokens=7)
    return f"{token} {message.text}"


@tool
async def hold(ctx: Context, token: str) -> str:
    """Run until the client cancels."""
    await ctx.info(0)
    await trio.sleep_forever()
    return token


@tool
async def charge(ctx: Context, token: str, asks: bool) -> str:
    """Have an effect, in 2026-07-28 between two questions, so that a handler is replayed around it."""
    first = await ctx.ask("Shall it be?", str) if asks else ""
    await ctx.once(_charge, token)
    second = await ctx.ask("Was it right?", str) if asks else ""
    return f"{token} {first} {second}".rstrip()


async def _charge(token: str) -> None:
    _append("effects", token)


def _append(name: str, text: str) -> None:
    # One write of an O_APPEND file is atomic.
    file = os.open(_FOLDER / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, f"{text}\n".encode())
    finally:
        os.close(file)


@tool
async def note(token: str) -> str:
    """Record that it has run."""
    _append("noted", token)
    return token


@prompt
async def limited(token: str) -> str:
    """Record when it has run. The plugin ``rate_limit`` counts it."""
    _append("limited", f"{token} {time.monotonic()}")
    return token


@tool
async def touch(ctx: Context, name: str) -> str:
    """Change a document, and return its version."""
    file = os.open(_FOLDER / name, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        version = _version(file) + 1
        # One write of the same length each time: a replica that is killed must not leave an empty document.
        os.pwrite(file, b"%010d" % version, 0)
    finally:
        os.close(file)
    ctx.notify_resource_updated(f"doc:///{name}")
    return str(version)


@resource("doc:///{name}")
async def document(name: str) -> str:
    """The version of a document."""
    file = os.open(_FOLDER / name, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(file, fcntl.LOCK_SH)
        return str(_version(file))
    finally:
        os.close(file)


def _version(file: int) -> int:
    return int(os.pread(file, 10, 0) or 0)
