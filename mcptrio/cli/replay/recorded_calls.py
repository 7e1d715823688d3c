"""The requests of a recorded client, each with its last response and the answers to the server's questions.

In 2026-07-28 a question ends a request, and the client repeats it with the answer; here both are one call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from attrs import define, field

from mcptrio.client.forms import Form, OpenURL
from mcptrio.client.handlers import Handlers
from mcptrio.errors import InvalidParams
from mcptrio.protocol.model.content import TextContent
from mcptrio.protocol.model.elicitation import ElicitResult
from mcptrio.protocol.model.roots import Root
from mcptrio.protocol.model.sampling import CreateMessageParams, CreateMessageResult
from mcptrio.recording.exchanges import exchanges_of, without_meta
from mcptrio.recording.transcript import RecordedEntry

__all__ = ["RecordedAnswers", "RecordedCall", "recorded_calls"]

_CONNECTION_METHODS: Final = frozenset(
    {
        "initialize",
        "server/discover",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "subscriptions/listen",
    }
)
"""Requests that belong to a connection. The live connection sends its own."""
_ROUND_TRIP_MEMBERS = ("inputResponses", "requestState")


@define
class _Answer:
    """The answer to one question."""

    method: str
    message: Any
    result: Mapping[str, Any]
    is_used: bool = False


@define(kw_only=True)
class RecordedCall:
    """One request as a user sees it.

    Args:
        params: The parameters without ``_meta`` and the members of a round trip.
        response: The last response; ``None`` if there was none.
    """

    t: float
    method: str
    params: dict[str, Any]
    target: str
    response: Mapping[str, Any] | None = None
    answers: list[_Answer] = field(factory=list)


def recorded_calls(entries: Iterable[RecordedEntry]) -> list[RecordedCall]:
    """Return the calls of a recording, in the order in which they began."""
    calls: list[RecordedCall] = []
    unfinished: dict[str, tuple[RecordedCall, Mapping[str, Any]]] = {}
    for exchange in exchanges_of(entries):
        request, response = exchange.request, exchange.response
        if request.method is None or request.method in _CONNECTION_METHODS:
            continue
        unfinished_call = unfinished.pop(str(request.params.get("requestState")), None)
        if unfinished_call is None:
            params = {
                name: value for name, value in without_meta(request.params).items() if name not in _ROUND_TRIP_MEMBERS
            }
            call = RecordedCall(t=request.t, method=request.method, params=params, target=exchange.target)
            calls.append(call)
        else:
            call, questions = unfinished_call
            call.answers += _answers(questions, request.params.get("inputResponses"))
        for step in exchange.steps:
            result = step.answer.message.get("result") if step.answer is not None else None
            if isinstance(result, dict):
                call.answers.append(_Answer(step.entry.method or "", step.entry.params.get("message"), result))
        call.response = response.message if response is not None else None
        result = call.response.get("result") if call.response is not None else None
        if isinstance(result, dict) and result.get("resultType") == "input_required":
            unfinished[str(result.get("requestState"))] = call, result.get("inputRequests") or {}
    return calls


def _answers(questions: Mapping[str, Any], answers: Any) -> Iterable[_Answer]:
    for key, result in answers.items() if isinstance(answers, dict) else ():
        question = questions.get(key)
        if isinstance(question, dict) and isinstance(result, dict):
            params = question.get("params")
            message = params.get("message") if isinstance(params, dict) else None
            yield _Answer(str(question.get("method")), message, result)


class RecordedAnswers:
    """Answers a live server's questions as the recorded client did.

    Args:
        calls: All calls; :attr:`call` is the one in progress.
    """

    def __init__(self, calls: Sequence[RecordedCall]) -> None:
        self.call: RecordedCall | None = None
        self._methods = {answer.method for call in calls for answer in call.answers}

    def find(self, method: str, message: Any = None) -> Mapping[str, Any]:
        """Return the answer to a question, preferably to one with the same text.

        Raises:
            InvalidParams: The recorded client was not asked.
        """
        answers = [each for each in self.call.answers if each.method == method] if self.call is not None else []
        matches = [each for each in answers if not each.is_used and each.message == message]
        answer = next(iter(matches or [each for each in answers if not each.is_used]), None)
        if answer is None:
            raise InvalidParams(f"the recording has no answer to this question: {method}")
        answer.is_used = True
        return answer.result

    def handlers(self) -> Handlers:
        """Return handlers for the kinds of questions that the recorded client has answered."""
        has_elicitation = "elicitation/create" in self._methods
        return Handlers(
            elicit=self._elicit if has_elicitation else None,
            open_url=self._open if has_elicitation else None,
            sample=self._sample if "sampling/createMessage" in self._methods else None,
            roots=self._roots if "roots/list" in self._methods else None,
        )

    async def _elicit(self, form: Form) -> ElicitResult:
        result = self.find("elicitation/create", form.message)
        content = result.get("content") if isinstance(result.get("content"), dict) else None
        return ElicitResult(action=result.get("action", "cancel"), content=content)

    async def _open(self, question: OpenURL) -> bool:
        return self.find("elicitation/create", question.message).get("action") == "accept"

    async def _sample(self, _params: CreateMessageParams) -> CreateMessageResult:
        result = self.find("sampling/createMessage")
        blocks = result.get("content")
        # A single block until 2025-06-18.
        block_list = blocks if isinstance(blocks, list) else [blocks]
        texts = [each.get("text") for each in block_list if isinstance(each, dict)]
        content = tuple(TextContent(text=text) for text in texts if isinstance(text, str))
        return CreateMessageResult(role="assistant", content=content, model=str(result.get("model", "recorded")))

    async def _roots(self) -> Sequence[Root]:
        roots = self.find("roots/list").get("roots")
        return [Root(uri=str(each.get("uri"))) for each in roots or () if isinstance(each, dict)]
