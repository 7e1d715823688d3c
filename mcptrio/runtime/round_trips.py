"""The input channel of 2026-07-28: the response is ``input_required``, and a retry of the request has the answers.

One :class:`RoundTrips` serves one request. The handler is a :class:`Run`, which may outlive the request.

    request ──▶ Run started in the supervisor's nursery ── asks ──▶ parked; the reply: input_required, sealed state
    retry ────▶ parked here? resumed with the answers      otherwise ▶ a new Run replays the recorded answers

A retry can always be replayed; parking avoids the second run. In both cases, an answer is matched with its question by
the key alone. The key is the author's, or a digest of the question with a number that tells equal questions apart.

Source: MCP 2026-07-28, basic/patterns/mrtr.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import trio
from attrs import evolve

from mcptrio.abc.tracing import TRACING, trace_carrier
from mcptrio.errors import InvalidParams, MCPError, ToolError, URLElicitationRequired
from mcptrio.ground.guarded import Failure
from mcptrio.protocol.model.elicitation import ElicitURLParams
from mcptrio.protocol.model.input_required import ElicitRequest, InputRequest, InputRequiredResult
from mcptrio.runtime.inputs import require
from mcptrio.runtime.request_state import Journal, digest_of, open_state, seal_state
from mcptrio.runtime.run_channel import RunChannel
from mcptrio.runtime.runs import Run

__all__ = ["RoundTrips"]


class RoundTrips(RunChannel):
    """The input channel of one request. See :class:`mcptrio.runtime.run_channel.RunChannel`."""

    async def run(self, handler: Callable[[], Awaitable[Any]], *, parks: bool = True) -> Any:
        scope = self.scope
        digest = digest_of(scope.request)
        journal = self._journal(digest)
        if TRACING.tracer is not None and journal.trace:
            TRACING.tracer.continues(journal.trace)
        run = self._resume(journal)
        if run is None:
            if journal.ticket is not None:
                journal = evolve(journal, ticket=None)
            run = self._run = Run(self._runs, self, self._work, journal, self._answers_in_request(journal), parks=parks)
            self._runs.start(run.run, handler)
        try:
            if scope.plan is None:
                await run.settle()
            elif (task := await scope.plan.settle(run, run.channel)) is not None:
                # The call has become a task, for which the handler continues. This request is answered now.
                return task
        except trio.Cancelled:
            if scope.reason is None and scope.error is None:
                # Nothing has cancelled the request itself, so its HTTP exchange has ended.
                scope.cancel("the client has disconnected")
            run.cancel(scope.reason or "its deadline has passed")
            raise
        if run.failure is not None:
            raise run.failure
        if run.open and not run.handler_ended:
            return self._ask_and_park(run, digest)
        if isinstance(run.outcome, Failure) and isinstance(run.outcome.error, URLElicitationRequired):
            return self._require_url_visit(run, run.outcome.error, digest)
        return run.value()

    # Private

    def _journal(self, digest: str) -> Journal:
        state = self.scope.request.params.request_state
        if state is None:
            return Journal()
        settings = self._runs.settings
        # Checked before the state is decoded and decrypted.
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
        """Resume the parked handler of this request with the received answers. Returns ``None`` if none is parked."""
        parking = self._runs.parking
        run = parking.find(journal.ticket) if journal.ticket is not None else None
        if not isinstance(run, Run) or not run.can_resume:
            return None
        received = self._answers_in_request(journal)
        # All answers are read first, because the handler must stay parked if one of them is invalid.
        read = {key: self.read(run.open[key].question, received[key]) for key in run.open if key in received}
        parking.remove(run)
        # The handler still uses the channel that it was started with, so that channel serves the retry from now on.
        run.channel.scope = self.scope
        run.resume(self._work)
        for key, answer in read.items():
            run.answer(key, received[key], answer)
        return run

    def _answers_in_request(self, journal: Journal) -> dict[str, Any]:
        """Return the answers in this request."""
        responses: dict[str, Any] = self.scope.request.params.input_responses or {}
        # A first request may have answers to questions that the handler will ask. A retry has only answers to the
        # questions of the last round.
        if not journal.round:
            return responses
        return {key: responses[key] for key in journal.question_keys if key in responses}

    def _ask_and_park(self, run: Run, digest: str) -> InputRequiredResult:
        """Return the reply with the questions of a handler. Park the handler if that is possible, or cancel it."""
        # A side effect that asks keeps its claim while it is parked, and a retry on another replica would wait for it.
        may_park = run.parks and self._runs.may_park and not run.has_claims
        ticket = secrets.token_urlsafe(16) if may_park else None
        journal = self._next_round(run.journal, question_keys=tuple(run.open), ticket=ticket)
        # Sealed before parking: if the state is too large to be sent, no retry would ever arrive.
        is_sealed = False
        try:
            reply = self._input_required({key: question.wire for key, question in run.open.items()}, journal, digest)
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
    def _next_round(
        journal: Journal, *, question_keys: tuple[str, ...], pages: tuple[str, ...] = (), ticket: str | None
    ) -> Journal:
        call, trace = journal.call or secrets.token_urlsafe(16), journal.trace or trace_carrier()
        return evolve(
            journal,
            round=journal.round + 1,
            question_keys=question_keys,
            pages=pages,
            ticket=ticket,
            call=call,
            trace=trace,
        )

    def _require_url_visit(self, run: Run, error: URLElicitationRequired, digest: str) -> InputRequiredResult:
        """Return a reply that asks the user to open URLs, for an error that 2025-11-25 reports as -32042.

        The retry runs the handler again.

        Raises:
            ToolError: The user declined to open the URL.
        """
        for page in run.journal.pages:
            answer = run.received.get(page)
            action = answer.get("action") if isinstance(answer, dict) else None
            if action in ("decline", "cancel"):
                raise ToolError(f"the user chose to {action}: {error.message}")
        requests: dict[str, InputRequest] = {}
        for elicitation in error.elicitations:
            url = ElicitURLParams(message=elicitation["message"], url=elicitation["url"])
            requests[elicitation["elicitationId"]] = ElicitRequest(params=url)
        require(self.scope.request.peer, "elicitation.url")
        journal = self._next_round(run.journal, question_keys=tuple(requests), pages=tuple(requests), ticket=None)
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
