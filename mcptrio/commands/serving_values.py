"""The values of ``mcptrio serve``'s options: what each may be, and what is made of it.

Called by click while it reads the command line.
"""

from __future__ import annotations

from math import isnan
from pathlib import Path
from typing import Any

import click

from mcptrio.config import is_store

__all__ = ["FILE", "SECONDS", "absolute", "descriptor", "no_nan", "store", "tcp", "unix", "workers"]

_MOST_WORKERS = 1024


def no_nan(_ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    """It compares with nothing, and so passes every range."""
    if value is not None and isnan(value):
        raise click.BadParameter("expected a number of seconds, got nan", param=param)
    return value


def absolute(_ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None and not value.startswith("/"):
        raise click.BadParameter(f"expected a path that begins with /, got {value!r}", param=param)
    return value


def store(_ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None and not is_store(value):
        raise click.BadParameter(f"expected memory or sqlite:PATH, got {value!r}", param=param)
    return value


def tcp(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> list[str]:
    return [f"127.0.0.1:{value}" if value.isdecimal() else value for value in values]


def unix(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> list[str]:
    return [f"unix:{value}" for value in values]


def descriptor(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> list[str]:
    return [f"fd:{value}" for value in values]


def workers(_ctx: click.Context, param: click.Parameter, value: str | None) -> int | str | None:
    if value is None or value == "auto":
        return value
    if not (value.isascii() and value.isdecimal() and 0 < int(value[:6]) <= _MOST_WORKERS and len(value) <= 6):
        raise click.BadParameter(f"expected a number from 1 to {_MOST_WORKERS}, or auto, got {value!r}", param=param)
    return int(value)


FILE = click.Path(path_type=Path)
SECONDS: dict[str, Any] = {"type": click.FloatRange(min=0, min_open=True), "callback": no_nan}
