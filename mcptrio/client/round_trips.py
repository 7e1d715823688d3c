"""Repeats a request with the user's answers until the server returns a complete result.

ClientRequests uses it for tool calls, prompts and resources in 2026-07-28, whose servers ask for input inside a result.

Source: MCP 2026-07-28, basic/patterns/mrtr, "Client Requirements".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import trio

from mcptrio.errors import MCPError, RemoteProtocolError
from mcptrio.protocol.model.base import Result
from mcptrio.protocol.model.fields import evolve
from mcptrio.protocol.model.input_required import InputRequest, InputRequiredResult
from mcptrio.protocol.revisions.revision import Revision

__all__ = ["MAX_ROUNDS", "send_until_complete"]

MAX_ROUNDS = 10
"""Repetitions of one request."""
MAX_QUESTIONS = 32
"""Questions in one result; they are answered concurrently."""
FIRST_PAUSE_SECONDS = 0.05
"""Seconds before the request is repeated if the server asked nothing and only needs time. Doubled each time."""


async def send_until_complete(
    result: InputRequiredResult,
    params: Any,
    send: Callable[[Any], Awaitable[Any]],
    answer: Callable[[InputRequest], Awaitable[Result]],
    revision: Revision,
) -> Any:
    """Repeat a request with answers until its result is complete.

    Args:
        result: The first, incomplete result.
        params: The params of tools/call, prompts/get or resources/read.
        send: Sends the request with the given params and returns its result.
        answer: Answers one question.

    Raises:
        MCPError: A question could not be answered; the request is not repeated.
        RemoteProtocolError: The server asks for nothing, too many things at once, or too often.
    """
    pause = FIRST_PAUSE_SECONDS
    for _ in range(MAX_ROUNDS):
        questions = result.input_requests or {}
        if not questions:
            if result.request_state is None:
                raise RemoteProtocolError("expected inputRequests or requestState in a result that is not complete")
            await trio.sleep(pause)
            pause *= 2
        if len(questions) > MAX_QUESTIONS:
            raise RemoteProtocolError(f"expected at most {MAX_QUESTIONS} questions at once, got {len(questions)}")
        answers = await _answer_all(questions, answer, revision)
        # requestState is opaque to the client: returned unchanged, and only with the request that it came from.
        again = await send(evolve(params, input_responses=answers or None, request_state=result.request_state))
        if not isinstance(again, InputRequiredResult):
            return again
        result = again
    raise RemoteProtocolError(f"the server asked for input {MAX_ROUNDS + 1} times during one request")


async def _answer_all(
    questions: dict[str, InputRequest], answer: Callable[[InputRequest], Awaitable[Result]], revision: Revision
) -> dict[str, Any]:
    answers: dict[str, Any] = {}
    failed: list[MCPError] = []

    async def one(key: str, question: InputRequest, scope: trio.CancelScope) -> None:
        try:
            answers[key] = revision.unstructure(await answer(question))
        except MCPError as error:
            failed.append(error)
            scope.cancel()

    # The common case needs no nursery, and its exception no group.
    if len(questions) == 1:
        [(key, question)] = questions.items()
        answers[key] = revision.unstructure(await answer(question))
        return answers
    async with trio.open_nursery() as nursery:
        for key, question in questions.items():
            nursery.start_soon(partial(one, key, question, nursery.cancel_scope))
    if failed:
        raise failed[0]
    return answers
