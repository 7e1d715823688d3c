"""The input channel of 2026-07-28: the response is ``input_required``, and a retry of the request has the answers.

One :class:`RoundTrips` serves one HTTP (or stdio) request; the handler itself is a :class:`Run`, which may outlive it.

    request ──▶ Run started in the supervisor's nursery ── asks ──▶ parked; the reply: input_required, sealed state
    retry ────▶ parked here? resumed with the answers      otherwise ▶ a new Run replays the recorded answers

Replay always works; parking avoids the second run. In both, only the key matches a question with its answer. The key
is the author's, or a digest of the question with a number that tells equal questions apart.

Source: MCP 2026-07-28, basic/patterns/mrtr.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import trio
from attrs import evolve

from mcptrio.errors import InvalidParams, MCPError, ToolError, URLElicitationRequired
from mcptrio.ground.guarded import Done, Failure
from mcptrio.protocol.model.elicitation import ElicitURLParams
from mcptrio.protocol.model.input_required import ElicitRequest, InputRequest, InputRequiredResult
from mcptrio.runtime.inputs import InputQuestion, Lifetime, request_for, require
from mcptrio.runtime.request import RequestScope
from mcptrio.runtime.request_state import Journal, digest_of, open_state, seal_state
from mcptrio.runtime.runs import PendingQuestion, Run, Runs
from mcptrio.runtime.work import Work

__all__ = ["RoundTrips"]


class RoundTrips:
    """The input channel of one request.

    Args:
        work: the work of the request, passed to the handler that it starts or resumes.
        runs: the runs of the server.
    """

    def __init__(self, scope: RequestScope, work: Work, runs: Runs) -> None:
        self.scope = scope
        self._work = work
        self._runs = runs
        self._run: Run | None = None
        self._lifetime = Lifetime()

    async def run(self, handler: Callable[[], Awaitable[Any]], *, parks: bool = True) -> Any:
        scope = self.scope
        digest = digest_of(scope.request)
        journal = self._journal(digest)
        run = self._resume(journal)
        if run is None:
            journal = evolve(journal, ticket=None)
            run = self._run = Run(self._runs, self, self._work, journal, self._given(journal), parks=parks)
            self._runs.start(run.run, handler)
        try:
            await run.settle()
        except trio.Cancelled:
            if scope.reason is None and scope.error is None:
                # Only the HTTP exchange of the request has ended: no deadline has expired, and there is no error.
                scope.cancel("the client has disconnected")
            run.cancel(scope.reason or "its deadline has passed")
            raise
        if run.failure is not None:
            raise run.failure
        if run.open and not run.is_over:
            return self._ask_and_park(run, digest)
        if isinstance(run.outcome, Done):
            return run.outcome.value
        if isinstance(run.outcome, Failure):
            if isinstance(run.outcome.error, URLElicitationRequired):
                return self._require_url_visit(run, run.outcome.error, digest)
            raise run.outcome.error
        raise InvalidParams("the handler was cancelled; repeat the original request")

    async def ask(self, questions: Sequence[InputQuestion]) -> list[Any]:
        run = self._run
        if run is not None and run.is_shielded():
            # A retry of the request may never come, and the shield would keep the handler alive.
            raise RuntimeError("ask the client outside shielded scopes: an answer may never come")
        peer = self.scope.request.peer
        for question in questions:
            require(peer, question.capability)
        return await self._lifetime.within(partial(self._ask, questions))

    async def _ask(self, questions: Sequence[InputQuestion]) -> list[Any]:
        run = self._current
        revision = self.scope.request.peer.revision
        asked: dict[str, PendingQuestion] = {}
        effects = run.begin_question()
        try:
            for question in questions:
                request = request_for(question, self.scope.request.peer)
                wire = {"method": request.method, "params": revision.unstructure(request.params)}
                key = run.key_for(question, wire)
                entry = asked[key] = PendingQuestion(question, request)
                if key in run.given:
                    run.journal.answers.setdefault(key, run.given[key])
                if key in run.journal.answers:
                    try:
                        entry.answer = self._read(question, run.journal.answers[key])
                    except MCPError as error:
                        # The client's answer is invalid, which is an error of the request and not of the handler.
                        run.fail(error)
                        await trio.lowlevel.checkpoint()
                    entry.arrived.set()
                else:
                    run.wait_for(key, entry)
            for entry in asked.values():
                await entry.arrived.wait()
        finally:
            run.end_question(effects)
            # Drop questions whose tasks no longer wait.
            for key, entry in asked.items():
                if run.open.get(key) is entry:
                    del run.open[key]
        return [entry.answer for entry in asked.values()]

    async def once(self, key: str, effect: Callable[[], Awaitable[Any]], *, shared: bool = True) -> Any:
        async def once() -> Any:
            return await self._current.once(key, effect, shared=shared)

        return await self._lifetime.within(once)

    def over(self) -> None:
        """Close the channel when its handler has ended."""
        # Breaks the reference cycle between the two.
        self._run = None
        self._lifetime.end(f"request {self.scope.label} has ended")

    # Private

    @property
    def _current(self) -> Run:
        assert self._run is not None, "ask() and once() belong inside run()"
        return self._run

    def _journal(self, digest: str) -> Journal:
        state = self.scope.request.params.request_state
        if state is None:
            return Journal()
        settings = self._runs.settings
        # Before it is decoded and decrypted.
        if len(state) > settings.limits.state_bytes:
            raise InvalidParams(
                f"expected at most {settings.limits.state_bytes} characters, got {len(state)} at `requestState`"
            )
        return open_state(
            self._runs.sealer,
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
        """Resume the parked handler of this request with the received answers, and return it."""
        parking = self._runs.parking
        run = parking.find(journal.ticket) if journal.ticket is not None else None
        if not isinstance(run, Run) or not run.can_resume:
            return None
        given = self._given(journal)
        # All answers are read first: an invalid one is an error for the client, and the handler stays parked.
        read = {key: self._read(run.open[key].question, given[key]) for key in run.open if key in given}
        parking.remove(run)
        # The handler still uses the channel that it was started with, so that channel serves the retry from now on.
        run.channel.scope = self.scope
        run.resume(self._work)
        for key, answer in read.items():
            entry = run.open.pop(key)
            run.journal.answers[key] = given[key]
            entry.answer = answer
            entry.arrived.set()
        return run

    def _given(self, journal: Journal) -> dict[str, Any]:
        """Return the answers to the last questions; a first request may have answers to questions not yet asked."""
        responses: dict[str, Any] = self.scope.request.params.input_responses or {}
        if not journal.round:
            return responses
        return {key: responses[key] for key in journal.asked if key in responses}

    def _read(self, question: InputQuestion, raw: Any) -> Any:
        if not isinstance(raw, dict):
            raise InvalidParams(f"expected an object, got {type(raw).__name__} at `inputResponses`")
        return question.read(self.scope.request.peer.revision.structure(raw, question.result_type()))

    def _ask_and_park(self, run: Run, digest: str) -> InputRequiredResult:
        """Return the reply with the questions of a handler, and park the handler if there is room."""
        # A parked side effect that asks would keep its claim, and the retry on another replica would wait for it.
        may_park = run.parks and self._runs.may_park and not run.has_claims
        ticket = secrets.token_urlsafe(16) if may_park else None
        journal = self._next(run.journal, asked=tuple(run.open), ticket=ticket)
        # Sealed first: if the state cannot be sent, no retry would ever come for a parked handler.
        is_sealed = False
        try:
            reply = self._input_required({key: asked.wire for key, asked in run.open.items()}, journal, digest)
            is_sealed = True
        finally:
            if not is_sealed:
                run.cancel("its state cannot be sent")
        run.journal = journal
        if ticket is None:
            run.cancel("not parked: the retry replays")
        else:
            run.park(self._runs.settings.timeouts.input)
            session = self.scope.session
            self._runs.parking.park(
                ticket, run, caller=self.scope.caller, session=session if session.is_shared else None
            )
        return reply

    @staticmethod
    def _next(journal: Journal, *, asked: tuple[str, ...], pages: tuple[str, ...] = (), ticket: str | None) -> Journal:
        call = journal.call or secrets.token_urlsafe(16)
        return evolve(journal, round=journal.round + 1, asked=asked, pages=pages, ticket=ticket, call=call)

    def _require_url_visit(self, run: Run, error: URLElicitationRequired, digest: str) -> InputRequiredResult:
        """Return the round trip for an error that 2025-11-25 reports as -32042. The retry runs the handler again.

        Raises:
            ToolError: the user declined to open the URL.
        """
        for page in run.journal.pages:
            answer = run.given.get(page)
            action = answer.get("action") if isinstance(answer, dict) else None
            if action in ("decline", "cancel"):
                raise ToolError(f"the user chose to {action}: {error.message}")
        requests: dict[str, InputRequest] = {}
        for elicitation in error.elicitations:
            url = ElicitURLParams(message=elicitation["message"], url=elicitation["url"])
            requests[elicitation["elicitationId"]] = ElicitRequest(params=url)
        require(self.scope.request.peer, "elicitation.url")
        journal = self._next(run.journal, asked=tuple(requests), pages=tuple(requests), ticket=None)
        return self._input_required(requests, journal, digest)

    def _input_required(self, requests: dict[str, InputRequest], journal: Journal, digest: str) -> InputRequiredResult:
        settings = self._runs.settings
        state = seal_state(
            self._runs.sealer,
            journal,
            audience=settings.audience,
            principal=self._principal,
            digest=digest,
        )
        limit = settings.limits.state_bytes
        if len(state) > limit:
            raise MCPError(f"the answers so far need a state of {len(state)} bytes: the limit is {limit} bytes")
        return InputRequiredResult(input_requests=requests, request_state=state)
