"""Sends one request of a client until it has a result: retries it if that is safe, and answers input requests.

Client calls this for each of its methods. A request that may have changed something is never sent twice. If the server
requires the user to open pages, the handlers ask for consent to each page. Without consent, the server's error is
raised and no page is opened.

Source: MCP 2026-07-28, basic/patterns/mrtr, "Client Requirements"; MCP 2025-11-25, basic/transports, "Session
Management", and client/elicitation, "URL Elicitation Required Error" and "Completion Notifications".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from math import inf
from typing import Any

import trio

from mcptrio.abc.tracing import share_trace, trace_wait
from mcptrio.client.calls import OnProgress
from mcptrio.client.consent import with_consent
from mcptrio.client.options import ClientOptions
from mcptrio.client.session import ClientSession
from mcptrio.client.supervisor import ClientSupervisor
from mcptrio.errors import (
    ConnectionClosed,
    InvalidParams,
    MCPError,
    Overloaded,
    RemoteProtocolError,
    RequestFailed,
    SessionLost,
    URLElicitationRequired,
)
from mcptrio.protocol.model.elicitation import ElicitURLParams
from mcptrio.protocol.model.fields import evolve
from mcptrio.protocol.model.input_required import InputRequest, InputRequiredResult
from mcptrio.protocol.revisions.revision import Inputs

__all__ = ["ClientRequests", "answer_all"]

# Requests without side effects, which are repeated if the connection breaks before the answer.
_REPEATABLE_METHODS = frozenset(
    {
        "server/discover",
        "ping",
        "tools/list",
        "prompts/list",
        "prompts/get",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "completion/complete",
        "tasks/get",
        "tasks/result",
        # The server ignores answers to answered questions, and a second cancellation.
        "tasks/update",
        "tasks/cancel",
    }
)
MAX_REPEATS = 2
FIRST_PAUSE_SECONDS = 0.1
"""Seconds before the first retry. Doubled for each further retry."""
RATE_LIMITED_PAUSE_SECONDS = 1.0
"""Seconds before the first retry after HTTP 429 without ``Retry-After``."""
MAX_RETRY_AFTER_SECONDS = 30.0
"""The longest ``Retry-After`` that a request waits for, in seconds. A longer one fails the request at once."""
# HTTP statuses after which the same request may succeed; None stands for a lost connection.
_TRANSIENT_STATUSES = frozenset({None, 429, 502, 503, 504})
MAX_ROUNDS = 10
"""Times that one request is repeated with answers."""
MAX_QUESTIONS = 32
"""Questions in one result, which are answered concurrently."""
FIRST_ROUND_PAUSE_SECONDS = 0.05
"""Seconds before the request is repeated if the server asked nothing and only needs time. Doubled each time."""
MAX_PAGES = 8
"""Pages that one error may require; further ones are ignored."""
PAGE_RETRY_SECONDS = 10.0
"""Seconds after which the request is repeated without a completion notification, which servers need not send."""


class ClientRequests:
    """Sends the requests of one client."""

    def __init__(self, supervisor: ClientSupervisor, options: ClientOptions) -> None:
        self._supervisor = supervisor
        self._opens_urls = options.handlers.open_url is not None
        self._input_timeout = options.timeouts.input

    async def send(
        self,
        method: str,
        params: Any,
        *,
        timeout: float | None = None,
        progress: OnProgress | None = None,
        param_headers: Mapping[str, tuple[str, ...]] | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Any:
        """Send a request and return its result, on a new session if the current one is lost.

        Args:
            param_headers: Maps each header name to the path of the argument that the header repeats.
        """
        pause, repeats, is_renewed = FIRST_PAUSE_SECONDS, 0, False
        while True:
            session = await self._supervisor.current(timeout)
            generation = self._supervisor.generation
            work = partial(
                session.request,
                method,
                params,
                timeout=timeout,
                on_progress=progress,
                param_headers=param_headers,
                meta=meta,
            )
            try:
                return await with_consent(work)
            except SessionLost:
                # SessionLost means that the server did not serve the request, so any method may be sent again, once.
                if is_renewed:
                    raise
                is_renewed = True
                await self._supervisor.until_lost(generation)
            except (RequestFailed, ConnectionClosed, Overloaded) as failed:
                delay = max(pause, self._retry_delay(failed))
                longest = MAX_RETRY_AFTER_SECONDS if timeout is None else min(timeout, MAX_RETRY_AFTER_SECONDS)
                if method not in _REPEATABLE_METHODS or repeats == MAX_REPEATS or delay > longest:
                    raise
                repeats += 1
                await trio.sleep(delay)
                pause *= 2

    async def send_with_input(
        self,
        method: str,
        params: Any,
        *,
        timeout: float | None = None,
        progress: OnProgress | None = None,
        param_headers: Mapping[str, tuple[str, ...]] | None = None,
        meta: Mapping[str, Any] | None = None,
        without_input: Callable[[Any], None] | None = None,
    ) -> Any:
        """Send a request whose result may ask for input, and have the handlers answer.

        Args:
            without_input: Called with a result for which no input was needed. Only such a result may be cached.

        Raises:
            MCPError: A question could not be answered, so the request is not repeated.
            RemoteProtocolError: The server asks for nothing, asks too many questions at once, or asks too often.
            URLElicitationRequired: The user declined to open a page or took too long, or the server asks for further
                pages.
        """

        async def send(params: Any) -> Any:
            work = partial(
                self.send, method, params, timeout=timeout, progress=progress, param_headers=param_headers, meta=meta
            )
            return await self._with_urls(work)

        with share_trace():
            return await self._complete(send, params, without_input)

    async def _complete(
        self, send: Callable[[Any], Awaitable[Any]], params: Any, without_input: Callable[[Any], None] | None
    ) -> Any:
        result = await send(params)
        if not isinstance(result, InputRequiredResult):
            if without_input is not None:
                without_input(result)
            return result
        session, pause = await self._supervisor.current(), FIRST_ROUND_PAUSE_SECONDS
        for _ in range(MAX_ROUNDS):
            questions = result.input_requests or {}
            if not questions:
                if result.request_state is None:
                    raise RemoteProtocolError(
                        "expected inputRequests or requestState in an input_required result, got neither"
                    )
                await trio.sleep(pause)
                pause *= 2
            if len(questions) > MAX_QUESTIONS:
                raise RemoteProtocolError(f"expected at most {MAX_QUESTIONS} questions at once, got {len(questions)}")
            answers = await answer_all(session, questions)
            # requestState is opaque. It is returned unchanged, and only with a repetition of the same request.
            result = await send(evolve(params, input_responses=answers or None, request_state=result.request_state))
            if not isinstance(result, InputRequiredResult):
                return result
        raise RemoteProtocolError(f"the server asked for input {MAX_ROUNDS + 1} times during one request")

    def _retry_delay(self, failed: RequestFailed | ConnectionClosed | Overloaded) -> float:
        """Return the seconds to wait before a retry; infinity if a retry would fail too."""
        if isinstance(failed, ConnectionClosed):
            return 0.0 if self._supervisor.restarts else inf
        if isinstance(failed, RequestFailed) and failed.status not in _TRANSIENT_STATUSES:
            return inf
        if failed.retry_after is not None:
            return failed.retry_after
        return RATE_LIMITED_PAUSE_SECONDS if isinstance(failed, RequestFailed) and failed.status == 429 else 0.0

    async def _with_urls(self, send: Callable[[], Awaitable[Any]]) -> Any:
        try:
            return await send()
        except URLElicitationRequired as refusal:
            # The pages are opened only if a handler asks the user for consent.
            if not self._opens_urls:
                raise
            required = refusal
        session = await self._supervisor.current()
        # 2026-07-28 asks for URLs with input requests, so this error is final there.
        if session.revision.inputs is Inputs.ROUND_TRIPS:
            raise required
        pages = _pages(session, required)
        # Registered before the user is asked, because a quick user may finish before the handler returns.
        ids = [page.elicitation_id for page in pages if page.elicitation_id is not None]
        completions = [session.url_completion(id) for id in ids]
        try:
            for page in pages:
                answer = await session.answer("elicitation/create", page)
                if answer.action != "accept":
                    raise required
            # The timeout begins with the consent.
            deadline = trio.current_time() + self._input_timeout
            while True:
                with trio.move_on_at(min(deadline, trio.current_time() + PAGE_RETRY_SECONDS)):
                    for event in completions:
                        await event.wait()
                # All pages are done, or the interval has passed.
                is_last = all(event.is_set() for event in completions) or trio.current_time() >= deadline
                try:
                    return await send()
                except URLElicitationRequired as second_refusal:
                    # A page that the user has not seen needs a new consent, so the caller gets the error.
                    if is_last or {page.url for page in _pages(session, second_refusal)} - {page.url for page in pages}:
                        raise
        finally:
            for id in ids:
                session.forget_url(id)


def _pages(session: ClientSession, required: URLElicitationRequired) -> list[ElicitURLParams]:
    """Return the pages of the error. Raise the error itself if its list is empty or malformed."""
    elicitations = required.elicitations[:MAX_PAGES]
    if not elicitations:
        raise required
    try:
        return [session.revision.structure({**each, "mode": "url"}, ElicitURLParams) for each in elicitations]
    except InvalidParams as error:
        raise required from error


async def answer_all(session: ClientSession, questions: Mapping[str, InputRequest]) -> dict[str, Any]:
    """Return the answers of the handlers in wire form, by the keys of the questions.

    Raises:
        MCPError: A question could not be answered.
    """
    answers: dict[str, Any] = {}
    failed: list[MCPError] = []

    async def answer(key: str, question: InputRequest) -> None:
        with trace_wait([question.method]):
            answers[key] = session.revision.unstructure(await session.answer(question.method, question.params))

    async def answer_one(key: str, question: InputRequest, scope: trio.CancelScope) -> None:
        try:
            await answer(key, question)
        except MCPError as error:
            failed.append(error)
            scope.cancel()

    # With one question, which is the usual case, no nursery is needed, and an exception is not wrapped in a group.
    if len(questions) == 1:
        [(key, question)] = questions.items()
        await answer(key, question)
        return answers
    async with trio.open_nursery() as nursery:
        for key, question in questions.items():
            nursery.start_soon(answer_one, key, question, nursery.cancel_scope)
    if failed:
        raise failed[0]
    return answers
