"""Negotiates a protocol revision: with ``server/discover``, or with the handshake of the older revisions.

ClientSession creates a Negotiator for each link, and again when the server has forgotten the session.

Source: MCP 2025-11-25, basic/lifecycle; MCP 2026-07-28, basic/versioning, "Compatibility".
"""

from __future__ import annotations

from math import inf

import trio
from attrs import define, field

from mcptrio.abc.links import Link
from mcptrio.client.discovery import Fail, Handshake, PerRequest, TryAgain, read_verdict, remote_server
from mcptrio.client.options import ClientOptions
from mcptrio.errors import Code, MCPError, MCPTrioError, RemoteProtocolError, RequestFailed, SessionLost
from mcptrio.ground.nurseries import open_hidden_nursery
from mcptrio.protocol.client_connection import ClientConnection, RemoteServer
from mcptrio.protocol.messages import ErrorResponse, Response
from mcptrio.protocol.model.lifecycle import DiscoverParams, InitializeResult
from mcptrio.protocol.revisions.registry import HANDSHAKE_VERSIONS, LATEST, LATEST_HANDSHAKE, REVISIONS
from mcptrio.protocol.revisions.revision import NegotiationStyle, Revision

__all__ = ["Negotiator"]

# HTTP statuses that a server may send because it does not speak the revision of a request.
_DOUBTFUL_STATUSES = frozenset({400, 404, 405, 406})
# Error codes that, with such a status, come from a server that does speak the per-request revision.
_UNDERSTOOD_CODES = frozenset(
    {
        Code.PARSE_ERROR,
        Code.METHOD_NOT_FOUND,
        Code.INVALID_PARAMS,
        Code.HEADER_MISMATCH,
        Code.MISSING_CLIENT_CAPABILITY,
    }
)


@define(eq=False)
class _Probe:
    """One ``server/discover`` request in flight."""

    revision: Revision
    answered: trio.Event = field(factory=trio.Event)
    answer: Response | ErrorResponse | RequestFailed | None = None
    # Set if the link failed, so that there is no answer to interpret.
    failure: MCPTrioError | None = None


class Negotiator:
    """One negotiation on one link."""

    def __init__(self, link: Link, connection: ClientConnection, options: ClientOptions) -> None:
        self._link = link
        self._connection = connection
        self._options = options
        self._timeouts = options.timeouts

    async def negotiate(self, known: str | None) -> RemoteServer:
        """Negotiate a revision; see :meth:`mcptrio.client.session.ClientSession.negotiate`."""
        pinned = self._options.revision
        expected = pinned or known
        if expected in HANDSHAKE_VERSIONS:
            return await self._handshake(REVISIONS[expected], exactly=pinned is not None)
        if self._options.prefers_handshake and expected is None:
            try:
                return await self._handshake(LATEST_HANDSHAKE, exactly=False)
            except (MCPError, RequestFailed) as refused:
                # Only a refusal leads to the discovery. An unreachable server would be unreachable again.
                if isinstance(refused, RequestFailed) and refused.status not in range(400, 500):
                    raise
        async with open_hidden_nursery() as nursery:
            return await self._discover(nursery, pinned, REVISIONS[expected] if expected is not None else LATEST)

    async def check(self, revision: Revision, refusal: RequestFailed, *, within: float | None = None) -> None:
        """Find out whether a request was refused because the server no longer speaks the negotiated revision.

        In case of doubt, this sends another request, which every server of the revision understands.

        Args:
            within: Seconds for the answer to that request, at most and by default ``timeouts.probe``.

        Raises:
            SessionLost: A revision must be negotiated again. The refused request was not served.
        """
        is_per_request = revision.lifecycle is NegotiationStyle.PER_REQUEST
        is_understood = is_per_request and refusal.reply is not None and refusal.reply.code in _UNDERSTOOD_CODES
        if isinstance(refusal, SessionLost) or refusal.status not in _DOUBTFUL_STATUSES or is_understood:
            return
        answers = self._answers_discover if is_per_request else self._answers_ping
        with trio.move_on_after(self._timeouts.probe if within is None else min(within, self._timeouts.probe)):
            if not await answers(revision) and self._link.drop_revision(revision):
                raise SessionLost(f"the server no longer supports {revision.version}") from refusal

    async def _answers_discover(self, revision: Revision) -> bool:
        probe = _Probe(revision)
        await self._probe(probe)
        return probe.answer is None or not isinstance(read_verdict(probe.answer, revision.version), Handshake)

    async def _answers_ping(self, revision: Revision) -> bool:
        try:
            await self._link.exchange(self._connection.request("ping", None, revision=revision).message, revision)
        except RequestFailed as failed:
            return failed.status not in _DOUBTFUL_STATUSES
        except MCPTrioError:
            pass  # if the failure persists, the next request raises it
        return True

    async def _discover(self, nursery: trio.Nursery, pinned: str | None, revision: Revision) -> RemoteServer:
        retried_versions: set[str] = set()
        while True:
            probe = _Probe(revision)
            nursery.start_soon(self._probe, probe)
            # With a pinned revision no handshake can follow, so the server gets as long as timeouts.connect.
            with trio.move_on_after(self._timeouts.probe if pinned is None else inf):
                await probe.answered.wait()
            if probe.failure is not None:
                raise probe.failure
            verdict = read_verdict(probe.answer, revision.version)
            fits = not isinstance(verdict, TryAgain | PerRequest) or pinned in (None, verdict.version)
            if isinstance(verdict, TryAgain) and fits and verdict.version not in retried_versions:
                retried_versions.add(verdict.version)
                revision = REVISIONS[verdict.version]
            elif isinstance(verdict, PerRequest) and fits:
                return remote_server(verdict)
            elif isinstance(verdict, Handshake) and pinned is None:
                return await self._handshake(LATEST_HANDSHAKE, exactly=False, probe=probe)
            elif isinstance(verdict, Fail):
                raise verdict.error
            else:
                raise RemoteProtocolError(f"{self._link.name} does not speak revision {revision.version}")

    async def _probe(self, probe: _Probe) -> None:
        sent = self._connection.request("server/discover", DiscoverParams(), revision=probe.revision)
        try:
            probe.answer = await self._link.exchange(sent.message, probe.revision)
        except RequestFailed as failed:
            probe.answer = failed
        except MCPTrioError as error:
            probe.failure = error
        probe.answered.set()

    async def _handshake(self, revision: Revision, *, exactly: bool, probe: _Probe | None = None) -> RemoteServer:
        """Negotiate with ``initialize``. A server that starts slowly may still answer ``probe`` in the meantime."""
        sent = self._connection.initialize(revision)
        answer: Response | ErrorResponse | RequestFailed | None = None
        async with open_hidden_nursery() as nursery:
            if probe is not None and not probe.answered.is_set():
                nursery.start_soon(_cancel_when_decided, probe, nursery.cancel_scope)
            try:
                answer = await self._link.exchange(sent.message, revision)
            except RequestFailed as failed:
                answer = failed
            # The handshake was refused or abandoned, but a server that starts slowly may still answer the probe.
            if probe is not None and not isinstance(answer, Response):
                with trio.move_on_after(self._timeouts.probe):
                    await probe.answered.wait()
        late_verdict = _per_request(probe) if probe is not None and not isinstance(answer, Response) else None
        if late_verdict is not None:
            return remote_server(late_verdict)
        assert answer is not None
        if isinstance(answer, RequestFailed):
            if answer.reply is not None and answer.status == 200:
                raise answer.reply from answer
            raise answer
        return await self._complete_handshake(self._connection.result(sent, answer), revision, exactly=exactly)

    async def _complete_handshake(self, result: InitializeResult, revision: Revision, *, exactly: bool) -> RemoteServer:
        version = result.protocol_version
        if version not in HANDSHAKE_VERSIONS or (exactly and version != revision.version):
            expected = revision.version if exactly else f"one of {', '.join(HANDSHAKE_VERSIONS)}"
            raise RemoteProtocolError(f"{self._link.name}: expected revision {expected}, the server chose {version!r}")
        # The server may choose another version than the one requested (basic/lifecycle, "Version Negotiation").
        agreed = REVISIONS[version]
        initialized = self._connection.notification("notifications/initialized", None, revision=agreed)
        assert initialized is not None
        await self._link.send(initialized, agreed)
        return RemoteServer(
            revision=agreed,
            info=result.server_info,
            capabilities=result.capabilities,
            instructions=result.instructions,
        )


async def _cancel_when_decided(probe: _Probe, scope: trio.CancelScope) -> None:
    await probe.answered.wait()
    if _per_request(probe) is not None:
        scope.cancel()


def _per_request(probe: _Probe) -> PerRequest | None:
    verdict = read_verdict(probe.answer, probe.revision.version)
    return verdict if isinstance(verdict, PerRequest) else None
