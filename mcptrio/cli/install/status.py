"""The state of the host applications' files: whether mcptrio is installed, and problems of its entry.

``mcptrio host status`` uses it. It only reads.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from attrs import field, frozen

from mcptrio.cli.install.documents import entry_at, parse
from mcptrio.cli.install.edits import Unreadable
from mcptrio.cli.install.entries import is_ours
from mcptrio.cli.install.files import decoded, read
from mcptrio.cli.install.hosts import HostKind, Scope
from mcptrio.connecting.targets import Command, Endpoint
from mcptrio.errors import ConfigError

__all__ = ["FileStatus", "Installed", "look"]


@frozen(kw_only=True)
class Installed:
    """An entry.

    Args:
        target: the server; ``None`` if it is unknown.
        is_off: whether the host application ignores it.
        problems: problems of the entry.
    """

    name: str
    target: Command | Endpoint | None = field(repr=False)
    is_off: bool = False
    problems: tuple[str, ...] = ()


@frozen(kw_only=True)
class FileStatus:
    """A host's file.

    Args:
        is_there: whether the file exists.
        entries: our entries, and the requested one.
        problem: the reason why it cannot be read.
    """

    host: HostKind
    scope: Scope
    path: Path
    is_there: bool = False
    entries: tuple[Installed, ...] = ()
    problem: str | None = None


def look(host: HostKind, scope: Scope, path: Path, name: str) -> FileStatus:
    """Return the state of one file.

    Args:
        name: an entry that is shown even if it may not be ours, such as a URL.
    """
    try:
        original = read(path)
        _, text = decoded(path, original.data)
        servers = entry_at(parse(host.format, text), (host.key,))
    except ConfigError as error:
        return FileStatus(host=host, scope=scope, path=path, is_there=True, problem=str(error))
    except Unreadable as problem:
        told = f"{path}:{problem.line}:{problem.column}: {problem}"
        return FileStatus(host=host, scope=scope, path=path, is_there=True, problem=told)
    found = tuple(_entries(host, servers, name)) if isinstance(servers, Mapping) else ()
    return FileStatus(host=host, scope=scope, path=path, is_there=original.data is not None, entries=found)


def _entries(host: HostKind, servers: Mapping[Any, Any], name: str) -> Iterator[Installed]:
    for key, entry in servers.items():
        target = host.shape.read(entry)
        if key == name or is_ours(target):
            yield Installed(
                name=str(key), target=target, is_off=host.shape.is_off(entry), problems=tuple(_problems(target))
            )


def _problems(target: Command | Endpoint | None) -> Iterator[str]:
    if target is None:
        yield "expected a command or a URL, got something else"
    if not isinstance(target, Command):
        return
    if not is_ours(target):
        yield "is not mcptrio"
        return
    program = Path(target.args[0])
    if not program.is_absolute():
        yield f"{program} is not absolute: the host may find another one, or none"
    elif not program.exists():
        yield f"{program} does not exist"
    elif not os.access(program, os.X_OK):
        yield f"{program} cannot be run"
    for before, word in pairwise(target.args):
        # The value of an option is joined to it with `=`, or is the next word.
        option, _, value = word.rpartition("=") if word.startswith("--") else (before, "", word)
        if option != "--config" and not value.endswith(".py"):
            continue
        file = Path(target.cwd or "", value)
        if not file.is_absolute():
            yield f"{value} is not absolute: the host starts it in another folder, and may not find it"
        elif not file.exists():
            yield f"{value} does not exist"
