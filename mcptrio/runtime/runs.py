"""A run: one handler that asks its client over several requests. It is running, or parked between two requests.

Input channels start it in the supervisor's nursery, because it may outlive its request.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable
from math import inf
from typing import Any, Protocol

import orjson
import trio
from attrs import define, field

from mcptrio.abc import StateSealer
from mcptrio.abc.status import ParkedStatus
from mcptrio.errors import ConnectionClosed, InvalidParams, MCPError
from mcptrio.ground.deadlines import Deadlines
from mcptrio.ground.guarded import Done, Failure, run_guarded
from mcptrio.protocol.model.input_required import InputRequest
from mcptrio.runtime.current import CURRENT
from mcptrio.runtime.effects import Effects
from mcptrio.runtime.inputs import InputQuestion
from mcptrio.runtime.parking import ParkedHandlers
from mcptrio.runtime.request import RequestScope
from mcptrio.runtime.request_state import LIFETIME, Journal
from mcptrio.runtime.settings import ServerSettings
from mcptrio.runtime.work import Work

__all__ = ["PendingQuestion", "Run", "Runs"]

_log = logging.getLogger("mcptrio.round_trips")

FINISH_TIMEOUT = 5.0
"""Seconds for a side effect to end after its handler was cancelled."""


@define(eq=False, slots=True)
class PendingQuestion:
    """A question of a run that has no answer yet."""

    question: InputQuestion
    wire: InputRequest
    arrived: trio.Event = field(factory=trio.Event)
    answer: Any = None


@define(eq=False, slots=True)
class _Effect:
    """A running side effect.

    Args:
        task: The task that runs it.
        outer: The nurseries that the task had open when the effect began. Tasks in later ones belong to the effect.
        finishes: Whether a cancellation of the handler waits for the effect.
        is_claimed: Whether other replicas wait for the effect.
        asks: The number of its questions that have no answer yet.
    """

    task: trio.lowlevel.Task
    outer: tuple[trio.Nursery, ...]
    finishes: bool
    is_claimed: bool
    asks: int = 0

    def contains(self, ancestors: list[tuple[trio.lowlevel.Task, trio.Nursery | None]]) -> bool:
        """Return whether the task whose :func:`_ancestors` these are runs as a part of the effect."""
        return any(task is self.task and (nursery is None or nursery not in self.outer) for task, nursery in ancestors)


class Runs:
    """The state that all runs of a server share.

    Args:
        parking: The parked handlers.
        sealer: Seals the state of requests.
        deadlines: Watches the deadlines of parked handlers.
        start: Starts a task in the nursery of the server.
    """

    def __init__(
        self,
        settings: ServerSettings,
        parking: ParkedHandlers,
        sealer: StateSealer,
        deadlines: Deadlines,
        *,
        start: Callable[..., None],
    ) -> None:
        self.settings = settings
        self.sealer = sealer
        self.deadlines = deadlines
        self.start = start
        self.parking = parking
        self.effects = Effects(LIFETIME)
        self._is_stopping = False

    @property
    def may_park(self) -> bool:
        """False if parking is disabled or the server is stopping."""
        return self.parking.is_enabled and not self._is_stopping

    def stop(self) -> None:
        """Park no more handlers, and cancel the parked ones."""
        self._is_stopping = True
        self.parking.clear("the server is stopping")


class Channel(Protocol):
    """The input channel of a run, as the run uses it."""

    scope: RequestScope
    """The request, or the request of the task, that the handler serves now."""

    def read(self, question: InputQuestion, raw: Any) -> Any:
        """Return the answer for the handler, from its wire form.

        Raises:
            InvalidParams: The answer does not match the question.
        """
        ...

    def close(self) -> None:
        """Called when the handler has ended."""
        ...


class Run:
    """One handler that may ask the client questions over several requests.

    Args:
        work: The work of the request that started it.
        received: Answers in the request, by key. Each is added to the journal when the handler asks its question.
        parks: Whether it may be parked between two requests; otherwise each retry replays it.
    """

    def __init__(
        self, runs: Runs, channel: Channel, work: Work, journal: Journal, received: dict[str, Any], *, parks: bool
    ) -> None:
        self._runs = runs
        self.channel = channel
        self.work = work
        self.journal = journal
        self.received = received
        self.parks = parks
        self.keep: float | None = None
        """Seconds for which results of its side effects are stored; ``None`` for as long as a sealed state is valid."""
        self.label = work.label
        self.owner = work.owner
        self.since = trio.current_time()
        self.deadline = inf
        """Trio clock time at which a parked handler is cancelled."""
        self.is_parked = False
        self.open: dict[str, PendingQuestion] = {}
        """The questions without an answer, by key."""
        self.outcome: Done[Any] | Failure | None = None
        """The result of the handler; ``None`` while it runs and if it was cancelled."""
        self.failure: MCPError | None = None
        """An error of the request that ends the run, whatever the handler does."""
        self.handler_ended = False
        self._scope = trio.CancelScope()
        self._task: trio.lowlevel.Task | None = None
        self._is_ending = False
        self._changed = trio.Event()
        self._resumed = trio.Event()
        self._ended = trio.Event()
        self._effects: list[_Effect] = []
        self._used_keys: set[str] = set()
        self._key_counts: dict[str, int] = {}
        self._effect_counts: dict[str, int] = {}
        work.begin()

    async def run(self, handler: Callable[[], Awaitable[Any]]) -> None:
        """Run the handler until it completes."""
        CURRENT.set(self.channel)
        self._task = trio.lowlevel.current_task()
        try:
            with self._scope:
                self.outcome = await run_guarded(handler)
        finally:
            self.handler_ended = True
            self.channel.close()
            if self.is_parked:
                # park() has ended the work, so it must not be ended again.
                self.is_parked = False
                self._runs.parking.remove(self)
                self._runs.deadlines.discard(self)
            else:
                self.work.end()
            self._ended.set()
            self.wake()

    @property
    def status(self) -> ParkedStatus:
        request, age = self.channel.scope.status, trio.current_time() - self.since
        return ParkedStatus(label=self.label, client=request.client, principal=request.principal, age=age)

    def cancel(self, reason: str) -> None:
        """Cancel the handler when its side effects have ended, but no later than after :data:`FINISH_TIMEOUT`."""
        if self._is_ending or self.handler_ended:
            return
        _log.debug("%s: %s", self.label, reason)
        self._is_ending = True
        if self.is_parked:
            # The handler runs again, to clean up, so it counts as a running call.
            self._unpark(self.work)
        self._cancel_after_effects()

    def expire(self) -> None:
        """Cancel the parked handler, because no retry arrived in time."""
        self._runs.parking.remove(self)
        self.cancel("no answer came")

    def park(self, seconds: float) -> None:
        """Park the handler until a retry has the answers. Its current request is answered with its questions."""
        self.since = trio.current_time()
        self.deadline = self.since + seconds
        self.is_parked = True
        self._resumed = trio.Event()
        self._runs.deadlines.add(self)
        self.work.end()

    def resume(self, work: Work) -> None:
        """Continue the handler for another request."""
        self._unpark(work)

    def result(self) -> Done[Any] | Failure:
        """Return the outcome of the handler. Call this only after it has ended.

        Raises:
            InvalidParams: An answer did not match its question, or the handler was cancelled.
        """
        if self.failure is not None:
            raise self.failure
        if self.outcome is None:
            raise InvalidParams("the handler was cancelled; repeat the original request")
        return self.outcome

    def value(self) -> Any:
        """Return the value that the handler returned. Call this only after it has ended.

        Raises:
            Exception: The exception that the handler raised.
            InvalidParams: See :meth:`result`.
        """
        outcome = self.result()
        if isinstance(outcome, Failure):
            raise outcome.error
        return outcome.value

    @property
    def can_resume(self) -> bool:
        """True if the handler is parked and has not ended."""
        return self.is_parked and self.outcome is None

    @property
    def asks(self) -> bool:
        """True if the handler waits for answers, and no side effect is running."""
        # A state that is sealed while an effect runs does not contain its result, so a replay would repeat the effect.
        return bool(self.open) and not self._has_working_effect

    @property
    def has_ended(self) -> bool:
        """True if the request can be answered with the result of the handler, or with an error."""
        return self.handler_ended or self.failure is not None

    async def settle(self) -> None:
        """Wait until the handler has ended or :attr:`asks`."""
        while not (self.has_ended or self.asks):
            await self.wait_changed()

    def key_for(self, question: InputQuestion, wire: dict[str, Any]) -> str:
        """Return a key for a question that no earlier question of this run has."""
        name = key = question.key if question.key is not None else content_key(wire)
        # A loop, because an author's key may already have the form of a numbered one.
        while name in self._used_keys:
            self._key_counts[key] = count = self._key_counts.get(key, 1) + 1
            name = f"{key}#{count}"
        self._used_keys.add(name)
        return name

    def wait_for(self, key: str, question: PendingQuestion) -> None:
        """Note that the handler waits for the answer to a question."""
        self.open[key] = question
        self.wake()

    def withdraw(self, key: str, question: PendingQuestion) -> None:
        """Note that the handler no longer waits for the answer to a question."""
        if self.open.get(key) is question:
            del self.open[key]
            self.wake()

    def answer(self, key: str, raw: Any, answer: Any) -> None:
        """Pass an answer to the task of the handler that has asked the question.

        Args:
            raw: The answer in wire form, for a replay.
            answer: The answer that the handler gets.
        """
        entry = self.open.pop(key)
        self.journal.answers[key] = raw
        entry.answer = answer
        entry.arrived.set()
        self.wake()

    async def wait_changed(self) -> None:
        """Wait until the handler asks, receives an answer, ends a side effect or ends, or until :meth:`wake`."""
        self._changed = trio.Event()
        await self._changed.wait()

    def wake(self) -> None:
        """End the wait of :meth:`wait_changed`."""
        self._changed.set()

    def fail(self, error: MCPError) -> None:
        """End the run with an error for the client, whatever the handler does."""
        self.failure = error
        self.cancel("an answer does not match its question")
        self.wake()

    # Side effects

    @property
    def has_claims(self) -> bool:
        """True if a side effect is running for whose result other replicas wait."""
        return any(effect.is_claimed for effect in self._effects)

    @property
    def has_unclaimed(self) -> bool:
        """True if a side effect is running that another process would repeat."""
        is_shared = self._runs.effects.shared is not None
        return is_shared and any(effect.finishes and not effect.is_claimed for effect in self._effects)

    async def once(
        self, key: str, effect: Callable[[], Awaitable[Any]], *, shared: bool, repeatable: bool = False
    ) -> Any:
        """See :meth:`mcptrio.runtime.inputs.InputChannel.once`."""
        self._effect_counts[key] = count = self._effect_counts.get(key, 0) + 1
        if count > 1:
            key = f"{key}#{count}"
        if key in self.journal.once:
            return self.journal.once[key]
        await self._wait_for_turn()
        task = trio.lowlevel.current_task()
        # Until the first state of a call is sent, no other delivery of it exists.
        call = self.journal.call if shared else None
        is_claimed = call is not None and self._runs.effects.shared is not None
        running = _Effect(task, tuple(task.child_nurseries), finishes=shared, is_claimed=is_claimed)
        self._effects.append(running)
        try:
            if call is not None:
                # A function, because the call may become a task, with another time, while the effect waits or runs.
                value = await self._runs.effects.once(call, key, effect, repeatable=repeatable, keep=lambda: self.keep)
            else:
                value = await effect()
            self.journal.once[key] = value
        finally:
            self._effects.remove(running)
            if self._is_ending:
                self._cancel_after_effects()
            self.wake()
        return value

    def is_shielded(self) -> bool:
        """Return whether a shield protects the current task from a cancellation of this run."""
        if all(task is not self._task for task, _ in _ancestors()):
            # The caller is in a thread or in a nursery of the plugin. Lifetime cancels it at the end of the run.
            return False
        deadline = self._scope.deadline
        # Trio has no function for this. A past deadline of the scope appears in the effective deadline, unless a shield
        # in between hides it. There is no checkpoint until the deadline is restored, so nothing is cancelled.
        self._scope.deadline = -inf
        try:
            return trio.current_effective_deadline() != -inf
        finally:
            self._scope.deadline = deadline

    def begin_question(self) -> list[_Effect]:
        """Note that the current task asks a question, so that the side effects around it count as waiting.

        Returns:
            The side effects, for :meth:`end_question`.
        """
        ancestors = _ancestors()
        waiting = [effect for effect in self._effects if effect.contains(ancestors)]
        for effect in waiting:
            effect.asks += 1
        return waiting

    def end_question(self, waiting: list[_Effect]) -> None:
        for effect in waiting:
            effect.asks -= 1

    # Private

    async def _wait_for_turn(self) -> None:
        """Wait while the handler is parked: the state that the client holds would lack a side effect that begins now.

        Raises:
            ConnectionClosed: The run has ended.
        """
        while self.is_parked:
            await self._resumed.wait()
        # Clean-up code in a shield may still have side effects: the run waits for it.
        if self.handler_ended or (self._is_ending and not self.is_shielded()):
            await self._ended.wait()
            raise ConnectionClosed(f"request {self.label} has ended")

    @property
    def _has_working_effect(self) -> bool:
        return any(not effect.asks for effect in self._effects)

    def _cancel_after_effects(self) -> None:
        """Cancel the handler now, or with a deadline if side effects are running."""
        # Without their results, the next delivery would repeat the effects.
        if any(effect.finishes and not effect.asks for effect in self._effects):
            self._scope.deadline = min(self._scope.deadline, trio.current_time() + FINISH_TIMEOUT)
        else:
            self._scope.cancel()

    def _unpark(self, work: Work) -> None:
        self.is_parked = False
        self.deadline = inf
        self._runs.deadlines.discard(self)
        self.work = work
        work.begin()
        self._resumed.set()


def content_key(wire: dict[str, Any]) -> str:
    """Return a key made from the content of a question, so that a changed question does not match an old answer."""
    return hashlib.sha256(orjson.dumps(wire, option=orjson.OPT_SORT_KEYS)).hexdigest()[:24]


def _ancestors() -> list[tuple[trio.lowlevel.Task, trio.Nursery | None]]:
    """Return the current task and its ancestors, each with the nursery that contains the task below it."""
    ancestors: list[tuple[trio.lowlevel.Task, trio.Nursery | None]] = []
    task: trio.lowlevel.Task | None = trio.lowlevel.current_task()
    nursery: trio.Nursery | None = None
    while task is not None:
        ancestors.append((task, nursery))
        nursery = task.parent_nursery
        task = nursery.parent_task if nursery is not None else None
    return ancestors
