"""``mcptrio host status``: the host applications' files, the entries in them, and the servers' responses.

Only entries of mcptrio are started, and those of a project only on request, since its file may belong to another
person. Values that may be secret are not shown: variables, headers, arguments of other servers, queries of URLs.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import trio
from attrs import evolve, field, frozen

from mcptrio.cli.client.exit_codes import line_of, root_error
from mcptrio.cli.install.documents import entry_at, parse
from mcptrio.cli.install.edits import Unreadable
from mcptrio.cli.install.entries import is_ours
from mcptrio.cli.install.files import decode_text, read
from mcptrio.cli.install.hosts import HostKind, Scope
from mcptrio.cli.install.machine import Machine
from mcptrio.cli.terminal.layout import TerminalLayout, count_text
from mcptrio.client.timeouts import ClientTimeouts
from mcptrio.connecting.connect import connect
from mcptrio.connecting.mcp_json.locations import SourceLocation
from mcptrio.connecting.mcp_json.variables import Variables
from mcptrio.connecting.targets import Command, Endpoint
from mcptrio.errors import ConfigError, MCPTrioError
from mcptrio.ground.quoting import printable

__all__ = ["FileStatus", "file_statuses", "lines", "status_as_json"]

_ANSWER_TIMEOUT = 20.0
"""Seconds for a server to start, and for each response."""
# A faulty or hostile server can list tools without end.
_MAX_TOOLS = 10_000
_MAX_WARNINGS = 20
"""Maximum number of warnings that are shown of one server. The last ones are shown."""
_LOG_WARNING = re.compile(r"\S+ \S+ (?:WARNING|ERROR|CRITICAL) +\S+: (.*)")


@frozen(kw_only=True)
class InstalledEntry:
    """An entry for a server in a host application's file.

    Args:
        target: The server; ``None`` if it is unknown.
        is_off: True if the host application ignores it.
        problems: Problems of the entry.
        answer: The server's description, or ``!`` and the reason why it does not answer; empty if it was not asked.
        warnings: The warnings and errors that the server logs when it starts.
    """

    name: str
    target: Command | Endpoint | None = field(repr=False)
    is_off: bool = False
    problems: tuple[str, ...] = ()
    answer: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def is_wrong(self) -> bool:
        return bool(self.problems) or self.answer.startswith("!")


@frozen(kw_only=True)
class FileStatus:
    """A configuration file of a host application, and its entries.

    Args:
        is_found: True if the host application is found.
        exists: True if the file exists.
        entries: The entries of mcptrio, and the requested one.
        problem: The reason why it cannot be read.
    """

    host: HostKind
    scope: Scope
    path: Path
    is_found: bool
    exists: bool = True
    entries: tuple[InstalledEntry, ...] = ()
    problem: str | None = None

    @property
    def is_wrong(self) -> bool:
        return self.problem is not None or any(each.is_wrong for each in self.entries)


def file_statuses(
    kinds: Sequence[HostKind], machine: Machine, name: str, *, checked: Collection[Scope]
) -> list[FileStatus]:
    """Return the status of each configuration file of the host applications.

    Args:
        name: The name of an entry to show in any case. An entry with a URL does not show whether it is mcptrio's.
        checked: The scopes whose servers are started or reached, one after another.
    """
    statuses = []
    for host in kinds:
        is_found = host.is_found(machine)
        for scope, path in host.files(machine).items():
            status = FileStatus(host=host, scope=scope, path=path, is_found=is_found)
            try:
                original = read(path)
                servers = entry_at(parse(host.format, decode_text(path, original.data)[1]), (host.key,))
            except ConfigError as error:
                status = evolve(status, problem=str(error))
            except Unreadable as problem:
                status = evolve(status, problem=f"{path}:{problem.line}:{problem.column}: {problem}")
            else:
                entries = list(_entries(host, servers, name)) if isinstance(servers, Mapping) else []
                if scope in checked:
                    entries = [_check_entry(each, host, machine) for each in entries]
                status = evolve(status, exists=original.data is not None, entries=tuple(entries))
            statuses.append(status)
    return statuses


def lines(statuses: Sequence[FileStatus], layout: TerminalLayout) -> Iterator[str]:
    """Yield lines for people: the files with an entry, and one line per host application without one."""
    for each in statuses:
        host = each.host
        if not each.entries and each.problem is None:
            files_of_host = [other for other in statuses if other.host is host]
            # One line for a host application without an entry, although it may have two files.
            if (each.scope == "user" or host.user is None) and not any(other.entries for other in files_of_host):
                paths = ", ".join(str(other.path) for other in files_of_host)
                absent = "not installed" if each.is_found else "not found"
                yield layout.wrap(f"{absent}: {printable(paths)}", "dim", label=f"{host.title} ({host.id}): ")
            continue
        yield layout.wrap(printable(str(each.path)), "bold", label=f"{host.title} ({host.id}, {each.scope}): ")
        if each.problem is not None:
            yield layout.wrap(printable(each.problem), "red", indent="  ", label="! ")
        for entry in each.entries:
            off = " (switched off)" if entry.is_off else ""
            yield layout.wrap(
                f"{printable(_describe_target(entry))}{off}", "cyan", indent="  ", label=f"{printable(entry.name)}: "
            )
            yield from (layout.wrap(printable(text), "red", indent="    ", label="! ") for text in entry.problems)
            if entry.answer:
                label = "! " if entry.answer.startswith("! ") else ""
                yield layout.wrap(printable(entry.answer.removeprefix(label)), "red", indent="    ", label=label)
            for text in entry.warnings:
                yield layout.wrap(printable(text), "yellow", indent="    ", label="warning: ")


def status_as_json(status: FileStatus) -> dict[str, Any]:
    return {
        "host": status.host.id,
        "title": status.host.title,
        "scope": status.scope,
        "path": str(status.path),
        "found": status.is_found,
        "exists": status.exists,
        "problem": status.problem,
        "entries": [
            {
                "name": entry.name,
                "shown": _describe_target(entry),
                "enabled": not entry.is_off,
                "problems": list(entry.problems),
                "answer": entry.answer or None,
                "warnings": list(entry.warnings),
            }
            for entry in status.entries
        ],
    }


def _entries(host: HostKind, servers: Mapping[Any, Any], name: str) -> Iterator[InstalledEntry]:
    for key, entry in servers.items():
        target = host.shape.read(entry)
        if key == name or is_ours(target):
            problems = tuple(_problems(target))
            yield InstalledEntry(name=str(key), target=target, is_off=host.shape.is_off(entry), problems=problems)


def _problems(target: Command | Endpoint | None) -> Iterator[str]:
    if target is None:
        yield "expected a command or a URL, got neither"
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


def _describe_target(entry: InstalledEntry) -> str:
    target = entry.target
    if isinstance(target, Endpoint):
        # Without the query and the user part, which may contain secrets.
        return target.url.partition("?")[0].partition("#")[0].rpartition("@")[2]
    if isinstance(target, Command):
        # Arguments of other servers may contain secrets; ours are known to contain none.
        return shlex.join(target.args if is_ours(target) else target.args[:1])
    return "?"


def _check_entry(entry: InstalledEntry, host: HostKind, machine: Machine) -> InstalledEntry:
    """Return the entry with its server's answer and warnings."""
    target = entry.target
    # A command that is not mcptrio's is not started: a file may contain any program.
    if target is None or entry.problems or (isinstance(target, Command) and not is_ours(target)):
        return entry
    warnings: deque[str] = deque(maxlen=_MAX_WARNINGS)
    if isinstance(target, Command):
        target = evolve(target, stderr=lambda line: warnings.extend(_warnings_in(line)))
    try:
        # Hosts with JSON files replace variables such as ${env:TOKEN} before they start a server; so does the check.
        if host.format == "json":
            target = _expand(target, entry.name, host, machine)
        answer = trio.run(_check_server, target)
    except (MCPTrioError, OSError, BaseExceptionGroup) as error:
        failure = root_error(error)
        if not isinstance(failure, (MCPTrioError, OSError)):
            raise
        return evolve(entry, answer=f"! {line_of(failure)}")
    return evolve(entry, answer=answer, warnings=tuple(dict.fromkeys(warnings)))


def _warnings_in(line: str) -> Iterator[str]:
    """Yield the message of a line of mcptrio's log, as text or JSON, if it is a warning or worse."""
    if (match := _LOG_WARNING.match(line)) is not None:
        yield match[1]
    elif line.startswith("{"):
        with suppress(ValueError):
            record = json.loads(line)
            if record.get("level") in ("warning", "error", "critical"):
                yield str(record.get("message"))


def _expand(target: Command | Endpoint, name: str, host: HostKind, machine: Machine) -> Command | Endpoint:
    variables = Variables(os.environ, machine.project)
    place = SourceLocation(source=host.id, path=(host.key, name))
    if isinstance(target, Endpoint):
        headers = {key: variables.expand(value, place.at(key)) for key, value in target.headers.items()}
        return evolve(target, url=variables.expand(target.url, place.at("url")), headers=headers)
    return evolve(target, env={key: variables.expand(value, place.at(key)) for key, value in target.env.items()})


async def _check_server(target: Command | Endpoint) -> str:
    timeouts = ClientTimeouts(
        connect=_ANSWER_TIMEOUT, probe=_ANSWER_TIMEOUT / 2, idle=_ANSWER_TIMEOUT, request=_ANSWER_TIMEOUT
    )
    began = trio.current_time()
    async with connect(target, timeouts=timeouts) as client:
        count = 0
        # A server that declares no tools may refuse tools/list.
        if client.capabilities.tools is not None:
            async for _ in client.tools():
                count += 1
                if count >= _MAX_TOOLS:
                    break
        seconds = trio.current_time() - began
        info = client.server_info
        name = f"{info.name} {info.version}" if info is not None else client.name
        return f"answers: {name}, {client.revision}, {count_text(count, 'tools')}, {seconds:.1f} s"
