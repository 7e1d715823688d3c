"""The output of ``mcptrio host status``: the host applications' files, their entries, and the servers' responses.

Only entries of mcptrio are started, and those of a project only on request, since its file may belong to another
person. Values that may be secret are not shown: variables, headers, arguments of other servers, queries of URLs.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import attrs
import trio
from attrs import field, frozen

from mcptrio.cli.client.exit_codes import line_of, only
from mcptrio.cli.install import FileStatus, HostKind, Installed, Machine, Scope, look
from mcptrio.cli.install.entries import is_ours
from mcptrio.cli.terminal.layout import TerminalStyle, counted
from mcptrio.client.timeouts import ClientTimeouts
from mcptrio.connecting.connect import connect
from mcptrio.connecting.mcp_json.locations import SourceLocation
from mcptrio.connecting.mcp_json.variables import Variables
from mcptrio.connecting.targets import Command, Endpoint
from mcptrio.errors import MCPTrioError
from mcptrio.ground.quoting import printable

__all__ = ["FoundEntry", "lines", "look_at", "values_of"]

_ANSWER_TIMEOUT = 20.0
"""Seconds for a server to start, and for each response."""
# A faulty or hostile server can list tools without end.
_MAX_TOOLS = 10_000


@frozen(kw_only=True)
class FoundEntry:
    """A host application's file, and the responses of its servers by name; an error begins with ``!``.

    Args:
        is_found: whether the host application is found.
    """

    status: FileStatus
    is_found: bool
    answers: Mapping[str, str] = field(factory=dict)


def look_at(kinds: Sequence[HostKind], machine: Machine, name: str, *, checked: Collection[Scope]) -> list[FoundEntry]:
    """
    Args:
        name: an entry that is shown even if it is not mcptrio's.
        checked: the scopes whose servers are started or reached, one after another.
    """
    found = []
    for host in kinds:
        is_found = host.is_found(machine)
        for scope, path in host.files(machine).items():
            status = look(host, scope, path, name)
            entries = status.entries if scope in checked else ()
            answers = {each.name: answer for each in entries if (answer := _answer(each, host, machine))}
            found.append(FoundEntry(status=status, is_found=is_found, answers=answers))
    return found


def lines(found: Sequence[FoundEntry], look: TerminalStyle) -> Iterator[str]:
    """Yield lines for people: the files with an entry, and one line per host application without one."""
    for each in found:
        status = each.status
        if not status.entries and status.problem is None:
            # One line for a host application without an entry, although it may have two files.
            if status.scope == "user" or status.host.user is None:
                has_others = any(other.status.host is status.host and other.status.entries for other in found)
                if not has_others:
                    paths = ", ".join(str(other.status.path) for other in found if other.status.host is status.host)
                    absent = "not installed" if each.is_found else "not found"
                    label = f"{status.host.title} ({status.host.id}): "
                    yield look.wrap(f"{absent}: {printable(paths)}", "dim", label=label)
            continue
        label = f"{status.host.title} ({status.host.id}, {status.scope}): "
        yield look.wrap(printable(str(status.path)), "bold", label=label)
        if status.problem is not None:
            yield look.wrap(printable(status.problem), "red", indent="  ", label="! ")
        for entry in status.entries:
            off = " (switched off)" if entry.is_off else ""
            yield look.wrap(f"{printable(_shown(entry))}{off}", "cyan", indent="  ", label=f"{printable(entry.name)}: ")
            yield from (look.wrap(printable(text), "red", indent="    ", label="! ") for text in entry.problems)
            if answer := each.answers.get(entry.name):
                is_wrong = answer.startswith("! ")
                label = "! " if is_wrong else ""
                yield look.wrap(printable(answer.removeprefix(label)), "red", indent="    ", label=label)


def values_of(found: FoundEntry) -> dict[str, Any]:
    status = found.status
    return {
        "host": status.host.id,
        "title": status.host.title,
        "scope": status.scope,
        "path": str(status.path),
        "found": found.is_found,
        "exists": status.is_there,
        "problem": status.problem,
        "entries": [
            {
                "name": entry.name,
                "shown": _shown(entry),
                "enabled": not entry.is_off,
                "problems": list(entry.problems),
                "answer": found.answers.get(entry.name),
            }
            for entry in status.entries
        ],
    }


def _shown(entry: Installed) -> str:
    target = entry.target
    if isinstance(target, Endpoint):
        # Without the query and the user part, which may contain secrets.
        return target.url.partition("?")[0].partition("#")[0].rpartition("@")[2]
    if isinstance(target, Command):
        # Arguments of other servers may contain secrets; ours are known to contain none.
        return shlex.join(target.args if is_ours(target) else target.args[:1])
    return "?"


def _answer(entry: Installed, host: HostKind, machine: Machine) -> str:
    """Return the server's description, or ``!`` and the reason why it does not answer."""
    target = entry.target
    # A command that is not mcptrio's is not started: a file may contain any program.
    if target is None or entry.problems or (isinstance(target, Command) and not is_ours(target)):
        return ""
    try:
        # Hosts with JSON files replace variables such as ${env:TOKEN} before they start a server; so does the check.
        if host.format == "json":
            target = _expanded(target, entry.name, host, machine)
        return trio.run(_ask, target)
    except (MCPTrioError, OSError, BaseExceptionGroup) as error:
        failure = only(error)
        if not isinstance(failure, (MCPTrioError, OSError)):
            raise
        return f"! {line_of(failure)}"


def _expanded(target: Command | Endpoint, name: str, host: HostKind, machine: Machine) -> Command | Endpoint:
    variables = Variables(os.environ, machine.project)
    place = SourceLocation(source=host.id, path=(host.key, name))
    if isinstance(target, Endpoint):
        headers = {key: variables.expand(value, place.at(key)) for key, value in target.headers.items()}
        return attrs.evolve(target, url=variables.expand(target.url, place.at("url")), headers=headers)
    return attrs.evolve(target, env={key: variables.expand(value, place.at(key)) for key, value in target.env.items()})


async def _ask(target: Command | Endpoint) -> str:
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
        took = trio.current_time() - began
        info = client.server_info
        name = f"{info.name} {info.version}" if info is not None else client.name
        return f"answers: {name}, {client.revision}, {counted(count, 'tools')}, {took:.1f} s"
