"""The host connects an application to several servers, independently of each other.

Applications use it to give a model or a user the tools of several servers. An error of one server does not affect the
other servers. The status of that server and the attribute ``missing`` of each list report it.

Source: MCP 2026-07-28, architecture, "Host"; index, "Security and Trust & Safety"; server/tools, "Tool Names".
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import orjson
import trio

from mcptrio.client.calls import OnProgress
from mcptrio.client.client import Client
from mcptrio.client.handlers import Handlers
from mcptrio.connecting.connect import openers
from mcptrio.connecting.mcp_json.files import load_mcp_json
from mcptrio.connecting.mcp_json.inputs import AskInput
from mcptrio.connecting.targets import Target, target_digest
from mcptrio.errors import ConfigError, ConnectionClosed, InvalidParams
from mcptrio.ground.expected import expect
from mcptrio.ground.nurseries import open_hidden_nursery, require_trio
from mcptrio.ground.quoting import quote_name
from mcptrio.ground.suggestions import suggest
from mcptrio.host.approval import Approval, Approve
from mcptrio.host.audit import Audit, Auditor, Redact
from mcptrio.host.changes import ChangeFollower, HostChanges, report_task
from mcptrio.host.list_collection import ITEM_NOUNS, NamedKind, collect_lists, find
from mcptrio.host.listing import HostListing, HostPrompt, HostResource, HostResourceTemplate, HostTool
from mcptrio.host.managed_server import ConnectionStatus, KnownRevision, ManagedServer
from mcptrio.host.names import server_of, server_prefix
from mcptrio.host.options import HostOptions
from mcptrio.host.questions import QuestionGuard
from mcptrio.host.tasks import task_reports
from mcptrio.protocol.model.completion import Completion
from mcptrio.protocol.model.prompts import GetPromptResult
from mcptrio.protocol.model.resources import ReadResourceResult
from mcptrio.protocol.model.tools import CallToolResult

__all__ = ["Host"]

_log = logging.getLogger("mcptrio.host")

T = TypeVar("T")

_MAX_NAME_CHARS = 200
_MAX_KNOWN_REVISIONS = 1000
"""Commands and URLs whose revision is remembered. When full, the oldest is evicted."""


class Host:
    """Several servers, which are connected while the ``async with`` block lasts. All tasks in the block may use it.

    The block does not wait for the servers. Each server is connected on its own, and again when its connection is lost.

    Args:
        targets: Targets of ``connect``, by the names that the user gives the servers.
        approve: Asks the user before a tool is called, and before a server's question reaches a handler. It is
            required; ``None`` approves everything.
        handlers: Answer the servers' questions; by default, all questions are refused.
        audit: Receives a record of each action.
        redact: Removes secrets from these records; by default like :func:`redact`.
        options: Timeouts and limits.

    Raises:
        ConfigError: A target or a name is invalid.
    """

    def __init__(
        self,
        targets: Mapping[str, Target],
        *,
        approve: Approve | None,
        handlers: Handlers | Callable[[str], Handlers] | None = None,
        audit: Audit | None = None,
        redact: Redact | None = None,
        options: HostOptions | None = None,
    ) -> None:
        self._options = expect(options or HostOptions(), HostOptions, "Host: options")
        self._handlers: Handlers | Callable[[str], Handlers] = handlers or Handlers()
        self._approval = Approval(approve, self._options.timeouts.input)
        self._auditor = Auditor(audit, redact)
        self._members: dict[str, ManagedServer] = {}
        self._nursery: trio.Nursery | None = None
        self._followers: list[ChangeFollower] = []
        self._revisions: dict[bytes, KnownRevision] = {}
        """The revision of each command and URL, including those of removed servers."""
        self._running: AbstractAsyncContextManager[None] | None = None
        for name, target in expect(targets, Mapping, "Host: targets").items():
            self.add(name, target)

    @classmethod
    def from_mcp_json(
        cls,
        path: Path | str,
        *,
        approve: Approve | None,
        ask: AskInput | None = None,
        handlers: Handlers | Callable[[str], Handlers] | None = None,
        audit: Audit | None = None,
        redact: Redact | None = None,
        options: HostOptions | None = None,
    ) -> Host:
        """Return a host with the servers of a file that are not disabled.

        A server with an invalid entry is included with the state ``failed``. Its status has the reason.

        Args:
            ask: Asks the user for the file's inputs (``${input:id}``) during this call.

        Raises:
            ConfigError: The file cannot be read, or has no servers.
        """
        file = load_mcp_json(path, ask=ask)
        host = cls({}, approve=approve, handlers=handlers, audit=audit, redact=redact, options=options)
        for name in file.names:
            try:
                host.add(name, file.read(name))
            except ConfigError as error:
                _log.error("%s", error)
                host._add_member(name, str(path), [], can_restart=False).mark_failed(str(error))
        return host

    async def __aenter__(self) -> Self:
        require_trio("Host")
        if self._running is not None:
            raise ConfigError("a Host can be opened only once; create another one")
        self._running = self._run()
        await self._running.__aenter__()
        return self

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Awaitable[bool | None]:
        assert self._running is not None
        return self._running.__aexit__(kind, error, traceback)

    # Its servers

    def add(self, name: str, target: Target) -> None:
        """Add a server without waiting for its connection.

        Args:
            name: The name that the user gives the server, at most 200 printable characters.
            target: A target of ``connect``.

        Raises:
            ConfigError: A server has this name, or a name that would give its tools the same names; or the target is
                invalid.
            ConnectionClosed: The host is closed.
        """
        if self._running is not None and self._nursery is None:
            raise ConnectionClosed("the host is closed")
        link_openers, where, can_restart = openers(target)
        member = self._add_member(name, where, link_openers, can_restart=can_restart, digest=target_digest(target))
        if self._nursery is not None:
            self._nursery.start_soon(partial(member.run, is_shielded=True))
            for follower in self._followers:
                follower.follow(member)
                follower.server_changed(member)

    async def remove(self, name: str) -> None:
        """Disconnect from a server and wait until its connection is closed. Its calls raise ConnectionClosed.

        Raises:
            ConfigError: There is no server of that name.
        """
        member = self._member(name)
        del self._members[name]
        await member.remove()

    @property
    def status(self) -> dict[str, ConnectionStatus]:
        """The connection status of each server."""
        return {name: member.status for name, member in self._members.items()}

    async def settle(self, timeout: float | None = None) -> dict[str, ConnectionStatus]:
        """Wait until each server is ready or has failed at least once.

        Args:
            timeout: Seconds; by default ``options.timeouts.connect``.
        """
        with trio.move_on_after(self._options.timeouts.connect if timeout is None else timeout):
            for member in list(self._members.values()):
                await member.until(lambda member=member: not member.is_first_connecting)  # type: ignore[misc]
        return self.status

    async def use(self, server: str, work: Callable[[Client], Awaitable[T]]) -> T:
        """Call a function with the client of one server, for methods that the host does not have: log levels, pings.

        The call needs no approval and is not recorded. Questions of the server need it and are recorded.

        Raises:
            ConfigError: There is no such server.
            ConnectionClosed: The server is not connected, or was removed.
        """
        return await self._member(server).ask(work)

    # Lists

    def tools(self) -> HostListing[HostTool]:
        """The tools of all servers, with the names for :meth:`call_tool`: ``fs_read_file``."""
        return HostListing(partial(collect_lists, self._members.values(), "tools"))

    def prompts(self) -> HostListing[HostPrompt]:
        """The prompts of all servers, named like the tools."""
        return HostListing(partial(collect_lists, self._members.values(), "prompts"))

    def resources(self) -> HostListing[HostResource]:
        """The resources of all servers. Two servers may have the same URI."""
        return HostListing(partial(collect_lists, self._members.values(), "resources"))

    def resource_templates(self) -> HostListing[HostResourceTemplate]:
        """The resource templates of all servers."""
        return HostListing(partial(collect_lists, self._members.values(), "templates"))

    # Requests

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        progress: OnProgress | None = None,
    ) -> CallToolResult:
        """Call a tool, if the user approves.

        Args:
            name: The tool's name in the host, such as ``fs_read_file``.
            arguments: The arguments as JSON values. The user approves a copy, and may edit it.
            timeout, progress: The parameters of ``Client.call_tool`` with these names.

        Raises:
            InvalidParams: No server has listed this tool.
            NotApproved: The user did not approve. Nothing was sent.
            MCPTrioError: As for ``Client.call_tool``.
            TypeError: The arguments are not JSON.
        """
        # Encoded once, before the approval, so that exactly the approved bytes are sent.
        encoded = orjson.dumps(dict(arguments or {}))
        member = self._server_named("tools", name)
        report = partial(report_task, self._followers, member.name)
        with self._auditor.record(member.name, "tool", name, orjson.loads(encoded)) as entry:
            tool, sent = await self._approval.obtain_for_tool(member, name, encoded, entry)
            with task_reports(name, entry, report) as created:
                result = await member.ask(
                    lambda client: client.call_tool(
                        tool.name, orjson.loads(sent), timeout=timeout, progress=progress, created=created
                    )
                )
            if result.is_error:
                entry.end("error", "the tool failed")
            return result

    async def read_resource(
        self, server: str, uri: str, *, timeout: float | None = None, progress: OnProgress | None = None
    ) -> ReadResourceResult:
        """Read a resource of a server. The server must be named, because another one may list the same URI.

        Raises:
            ConfigError: There is no such server.
            MCPTrioError: As for ``Client.read_resource``.
        """
        member = self._member(server)
        with self._auditor.record(member.name, "resource", uri):
            return await member.ask(lambda client: client.read_resource(uri, timeout=timeout, progress=progress))

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        timeout: float | None = None,
        progress: OnProgress | None = None,
    ) -> GetPromptResult:
        """Return a prompt with its arguments inserted.

        Args:
            name: The name of the prompt in the host, such as ``fs_summarize``.

        Raises:
            InvalidParams: No server has listed this prompt.
            MCPTrioError: As for ``Client.get_prompt``.
        """
        given = dict(arguments or {})
        member = self._server_named("prompts", name)
        with self._auditor.record(member.name, "prompt", name, given) as entry:
            prompt = entry.name = (await find(member, "prompts", name)).own_name
            return await member.ask(lambda each: each.get_prompt(prompt, given, timeout=timeout, progress=progress))

    async def complete(
        self,
        of: Literal["prompt", "resource"],
        name: str,
        argument: str,
        value: str,
        *,
        server: str | None = None,
        context: Mapping[str, str] | None = None,
    ) -> Completion:
        """Return completions for an argument of a prompt, or for a variable of a resource template.

        Args:
            of: ``prompt`` or ``resource``.
            name: The prompt's name in the host, or the URI template.
            argument: The argument or variable.
            value: The text typed so far.
            server: The server of a resource template; ignored for a prompt.
            context: The arguments already chosen.

        Raises:
            InvalidParams: No server has listed this prompt.
            ConfigError: There is no such server, or no server was named for a template.
            MCPTrioError: As for ``Client.complete``.
        """
        if of == "prompt":
            member = self._server_named("prompts", name)
        elif server is not None:
            member = self._member(server)
        else:
            raise ConfigError("server: expected the name of the template's server, got none")
        with self._auditor.record(member.name, "completion", name, {argument: value}) as entry:
            if of == "prompt":
                entry.name = (await find(member, "prompts", name)).own_name
            own_name = entry.name
            return await member.ask(lambda client: client.complete(of, own_name, argument, value, context=context))

    # Changes

    @asynccontextmanager
    async def subscribe(
        self,
        uris: Mapping[str, Sequence[str]] | None = None,
        *,
        tools: bool = False,
        prompts: bool = False,
        resources: bool = False,
        tasks: bool = False,
    ) -> AsyncIterator[HostChanges]:
        """Follow changes of all servers, including later ones. Added, lost and removed servers are always reported.

        Args:
            uris: Resources to follow, by server.
            tools, prompts, resources: True to follow this list.
            tasks: True to follow the tasks that servers make of tool calls of this host.

        Raises:
            ConfigError: There is no such server.
            ConnectionClosed: The host is not open.
        """
        for name in uris or {}:
            self._member(name)
        if self._nursery is None:
            raise ConnectionClosed("the host is not open")
        async with open_hidden_nursery() as nursery:
            follower = ChangeFollower(nursery, dict(uris or {}), tools, prompts, resources, tasks)
            self._followers.append(follower)
            for member in self._members.values():
                follower.follow(member)
            try:
                yield follower.changes
            finally:
                self._followers.remove(follower)

    # Private

    @asynccontextmanager
    async def _run(self) -> AsyncIterator[None]:
        try:
            async with open_hidden_nursery() as nursery:
                self._nursery = nursery
                # Shielded, so that the servers stay connected when the caller is cancelled: the calls in the block then
                # still send their cancellations.
                for member in self._members.values():
                    if not member.has_ended:
                        nursery.start_soon(partial(member.run, is_shielded=True))
                try:
                    yield
                finally:
                    self._nursery = None
                    for member in self._members.values():
                        member.close()
        finally:
            for follower in self._followers:
                follower.changes.end()

    def _add_member(
        self, name: str, where: str, link_openers: list[Any], *, can_restart: bool, digest: bytes | None = None
    ) -> ManagedServer:
        if not isinstance(name, str) or not name or len(name) > _MAX_NAME_CHARS or not name.isprintable():
            raise ConfigError(f"expected a server's name of 1 to {_MAX_NAME_CHARS} characters, got {str(name)[:80]!r}")
        prefix = server_prefix(name)
        for other in self._members.values():
            # Equal prefixes would give two tools the same name, and a call could reach the wrong server.
            if other.prefix == prefix:
                raise ConfigError(f"expected a name with another prefix than `{other.name}`, got {name!r}")
        handlers = self._handlers if isinstance(self._handlers, Handlers) else self._handlers(name)
        guard = QuestionGuard(handlers, name, where, self._approval, self._auditor, self._options)
        member = self._members[name] = ManagedServer(
            name,
            prefix=prefix,
            openers=link_openers,
            where=where,
            can_restart=can_restart,
            handlers=guard.handlers,
            options=self._options,
            on_change=self._server_changed,
            known_revision=self._revision_of(digest),
        )
        return member

    def _revision_of(self, digest: bytes | None) -> KnownRevision:
        known_revision = KnownRevision()
        if digest is not None:
            known_revision = self._revisions[digest] = self._revisions.pop(digest, known_revision)
            if len(self._revisions) > _MAX_KNOWN_REVISIONS:
                del self._revisions[next(iter(self._revisions))]
        return known_revision

    def _server_changed(self, member: ManagedServer) -> None:
        # "connecting" is not reported, because another state follows soon, and readers would read the lists twice.
        if member.status.state != "connecting":
            for follower in self._followers:
                follower.server_changed(member)

    def _member(self, name: str) -> ManagedServer:
        member = self._members.get(name)
        if member is None:
            raise ConfigError(f"no such server: {quote_name(name)}{suggest(name, list(self._members))}")
        return member

    def _server_named(self, kind: NamedKind, name: str) -> ManagedServer:
        """Return the server that a tool's or prompt's name in the host belongs to."""
        prefix = server_of(name)
        for member in self._members.values():
            if member.prefix == prefix:
                return member
        near = suggest(prefix or name, [member.prefix for member in self._members.values()])
        raise InvalidParams(f"no such {ITEM_NOUNS[kind]}: {quote_name(name)}: no server has this prefix{near}")
