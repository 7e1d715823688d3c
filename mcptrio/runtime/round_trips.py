"""Asking the client where the server may send no requests: answer ``input_required``, and go on with the retry.

One :class:`RoundTrips` serves one HTTP (or stdio) request; the handler itself is a :class:`Run`, which may outlive it.

    request ──▶ Run started in the supervisor's nursery ── asks ──▶ parked; the reply: input_required, sealed state
    retry ────▶ parked here? resumed with the answers      otherwise ▶ a new Run replays the recorded answers

The one rule: replay is always right, parking saves the second run. So an answer meets a question by its key alone:
the author's, or a digest of the question, with an ordinal for equals.

Source: MCP 2026-07-28, basic/patterns/mrtr.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import Any

import orjson
import trio
from attrs import define, evolve

from mcptrio.errors import InvalidParams, MCPError, URLElicitationRequired
from mcptrio.protocol.model.elicitation import ElicitURLParams
from mcptrio.protocol.model.input_required import ElicitRequest, InputRequest, InputRequiredResult
from mcptrio.runtime.current import CURRENT
from mcptrio.runtime.dispatch import Done, Failure, contain
from mcptrio.runtime.inputs import Question, require
from mcptrio.runtime.request_scope import RequestScope
from mcptrio.runtime.request_state import Journal, digest_of, open_state, seal_state

__all__ = ["RoundTrips"]

_log = logging.getLogger("mcptrio.round_trips")


@define(eq=False, slots=True)
class _Asked:
    """A question of a run that has no answer yet."""

    question: Question
    wire: InputRequest
    arrived: trio.Event
    answer: Any = None


class Run:
    """A handler, running or parked."""

    def __init__(self, channel: RoundTrips, journal: Journal, given: dict[str, Any]) -> None:
        self.channel = channel
        self.journal = journal
        self.given = given
        """Answers that came with the request; they go into the journal when their question is asked, or nowhere."""
        self.label = channel.scope.label
        self.owner = channel.scope.owner
        self.since = trio.current_time()
        self.cancel_scope = trio.CancelScope()
        self.open: dict[str, _Asked] = {}
        self.outcome: Done[Any] | Failure | None = None
        self.fault: MCPError | None = None
        self._changed = trio.Event()
        self._names: set[str] = set()
        self._seen: dict[str, int] = {}
        self._effects: dict[str, int] = {}

    async def work(self, handler: Callable[[], Awaitable[Any]]) -> None:
        """Runs in the supervisor's nursery."""
        CURRENT.set(self.channel)
        with self.cancel_scope:
            self.outcome = await contain(handler)
        self.channel.over()
        self.channel.scope.session.supervisor.parking.remove(self)
        self._wake()

    def cancel(self, reason: str) -> None:
        _log.debug("%s: %s", self.label, reason)
        self.cancel_scope.cancel()

    async def settle(self) -> None:
        """Wait until the handler has ended or has asked something."""
        while self.outcome is None and not self.open and not self.cancel_scope.cancelled_caught and self.fault is None:
            self._changed = trio.Event()
            await self._changed.wait()

    def key_for(self, question: Question, wire: dict[str, Any]) -> str:
        name = key = question.key if question.key is not None else content_key(wire)
        # An author's key may look like one of ours.
        while name in self._names:
            self._seen[key] = count = self._seen.get(key, 1) + 1
            name = f"{key}#{count}"
        self._names.add(name)
        return name

    def effect_key(self, key: str) -> str:
        self._effects[key] = count = self._effects.get(key, 0) + 1
        return key if count == 1 else f"{key}#{count}"

    def wait_for(self, key: str, asked: _Asked) -> None:
        self.open[key] = asked
        self._wake()

    def fail(self, error: MCPError) -> None:
        """The round is over with an error for the client; the handler has no say in it."""
        self.fault = error
        self.cancel_scope.cancel()
        self._wake()

    def _wake(self) -> None:
        self._changed.set()


class RoundTrips:
    def __init__(self, scope: RequestScope) -> None:
        self.scope = scope
        self._run: Run | None = None

    async def run(self, handler: Callable[[], Awaitable[Any]]) -> Any:
        scope = self.scope
        digest = digest_of(scope.request)
        journal = self._journal(digest)
        run = self._resume(journal)
        if run is None:
            run = self._run = Run(self, evolve(journal, ticket=None), self._given(journal))
            scope.session.supervisor.nursery.start_soon(run.work, handler)
        try:
            await run.settle()
        except trio.Cancelled:
            if scope.reason is None and scope.fault is None:
                # Not its deadline: whoever carries the request has let go of it.
                scope.reason = "the client is gone"
            run.cancel(scope.reason or "its time is over")
            raise
        if run.fault is not None:
            raise run.fault
        if run.open:
            return self._park(run, digest)
        if isinstance(run.outcome, Done):
            return run.outcome.value
        if isinstance(run.outcome, Failure):
            if isinstance(run.outcome.error, URLElicitationRequired):
                return self._visit_first(run, run.outcome.error, digest)
            raise run.outcome.error
        raise InvalidParams("the handler that asked is gone: send the request anew")

    async def ask(self, questions: Sequence[Question]) -> list[Any]:
        run = self._run
        assert run is not None, "ask() belongs inside run()"
        if _shielded(run.cancel_scope):
            raise RuntimeError("ask the client outside shielded scopes: an answer may never come")
        peer = self.scope.request.peer
        for question in questions:
            require(peer, question.capability)
        asked: dict[str, _Asked] = {}
        try:
            for question in questions:
                request = question.request()
                wire = {"method": request.method, "params": peer.revision.unstructure(request.params)}
                key = run.key_for(question, wire)
                entry = asked[key] = _Asked(question, request, trio.Event())
                if key in run.given:
                    run.journal.answers.setdefault(key, run.given[key])
                if key in run.journal.answers:
                    try:
                        entry.answer = self._read(question, run.journal.answers[key])
                    except MCPError as error:
                        run.fail(error)
                        await trio.lowlevel.checkpoint()
                    entry.arrived.set()
                else:
                    run.wait_for(key, entry)
            for entry in asked.values():
                await entry.arrived.wait()
        finally:
            # What nobody waits for any more is not asked any more.
            for key, entry in asked.items():
                if run.open.get(key) is entry:
                    del run.open[key]
        return [entry.answer for entry in asked.values()]

    async def once(self, key: str, effect: Callable[[], Awaitable[Any]]) -> Any:
        run = self._run
        assert run is not None, "once() belongs inside run()"
        key = run.effect_key(key)
        if key not in run.journal.once:
            value = await effect()
            try:
                orjson.dumps(value)
            except TypeError as error:
                raise TypeError(f"expected a JSON value from the effect {key}, got {type(value).__name__}") from error
            run.journal.once[key] = value
        return run.journal.once[key]

    def over(self) -> None:
        """The handler has ended. Each of the two held the other."""
        self._run = None

    # Private

    def _journal(self, digest: str) -> Journal:
        state = self.scope.request.params.request_state
        if state is None:
            return Journal()
        settings = self.scope.session.supervisor.settings
        if len(state) > settings.limits.state_bytes:
            raise InvalidParams(f"expected at most {settings.limits.state_bytes} characters @ $.requestState")
        return open_state(
            self.scope.session.supervisor.sealer,
            state,
            audience=settings.audience,
            principal=self._principal,
            digest=digest,
        )

    @property
    def _principal(self) -> str:
        principal = self.scope.principal
        return "" if principal is None else "\0".join([each or "" for each in principal.identity])

    def _resume(self, journal: Journal) -> Run | None:
        """The parked handler of this request, woken with the answers that came."""
        parking = self.scope.session.supervisor.parking
        run = parking.find(journal.ticket) if journal.ticket is not None else None
        # One whose time is over may still be cleaning up.
        if not isinstance(run, Run) or run.outcome is not None or run.cancel_scope.cancel_called:
            return None
        given = self._given(journal)
        # An answer that does not fit is the client's affair: the handler stays parked.
        read = {key: self._read(run.open[key].question, given[key]) for key in run.open if key in given}
        parking.remove(run)
        # The handler holds the channel it was started with; from now on that one speaks for the retry.
        run.channel.scope = self.scope
        run.cancel_scope.deadline = inf
        for key, answer in read.items():
            entry = run.open.pop(key)
            run.journal.answers[key] = given[key]
            entry.answer = answer
            entry.arrived.set()
        return run

    def _given(self, journal: Journal) -> dict[str, Any]:
        """The answers that came to what was asked; with the first request, when nothing was, to whatever will be."""
        responses: dict[str, Any] = self.scope.request.params.input_responses or {}
        if not journal.round:
            return responses
        return {key: responses[key] for key in journal.asked if key in responses}

    def _read(self, question: Question, raw: Any) -> Any:
        if not isinstance(raw, dict):
            raise InvalidParams(f"expected an object, got {type(raw).__name__} @ $.inputResponses")
        return question.read(self.scope.request.peer.revision.structure(raw, question.result_type()))

    def _park(self, run: Run, digest: str) -> InputRequiredResult:
        supervisor = self.scope.session.supervisor
        ticket = secrets.token_urlsafe(16)
        run.since = trio.current_time()
        parked = not supervisor.draining and supervisor.parking.park(ticket, run)
        if parked:
            run.cancel_scope.deadline = run.since + supervisor.settings.timeouts.input
        journal = evolve(
            run.journal, round=run.journal.round + 1, asked=tuple(run.open), ticket=ticket if parked else None
        )
        run.journal = journal
        requests = {key: asked.wire for key, asked in run.open.items()}
        if not parked:
            run.cancel("not parked: the retry replays")
        return self._input_required(requests, journal, digest)

    def _visit_first(self, run: Run, error: URLElicitationRequired, digest: str) -> InputRequiredResult:
        """What 2025-11-25 says with an error (-32042) is a round trip here; the retry runs the handler again."""
        requests: dict[str, InputRequest] = {}
        for elicitation in error.data["elicitations"]:
            url = ElicitURLParams(message=elicitation["message"], url=elicitation["url"])
            requests[elicitation["elicitationId"]] = ElicitRequest(params=url)
        require(self.scope.request.peer, "elicitation.url")
        journal = evolve(run.journal, round=run.journal.round + 1, asked=tuple(requests), ticket=None)
        return self._input_required(requests, journal, digest)

    def _input_required(self, requests: dict[str, InputRequest], journal: Journal, digest: str) -> InputRequiredResult:
        supervisor = self.scope.session.supervisor
        state = seal_state(
            supervisor.sealer,
            journal,
            audience=supervisor.settings.audience,
            principal=self._principal,
            digest=digest,
        )
        limit = supervisor.settings.limits.state_bytes
        if len(state) > limit:
            raise MCPError(f"the answers so far need {len(state)} bytes of state, more than {limit}")
        return InputRequiredResult(input_requests=requests, request_state=state)


def _shielded(outermost: trio.CancelScope) -> bool:
    """Whether a shield keeps the cancellation of ``outermost`` from reaching the current task."""
    deadline = outermost.deadline
    outermost.deadline = -inf
    try:
        return trio.current_effective_deadline() != -inf
    finally:
        outermost.deadline = deadline


def content_key(wire: dict[str, Any]) -> str:
    """A key made of the question itself, so that an answer only meets the question it was given for."""
    return hashlib.sha256(orjson.dumps(wire, option=orjson.OPT_SORT_KEYS)).hexdigest()[:24]
