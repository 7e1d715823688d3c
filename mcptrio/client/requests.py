"""Sends one request of a client until it has a result: retries it where that is safe, and answers input requests.

Client calls this for each of its methods. A request that may have changed something is never sent twice.

Source: MCP 2026-07-28, basic/patterns/mrtr; MCP 2025-11-25, basic/transports, "Session Management", and
client/elicitation, "URL Elicitation Required Error".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from math import inf
from typing import Any

import trio

from mcptrio.client.calls import OnProgress
from mcptrio.client.consent import with_consent
from mcptrio.client.round_trips import send_until_complete
from mcptrio.client.session import ClientSession
from mcptrio.client.supervisor import ClientSupervisor
from mcptrio.client.url_elicitation import send_after_urls
from mcptrio.errors import ConnectionClosed, Overloaded, RequestFailed, SessionLost, URLElicitationRequired
from mcptrio.protocol.model.input_required import InputRequest, InputRequiredResult
from mcptrio.protocol.revisions.revision import Inputs

__all__ = ["ClientRequests"]


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
    }
)
MAX_REPEATS = 2
FIRST_PAUSE_SECONDS = 0.1
"""Seconds before the first retry; doubled for each further one."""
RATE_LIMITED_PAUSE_SECONDS = 1.0
"""Seconds before the first retry after HTTP 429 without ``Retry-After``."""
MAX_RETRY_AFTER_SECONDS = 30.0
"""The longest ``Retry-After`` that a request waits for, in seconds. A longer one fails the request at once."""
# HTTP statuses after which the same request may succeed; None stands for a lost connection.
_TRANSIENT_STATUSES = frozenset({None, 429, 502, 503, 504})


class ClientRequests:
    """Sends the requests of one client.

    Args:
        opens_urls: True if a handler opens URLs for the user.
        input_timeout: Seconds that the user has to finish on such a page.
    """

    def __init__(self, supervisor: ClientSupervisor, *, opens_urls: bool, input_timeout: float) -> None:
        self._supervisor = supervisor
        self._opens_urls = opens_urls
        self._input_timeout = input_timeout

    async def send(
        self,
        method: str,
        params: Any,
        *,
        timeout: float | None = None,
        progress: OnProgress | None = None,
        mirrored: Mapping[str, tuple[str, ...]] | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Any:
        """Send a request and return its result, on a new session if the current one is lost.

        Args:
            mirrored: Header name to the path of the argument that it repeats.
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
                mirrored=mirrored,
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
                wait = max(pause, self._wait(failed))
                longest = MAX_RETRY_AFTER_SECONDS if timeout is None else min(timeout, MAX_RETRY_AFTER_SECONDS)
                if method not in _REPEATABLE_METHODS or repeats == MAX_REPEATS or wait > longest:
                    raise
                repeats += 1
                await trio.sleep(wait)
                pause *= 2

    async def send_with_input(
        self,
        method: str,
        params: Any,
        *,
        timeout: float | None = None,
        progress: OnProgress | None = None,
        mirrored: Mapping[str, tuple[str, ...]] | None = None,
        meta: Mapping[str, Any] | None = None,
        without_input: Callable[[Any], None] | None = None,
    ) -> Any:
        """Send a request whose result may ask for input; the handlers answer.

        Args:
            without_input: Called with a result that took no input. Only such a result may be cached.
        """

        async def send(params: Any) -> Any:
            work = partial(self.send, method, params, timeout=timeout, progress=progress, mirrored=mirrored, meta=meta)
            return await self._with_urls(work)

        result = await send(params)
        if isinstance(result, InputRequiredResult):
            session = await self._supervisor.current()
            return await send_until_complete(result, params, send, partial(_answer, session), session.revision)
        if without_input is not None:
            without_input(result)
        return result

    def _wait(self, failed: RequestFailed | ConnectionClosed | Overloaded) -> float:
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
        # 2026-07-28 asks for URLs with input requests; there the error is final.
        if session.revision.inputs is Inputs.ROUND_TRIPS:
            raise required
        return await send_after_urls(session, required, send, self._input_timeout)


async def _answer(session: ClientSession, question: InputRequest) -> Any:
    return await session.answer(question.method, question.params)
