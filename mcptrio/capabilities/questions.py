"""Questions to a client, and the conversion of their answers.

Handlers pass them to ``ctx.ask_all``; ``ctx.ask``, ``ctx.elicit``, ``ctx.sample`` and ``ctx.list_roots`` make them. An
input channel of the runtime sends them. A question has its method, params, required capability and the reader of its
answer; it does not depend on the channel.

Source: MCP 2025-11-25 and 2026-07-28, client/elicitation, client/sampling, client/roots.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar, cast, overload

from attrs import Factory, asdict, field, frozen
from attrs.filters import exclude

from mcptrio.errors import ToolError
from mcptrio.protocol.model.base import Result
from mcptrio.protocol.model.content import TextContent
from mcptrio.protocol.model.elicitation import ElicitFormParams, ElicitResult, ElicitURLParams
from mcptrio.protocol.model.input_required import CreateMessageRequest, ElicitRequest, InputRequest, ListRootsRequest
from mcptrio.protocol.model.roots import ListRootsParams, ListRootsResult, Root
from mcptrio.protocol.model.sampling import (
    CreateMessageParams,
    CreateMessageResult,
    ModelPreferences,
    SamplingMessage,
    ToolChoice,
)
from mcptrio.protocol.model.tools import Tool
from mcptrio.schema.elicitation_forms import ElicitationForm

__all__ = ["Elicit", "ElicitURL", "Elicited", "ListRoots", "Question", "Sample"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Question(Protocol[T_co]):
    """A question for ``ctx.ask_all``: :class:`Elicit`, :class:`ElicitURL`, :class:`Sample` or :class:`ListRoots`."""

    @property
    def key(self) -> str | None: ...
    @property
    def capability(self) -> str: ...
    def request(self) -> InputRequest: ...
    def result_type(self) -> type[Result]: ...
    def read(self, result: Any) -> Any: ...

    def settle(self, answer: Any) -> T_co:
        """Return the value that ``ctx.ask_all`` returns, made from the result of ``read``.

        Raises:
            ToolError: The user refused to answer.
        """
        ...


@frozen
class Elicited(Generic[T]):
    """The user's response to a question of ``ctx.elicit``.

    Attributes:
        action: ``accept``, ``decline`` (an explicit no) or ``cancel`` (no answer).
        content: The answer, as an instance of the requested type; ``None`` unless accepted.
    """

    action: Literal["accept", "decline", "cancel"]
    content: T | None = None

    @property
    def accepted(self) -> bool:
        return self.action == "accept"


@frozen(init=False)
class Elicit(Generic[T]):
    """Ask the user to fill in a form.

    Args:
        message: The question and its reason.
        schema: A class with flat fields, a scalar type, choices, or a JSON Schema; see ``ctx.ask``.
        key: Identifies the question in 2026-07-28; by default its content does.
    """

    message: str
    schema: Any
    key: str | None = None
    _form: ElicitationForm = field(
        init=False, repr=False, default=Factory(lambda self: ElicitationForm.of(self.schema), takes_self=True)
    )

    if TYPE_CHECKING:

        def __attrs_init__(self, message: str, schema: Any, key: str | None = None) -> None: ...

    @overload
    def __init__(self, message: str, schema: type[T], key: str | None = None) -> None: ...
    @overload
    def __init__(self: Elicit[str], message: str, schema: Sequence[str], key: str | None = None) -> None: ...
    @overload
    def __init__(self: Elicit[Any], message: str, schema: Any, key: str | None = None) -> None: ...
    def __init__(self, message: str, schema: Any, key: str | None = None) -> None:
        self.__attrs_init__(message, schema, key)

    # A property, because pyright does not accept a class variable for a property of the protocol Question.
    @property
    def capability(self) -> str:
        return "elicitation.form"

    def request(self) -> InputRequest:
        return ElicitRequest(params=ElicitFormParams(message=self.message, requested_schema=self._form.schema))

    def result_type(self) -> type[Result]:
        return ElicitResult

    # Any instead of T, because mypy would otherwise infer T from the parameters of the protocol too.
    def read(self, result: ElicitResult) -> Elicited[Any]:
        if result.action != "accept":
            return Elicited(result.action)
        # Converted here instead of in settle(), so that an invalid form is an error of the client, not of the handler.
        return Elicited("accept", self._form.convert(result.content or {}))

    def settle(self, answer: Elicited[Any]) -> T:
        _check_accepted(answer, self.message)
        return cast("T", answer.content)


@frozen
class ElicitURL:
    """Ask the user to open a URL, for data that must not pass through the client.

    Args:
        message: The reason, which the client shows to the user.
        url: The page to open; see ``ctx.elicit_url``.
        id: Identifies the interaction for ``ctx.elicitation_complete``; 2025-11-25 sends it.
    """

    message: str
    url: str
    id: str
    key: str | None = None

    @property
    def capability(self) -> str:
        return "elicitation.url"

    def request(self) -> InputRequest:
        return ElicitRequest(params=ElicitURLParams(message=self.message, url=self.url, elicitation_id=self.id))

    def result_type(self) -> type[Result]:
        return ElicitResult

    def read(self, result: ElicitResult) -> Elicited[None]:
        return Elicited(result.action)

    def settle(self, answer: Elicited[None]) -> None:
        _check_accepted(answer, self.message)


@frozen
class Sample:
    """Request a completion from the client's model.

    Args:
        messages: A text (one user message), or the conversation.
        max_tokens: The maximum number of tokens in the answer.
    """

    messages: str | Sequence[SamplingMessage]
    max_tokens: int = 1024
    system_prompt: str | None = field(default=None, kw_only=True)
    temperature: float | None = field(default=None, kw_only=True)
    stop_sequences: tuple[str, ...] | None = field(default=None, kw_only=True)
    model_preferences: ModelPreferences | None = field(default=None, kw_only=True)
    include_context: Literal["none", "thisServer", "allServers"] | None = field(default=None, kw_only=True)
    tools: tuple[Tool, ...] | None = field(default=None, kw_only=True)
    tool_choice: ToolChoice | None = field(default=None, kw_only=True)
    metadata: dict[str, Any] | None = field(default=None, kw_only=True)
    key: str | None = field(default=None, kw_only=True)

    @property
    def capability(self) -> str:
        return "sampling.tools" if self.tools is not None or self.tool_choice is not None else "sampling"

    def request(self) -> InputRequest:
        messages = self.messages
        if isinstance(messages, str):
            # The content is a list of blocks; the converter writes a single block for older revisions.
            messages = (SamplingMessage(role="user", content=(TextContent(text=messages),)),)
        # The other fields have the same names as those of CreateMessageParams.
        options = asdict(self, recurse=False, filter=exclude("messages", "key"))
        return CreateMessageRequest(params=CreateMessageParams(messages=tuple(messages), **options))

    def result_type(self) -> type[Result]:
        return CreateMessageResult

    def read(self, result: CreateMessageResult) -> CreateMessageResult:
        return result

    def settle(self, answer: CreateMessageResult) -> CreateMessageResult:
        return answer


@frozen
class ListRoots:
    """Ask for the folders that the client offers to the server."""

    key: str | None = None

    @property
    def capability(self) -> str:
        return "roots"

    def request(self) -> InputRequest:
        return ListRootsRequest(params=ListRootsParams())

    def result_type(self) -> type[Result]:
        return ListRootsResult

    def read(self, result: ListRootsResult) -> tuple[Root, ...]:
        return result.roots

    def settle(self, answer: tuple[Root, ...]) -> tuple[Root, ...]:
        return answer


def _check_accepted(answer: Elicited[Any], message: str) -> None:
    if answer.action == "decline":
        raise ToolError(f"the user declined to answer: {message}")
    if answer.action == "cancel":
        raise ToolError(f"the user closed the question without an answer: {message}")
