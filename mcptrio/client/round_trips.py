"""Asking again with the answers, until the server has all it needs.

Used by the client for calls, prompts and resources in the revisions whose servers ask inside a result.
The one rule: what comes back is sent back exactly, to nothing but the retry, and neither rounds nor time are unbounded.

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
"""Times one request may be asked again."""
MAX_QUESTIONS = 32
"""In one round; they are answered at the same time."""
FIRST_PAUSE_SECONDS = 0.05
"""Seconds before asking again without any answer to bring, doubled each time; the server only needs time."""


async def send_until_complete(
    result: InputRequiredResult,
    params: Any,
    send: Callable[[Any], Awaitable[Any]],
    answer: Callable[[InputRequest], Awaitable[Result]],
    revision: Revision,
) -> Any:
    """Send a request again, with answers, as often as it takes.

    Args:
        result: what came of sending it first.
        params: of tools/call, prompts/get or resources/read.
        send: sends the request with these params; gives its result.
        answer: answers one question.

    Raises:
        MCPError: an answer failed; the request is not asked again.
        RemoteProtocolError: the server asks for nothing, for too much, or too often.
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
        again = await send(evolve(params, input_responses=answers or None, request_state=result.request_state))
        if not isinstance(again, InputRequiredResult):
            return again
        result = again
    raise RemoteProtocolError(f"the server asked {MAX_ROUNDS + 1} times and was still not satisfied")


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
