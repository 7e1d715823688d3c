"""Scripted answers of a client, written before the server asks.

Most tests use the fixture ``mcp_script``; :meth:`Script.handlers` is for any client. Each line of a script answers one
question: the first one that matches. If the server deviates from the script, the test fails with a list of the
questions so far.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

import trio
from attrs import frozen

from mcptrio.client.forms import Form, OpenURL
from mcptrio.client.handlers import Handlers
from mcptrio.errors import MCPError
from mcptrio.ground.guarded import Failure, run_guarded_sync
from mcptrio.ground.nurseries import open_hidden_nursery
from mcptrio.protocol.model.content import TextContent
from mcptrio.protocol.model.elicitation import ElicitResult
from mcptrio.protocol.model.roots import Root
from mcptrio.protocol.model.sampling import CreateMessageParams, CreateMessageResult

__all__ = ["AnsweredQuestion", "FormAnswer", "QuestionKind", "SampleAnswer", "Script"]

QuestionKind: TypeAlias = Literal["form", "url", "sampling", "roots"]
"""The kinds of questions that a server asks."""

_KINDS: Final[tuple[QuestionKind, ...]] = get_args(QuestionKind)
_MAX_SHOWN_CHARS: Final = 120
"""Characters of a question or answer in a failure message."""

FormAnswer: TypeAlias = Mapping[str, Any] | Callable[[Form], Any]
"""Values of a form by name, or a function that makes an answer from the form."""
SampleAnswer: TypeAlias = str | CreateMessageResult | Callable[[CreateMessageParams], CreateMessageResult | str]
"""The model's answer, or a function that returns it."""


@frozen(kw_only=True)
class AnsweredQuestion:
    """A question of the server and its answer."""

    kind: QuestionKind
    message: str
    """The message of the form or URL; the last text of a conversation; empty for roots."""
    question: Form | OpenURL | CreateMessageParams | None
    """The question as a handler receives it; ``None`` for roots."""
    answer: Any
    """An ElicitResult, a message or its text, the folders; or the exception that was raised."""

    def __str__(self) -> str:
        return f"{_describe_question(self.kind, self.message, self.question)} -> {_describe_answer(self.answer)}"


@frozen(kw_only=True)
class _Line:
    """A line of a script.

    Args:
        text: The call that added the line, for failure messages.
    """

    text: str
    kinds: tuple[QuestionKind, ...]
    about: str | None
    after: float
    answer: Callable[[Any], Any]

    def matches(self, kind: QuestionKind, message: str) -> bool:
        return kind in self.kinds and (self.about is None or self.about in message)


class Script:
    """The answers of a client's user and model: ``Script().elicit({"rows": 3}).decline().sample("Hello")``.

    The order of lines counts only among lines of one kind, because the questions of one round are asked concurrently.
    Each method takes two more arguments: ``about`` restricts the line to questions whose message contains a text, and
    ``after`` delays the answer by a number of seconds.
    """

    def __init__(self) -> None:
        self.asked: list[AnsweredQuestion] = []
        """The questions that the script has answered so far, in order."""
        self._lines: list[_Line] = []
        self._problems: list[tuple[str, BaseException | None]] = []
        self._deviated: trio.Event | None = None
        """Set when the server deviates from the script, inside of :meth:`watched`."""

    # Lines

    def elicit(self, values: FormAnswer | None = None, *, about: str | None = None, after: float = 0.0) -> Script:
        """Accept a form with these values and its defaults.

        Args:
            values: Values by name; or a function of the form that returns values, ``form.decline()`` or the like.
        """
        answer_text = _short_repr(values) if values is not None else ""
        return self._add("elicit", answer_text, ("form",), partial(_fill_in, values), about, after)

    def open_url(self, *, about: str | None = None, after: float = 0.0) -> Script:
        """Agree to open a URL. Nothing is opened."""
        return self._add("open_url", "", ("url",), OpenURL.accept, about, after)

    def decline(self, *, about: str | None = None, after: float = 0.0) -> Script:
        """Refuse a form or a URL."""
        return self._add("decline", "", ("form", "url"), methodcaller("decline"), about, after)

    def cancel(self, *, about: str | None = None, after: float = 0.0) -> Script:
        """Close a form or a URL without a decision."""
        return self._add("cancel", "", ("form", "url"), methodcaller("cancel"), about, after)

    def sample(self, answer: SampleAnswer, *, about: str | None = None, after: float = 0.0) -> Script:
        """Answer as the model.

        Args:
            answer: A text, a whole message, or a function of the conversation that returns one of them.
        """
        return self._add("sample", _short_repr(answer), ("sampling",), partial(_sample, answer), about, after)

    def roots(self, *folders: str | Path | Root, after: float = 0.0) -> Script:
        """List these folders: paths, ``file://`` URIs or roots."""
        return self._add("roots", ", ".join(map(_short_repr, folders)), ("roots",), lambda _: folders, None, after)

    def fail(self, error: MCPError, *, about: str | None = None, after: float = 0.0) -> Script:
        """Answer a question of any kind with an error."""

        def raise_it(_: object) -> Any:
            raise error

        return self._add("fail", _short_repr(error), _KINDS, raise_it, about, after)

    # Use

    def handlers(self, *kinds: QuestionKind) -> Handlers:
        """Return handlers for a client: ``connect(server, handlers=script.handlers())``.

        Args:
            kinds: The kinds of questions that the client declares; by default all.

        Raises:
            ValueError: A kind is unknown.
        """
        for kind in kinds:
            if kind not in _KINDS:
                raise ValueError(f"expected some of {', '.join(_KINDS)}, got {kind!r}")
        declared = kinds or _KINDS
        return Handlers(
            elicit=(lambda form: self._answer("form", form.message, form)) if "form" in declared else None,
            open_url=(lambda page: self._answer("url", page.message, page)) if "url" in declared else None,
            sample=(lambda params: self._answer("sampling", _last_text(params), params))
            if "sampling" in declared
            else None,
            sample_tools=True,
            sample_context=True,
            roots=(lambda: self._answer("roots", "", None)) if "roots" in declared else None,
        )

    @property
    def problems(self) -> list[str]:
        """Questions that were not in the script, and answers that were invalid for their question."""
        return [problem for problem, _ in self._problems]

    @property
    def left(self) -> list[str]:
        """The unused lines, as calls."""
        return [line.text for line in self._lines]

    def check(self) -> None:
        """Verify that the script was followed.

        Raises:
            AssertionError: There are problems or unused lines.
        """
        if self._problems:
            raise AssertionError("\n".join(self.problems)) from self._problems[0][1]
        if self._lines:
            raise AssertionError(
                f"the script was not used up\n{_list_lines('left', self.left)}\n{_list_lines('asked', self.asked)}"
            )

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[Script]:
        """End the block as soon as the server deviates from the script.

        Outside of the block, the server receives an error for such a question, and only :meth:`check` reports it.

        Raises:
            AssertionError: The script was not followed; the message contains the question.
        """
        self._deviated = trio.Event()
        try:
            async with open_hidden_nursery() as nursery:
                nursery.start_soon(self._watch, self._deviated)
                yield self
        finally:
            self._deviated = None

    # Private

    def _add(
        self,
        method: str,
        shown: str,
        kinds: tuple[QuestionKind, ...],
        answer: Callable[[Any], Any],
        about: str | None,
        after: float,
    ) -> Script:
        arguments = [shown, f"about={about!r}" if about is not None else ""]
        text = f"{method}({', '.join(filter(None, arguments))})"
        self._lines.append(_Line(text=text, kinds=kinds, about=about, after=after, answer=answer))
        return self

    async def _watch(self, deviated: trio.Event) -> None:
        await deviated.wait()
        self.check()

    async def _answer(self, kind: QuestionKind, message: str, question: Any) -> Any:
        line = next((line for line in self._lines if line.matches(kind, message)), None)
        described = _describe_question(kind, message, question)
        if line is None:
            failure = f"the server asked a question that is not in the script: {described}"
            await self._fail(f"{failure}\n{_list_lines('left', self.left)}\n{_list_lines('asked before', self.asked)}")
            raise AssertionError(failure)
        # Each line is used once.
        self._lines.remove(line)
        outcome = run_guarded_sync(line.answer, question)
        if isinstance(outcome, Failure) and not isinstance(outcome.error, MCPError):
            problem = f"the script's {line.text} does not answer the server's {described}: {outcome.error}"
            await self._fail(problem, outcome.error)
            raise outcome.error
        # An MCPError is an answer too, of a line that fail() has added.
        answer = outcome.error if isinstance(outcome, Failure) else outcome.value
        self.asked.append(AnsweredQuestion(kind=kind, message=message, question=question, answer=answer))
        await trio.sleep(line.after)
        if isinstance(answer, MCPError):
            raise answer
        return answer

    async def _fail(self, problem: str, error: BaseException | None = None) -> None:
        """Store a problem, and end the block of :meth:`watched` if there is one."""
        self._problems.append((problem, error))
        if self._deviated is not None:
            self._deviated.set()
            # The question stays without an answer until the end of the block cancels it.
            await trio.sleep_forever()


def _fill_in(values: FormAnswer | None, form: Form) -> ElicitResult:
    filled = values(form) if callable(values) else values
    return filled if isinstance(filled, ElicitResult) else form.accept(filled)


def _sample(answer: SampleAnswer, params: CreateMessageParams) -> CreateMessageResult | str:
    return answer(params) if callable(answer) else answer


def _last_text(params: CreateMessageParams) -> str:
    texts = [block.text for message in params.messages for block in message.content if isinstance(block, TextContent)]
    return texts[-1] if texts else ""


# Failure messages


def _describe_question(kind: QuestionKind, message: str, question: Any) -> str:
    if isinstance(question, Form):
        fields = ", ".join(field.name for field in question.fields) or "no fields"
        return f"{kind} {_short_repr(message)} ({fields})"
    if isinstance(question, OpenURL):
        return f"{kind} {_short_repr(message)} ({question.url})"
    return f"{kind} {_short_repr(message)}" if message else kind


def _describe_answer(answer: Any) -> str:
    if isinstance(answer, ElicitResult):
        return answer.action + (f" {_short_repr(dict(answer.content))}" if answer.content else "")
    if isinstance(answer, CreateMessageResult):
        return _short_repr(" ".join(block.text for block in answer.content if isinstance(block, TextContent)))
    return _short_repr(answer)


def _short_repr(value: Any) -> str:
    text = value.__qualname__ if hasattr(value, "__qualname__") else repr(value)
    return text if len(text) <= _MAX_SHOWN_CHARS else text[:_MAX_SHOWN_CHARS] + "…"


def _list_lines(title: str, items: Sequence[object]) -> str:
    return "\n".join([f"{title}:", *(f"  {item}" for item in items)]) if items else f"{title}: nothing"
