"""The base class of input channels whose handler runs in the nursery of the server, and may outlive its request.

:class:`~mcptrio.runtime.round_trips.RoundTrips` sends the questions in the response to the request. The channel of a
task (:mod:`mcptrio.tasks`) sends them to the client when it asks for the state of the task.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import trio

from mcptrio.abc.tracing import trace_wait
from mcptrio.errors import InvalidParams, MCPError
from mcptrio.runtime.inputs import InputQuestion, Lifetime, request_for, require
from mcptrio.runtime.request import RequestScope
from mcptrio.runtime.runs import PendingQuestion, Run, Runs
from mcptrio.runtime.work import Work

__all__ = ["RunChannel"]


class RunChannel:
    """An input channel for a handler that may outlive the request that started it.

    Args:
        work: The work of the request, for the handler that the channel starts or resumes.
        runs: The runs of the server.
    """

    def __init__(self, scope: RequestScope, work: Work, runs: Runs) -> None:
        self.scope = scope
        self._work = work
        self._runs = runs
        self._run: Run | None = None
        self._lifetime = Lifetime()

    async def ask(self, questions: Sequence[InputQuestion]) -> list[Any]:
        run = self._run
        if run is not None and run.is_shielded():
            # If no retry arrives, the handler could not be cancelled.
            raise RuntimeError(
                "expected a question outside shielded cancel scopes, because the client may never answer"
            )
        peer = self.scope.request.peer
        for question in questions:
            require(peer, question.capability)
        return await self._lifetime.within(partial(self._ask, questions))

    async def _ask(self, questions: Sequence[InputQuestion]) -> list[Any]:
        run = self._current
        revision = self.scope.request.peer.revision
        pending: dict[str, PendingQuestion] = {}
        effects = run.begin_question()
        try:
            for question in questions:
                request = request_for(question, self.scope.request.peer)
                wire = {"method": request.method, "params": revision.unstructure(request.params)}
                key = run.key_for(question, wire)
                entry = pending[key] = PendingQuestion(question, request)
                if key in run.received:
                    run.journal.answers.setdefault(key, run.received[key])
                if key in run.journal.answers:
                    try:
                        entry.answer = self.read(question, run.journal.answers[key])
                    except MCPError as error:
                        # The client's answer is invalid, which is an error of the request and not of the handler.
                        run.fail(error)
                        await trio.lowlevel.checkpoint()
                    entry.arrived.set()
                else:
                    run.wait_for(key, entry)
            open = [each.wire.method for each in pending.values() if not each.arrived.is_set()]
            with trace_wait(open) if open else nullcontext():
                for entry in pending.values():
                    await entry.arrived.wait()
        finally:
            run.end_question(effects)
            for key, entry in pending.items():
                run.withdraw(key, entry)
        return [entry.answer for entry in pending.values()]

    async def once(
        self, key: str, effect: Callable[[], Awaitable[Any]], *, shared: bool = True, repeatable: bool = False
    ) -> Any:
        async def once() -> Any:
            return await self._current.once(key, effect, shared=shared, repeatable=repeatable)

        return await self._lifetime.within(once)

    def close(self) -> None:
        """Close the channel, because its handler has ended."""
        # Breaks the reference cycle of channel and run.
        self._run = None
        self._lifetime.end(f"request {self.scope.label} has ended")

    def read(self, question: InputQuestion, raw: Any) -> Any:
        """Return the answer for the handler.

        Args:
            raw: The answer in wire form.

        Raises:
            InvalidParams: The answer does not match the question.
        """
        if not isinstance(raw, dict):
            raise InvalidParams(f"expected an object, got {type(raw).__name__} at `inputResponses`")
        return question.read(self.scope.request.peer.revision.structure(raw, question.result_type()))

    @property
    def _current(self) -> Run:
        assert self._run is not None, "ask() and once() belong inside run()"
        return self._run
