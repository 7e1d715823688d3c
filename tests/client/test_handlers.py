"""The client's responses to requests of the server: its capabilities, its results, and failing handlers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from mcptrio import ConfigError, MCPError
from mcptrio.client import ClientTimeouts, Form, Handlers, OpenURL
from mcptrio.errors import Code
from mcptrio.protocol.messages import ErrorResponse, Request, Response
from mcptrio.protocol.model.content import ToolUseContent
from mcptrio.types import CreateMessageResult, Root, TextContent
from tests.client.scripted import FORM, Script, is_usable, play
from tests.interaction.applies import HANDSHAKE, MODERN

__all__: list[str] = []

OLD, NEW = HANDSHAKE[-1], MODERN[-1]
PAGE = {"mode": "url", "message": "Sign in", "url": "https://example.com/in", "elicitationId": "e1"}
TALK = {"messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}], "maxTokens": 10}
WEATHER = {"name": "weather", "inputSchema": {"type": "object"}}
USE = {"type": "tool_use", "id": "u1", "name": "weather", "input": {}}
RESULT = {"type": "tool_result", "toolUseId": "u1", "content": []}


async def fill_in(form: Form) -> dict[str, Any]:
    return {"name": "Ada"}


async def open_url(page: OpenURL) -> bool:
    return True


async def say(params: Any) -> str:
    return "Hello"


EVERYTHING = Handlers(elicit=fill_in, open_url=open_url, sample=say, sample_tools=True, roots=["/work"])

_ids = iter(range(1000))


async def ask(script: Script, method: str, params: Any = None) -> Response | ErrorResponse:
    """Send a request to the client, and return its response."""
    id = f"question {next(_ids)}"
    await script.send(Request(id, method, params))
    answer: Any = await script.take(object)  # type: ignore[type-var]
    assert isinstance(answer, Response | ErrorResponse)
    assert answer.id == id
    return answer


async def answer_to(script: Script, method: str, params: Any = None) -> dict[str, Any]:
    answer = await ask(script, method, params)
    assert isinstance(answer, Response), answer
    return answer.result


async def refusal_of(script: Script, method: str, params: Any = None) -> tuple[int, str]:
    answer = await ask(script, method, params)
    assert isinstance(answer, ErrorResponse), answer
    return answer.code, answer.message


# --- declaring


@pytest.mark.parametrize(
    ("handlers", "declared"),
    [
        (Handlers(), {}),
        (Handlers(elicit=fill_in), {"elicitation": {"form": {}}}),
        (Handlers(open_url=open_url), {"elicitation": {"url": {}}}),
        (Handlers(elicit=fill_in, open_url=open_url), {"elicitation": {"form": {}, "url": {}}}),
        (Handlers(sample=say), {"sampling": {}}),
        (Handlers(sample=say, sample_tools=True, sample_context=True), {"sampling": {"tools": {}, "context": {}}}),
        (Handlers(sample_tools=True, sample_context=True), {}),
        (Handlers(roots=[]), {"roots": {"listChanged": True}}),
        (Handlers(log=print, notification=print), {}),
        (Handlers(experimental={"x": {"y": 1}}), {"experimental": {"x": {"y": 1}}}),
        (Handlers(extensions={"a.example/b": {}}), {"extensions": {"a.example/b": {}}}),
    ],
)
async def test_handlers_declare_their_capabilities(handlers: Handlers, declared: dict[str, Any]) -> None:
    async with play(OLD, handlers=handlers) as (_, script):
        [initialize, _] = script.received
        assert isinstance(initialize, Request)
        assert initialize.params is not None
        # The client follows tasks without a handler.
        assert initialize.params["capabilities"] == {"tasks": {}, **declared}
    async with play(NEW, handlers=handlers) as (_, script):
        [discover] = script.received
        assert isinstance(discover, Request)
        assert discover.params is not None
        if "roots" in declared:
            declared = {"roots": {}}
        extensions = {"io.modelcontextprotocol/tasks": {}, **declared.get("extensions", {})}
        declared = {**declared, "extensions": extensions}
        assert discover.params["_meta"]["io.modelcontextprotocol/clientCapabilities"] == declared


@pytest.mark.parametrize(
    ("revision", "declared"),
    [
        ("2024-11-05", {"sampling": {}, "roots": {"listChanged": True}}),
        ("2025-03-26", {"sampling": {}, "roots": {"listChanged": True}}),
        ("2025-06-18", {"sampling": {}, "roots": {"listChanged": True}, "elicitation": {}}),
    ],
)
async def test_older_revisions_declare_only_their_capabilities(revision: str, declared: dict[str, Any]) -> None:
    async with play(revision, handlers=EVERYTHING) as (_, script):
        [initialize, _] = script.received
        assert isinstance(initialize, Request)
        assert initialize.params is not None
        assert initialize.params["capabilities"] == declared


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_request_without_a_handler_is_method_not_found(revision: str) -> None:
    async with play(revision) as (client, script):
        for method, params in (
            ("roots/list", None),
            ("sampling/createMessage", TALK),
            ("elicitation/create", FORM),
            ("tasks/list", {}),
            ("tools/list", {}),
            ("", {}),
        ):
            code, message = await refusal_of(script, method, params)
            assert (code, message) == (Code.METHOD_NOT_FOUND, f"no such method: {method}")
        assert await is_usable(client, script)


async def test_elicitation_mode_without_a_handler_is_refused() -> None:
    """Source: MCP 2025-11-25, client/elicitation, "Error Handling": -32602."""
    async with play(OLD, handlers=Handlers(elicit=fill_in)) as (_, script):
        assert await refusal_of(script, "elicitation/create", PAGE) == (
            Code.INVALID_PARAMS,
            "elicitation by URL is not declared",
        )
    async with play(OLD, handlers=Handlers(open_url=open_url)) as (_, script):
        assert await refusal_of(script, "elicitation/create", FORM) == (
            Code.INVALID_PARAMS,
            "elicitation by form is not declared",
        )


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("elicitation/create", {}),
        ("elicitation/create", {"message": 5, "requestedSchema": {}}),
        ("elicitation/create", {**FORM, "mode": "telepathy"}),
        ("elicitation/create", {"message": "m", "requestedSchema": {"type": "array"}}),
        ("elicitation/create", {"mode": "url", "message": "m"}),
        ("sampling/createMessage", {"messages": "Hi", "maxTokens": 1}),
        ("sampling/createMessage", {"messages": []}),
    ],
)
async def test_invalid_server_request_is_refused(method: str, params: dict[str, Any]) -> None:
    async with play(OLD, handlers=EVERYTHING) as (client, script):
        code, _ = await refusal_of(script, method, params)
        assert code == Code.INVALID_PARAMS
        assert await is_usable(client, script)


async def test_server_request_is_ignored_in_a_revision_without_them() -> None:
    """Source: MCP 2026-07-28, basic/transports: clients do not send responses."""
    async with play(NEW, handlers=EVERYTHING) as (client, script):
        await script.send(Request(1, "elicitation/create", FORM), Request(2, "ping"), Request(3, "nonsense"))
        await script.expect_nothing()
        assert await is_usable(client, script)


# --- results


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
@pytest.mark.parametrize(
    ("filled", "answer"),
    [
        ({"name": "Ada"}, {"action": "accept", "content": {"name": "Ada"}}),
        (lambda form: form.accept({"name": "Ada"}), {"action": "accept", "content": {"name": "Ada"}}),
        (lambda form: form.decline(), {"action": "decline"}),
        (lambda form: form.cancel(), {"action": "cancel"}),
        (None, {"action": "cancel"}),
    ],
    ids=["values", "accepted", "declined", "cancelled", "nothing"],
)
async def test_elicitation_handler_gets_the_form_and_its_answer_is_sent(
    revision: str, filled: Any, answer: dict[str, Any]
) -> None:
    shown: list[Form] = []

    async def elicit(form: Form) -> Any:
        shown.append(form)
        return filled(form) if callable(filled) else filled

    async with play(revision, handlers=Handlers(elicit=elicit)) as (_, script):
        assert await answer_to(script, "elicitation/create", FORM) == answer
    [form] = shown
    assert form.message == "Your name?"
    assert [field.name for field in form.fields] == ["name"]


@pytest.mark.parametrize("filled", [{}, {"name": 5}, {"nickname": "Countess"}, 5, "yes"])
async def test_answer_that_violates_the_form_is_not_sent(filled: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def elicit(form: Form) -> Any:
        return filled

    async with play(OLD, handlers=Handlers(elicit=elicit)) as (client, script):
        assert await refusal_of(script, "elicitation/create", FORM) == (
            Code.INTERNAL_ERROR,
            "the client failed to answer elicitation/create",
        )
        assert await is_usable(client, script)
    assert "the handler of elicitation/create failed" in caplog.text


@pytest.mark.parametrize(
    ("opened", "action"),
    [
        (True, "accept"),
        (False, "decline"),
        (lambda page: page.accept(), "accept"),
        (lambda page: page.cancel(), "cancel"),
    ],
    ids=["opened", "not opened", "accepted", "cancelled"],
)
async def test_url_handler_gets_the_page_and_its_consent_is_sent(opened: Any, action: str) -> None:
    shown: list[OpenURL] = []

    async def show(page: OpenURL) -> Any:
        shown.append(page)
        return opened(page) if callable(opened) else opened

    async with play(OLD, handlers=Handlers(open_url=show)) as (_, script):
        assert await answer_to(script, "elicitation/create", PAGE) == {"action": action}
    [page] = shown
    assert (page.url, page.host, page.message) == ("https://example.com/in", "example.com", "Sign in")


async def test_unsafe_url_is_never_accepted(caplog: pytest.LogCaptureFixture) -> None:
    async with play(OLD, handlers=Handlers(open_url=open_url)) as (_, script):
        code, _ = await refusal_of(script, "elicitation/create", {**PAGE, "url": "javascript:alert(1)"})
        assert code == Code.INTERNAL_ERROR


@pytest.mark.parametrize(
    ("folders", "roots"),
    [
        ([], []),
        (["/work"], [{"uri": "file:///work", "name": "work"}]),
        ([Path("/a b/ü")], [{"uri": "file:///a%20b/%C3%BC", "name": "ü"}]),
        (["file:///srv/x"], [{"uri": "file:///srv/x"}]),
        ([Root(uri="file:///r", name="R")], [{"uri": "file:///r", "name": "R"}]),
        (["/"], [{"uri": "file:///", "name": "/"}]),
    ],
    ids=["none", "text", "path", "uri", "root", "all"],
)
@pytest.mark.parametrize("revision", [HANDSHAKE[0], OLD])
async def test_roots_are_listed_with_uri_and_name(revision: str, folders: Any, roots: list[Any]) -> None:
    async with play(revision, handlers=Handlers(roots=folders)) as (_, script):
        assert await answer_to(script, "roots/list") == {"roots": roots}


async def test_roots_function_is_called_for_each_request() -> None:
    folders = ["/one"]

    async def roots() -> list[str]:
        return folders

    async with play(OLD, handlers=Handlers(roots=roots)) as (client, script):
        assert (await answer_to(script, "roots/list"))["roots"][0]["name"] == "one"
        folders[0] = "/two"
        await client.roots_changed()
        await script.next_notification("notifications/roots/list_changed")
        assert (await answer_to(script, "roots/list"))["roots"][0]["name"] == "two"


# --- sampling


async def test_sampling_handler_may_return_text_or_a_message() -> None:
    async with play(OLD, handlers=Handlers(sample=say)) as (_, script):
        assert await answer_to(script, "sampling/createMessage", TALK) == {
            "role": "assistant",
            "content": {"type": "text", "text": "Hello"},
            "model": "unknown",
        }

    async def sample(params: Any) -> CreateMessageResult:
        assert params.max_tokens == 10
        content = (TextContent(text="Bye"),)
        return CreateMessageResult(role="assistant", content=content, model="m", stop_reason="endTurn")

    async with play(OLD, handlers=Handlers(sample=sample)) as (_, script):
        result = await answer_to(script, "sampling/createMessage", TALK)
        assert (result["model"], result["stopReason"]) == ("m", "endTurn")


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({**TALK, "tools": [WEATHER]}, "sampling with tools is not declared"),
        ({**TALK, "toolChoice": {"mode": "auto"}}, "sampling with tools is not declared"),
        ({**TALK, "includeContext": "allServers"}, "sampling with context is not declared"),
    ],
)
async def test_sampling_with_undeclared_capabilities_is_refused(params: dict[str, Any], message: str) -> None:
    async with play(OLD, handlers=Handlers(sample=say)) as (_, script):
        assert await refusal_of(script, "sampling/createMessage", params) == (Code.INVALID_PARAMS, message)


@pytest.mark.parametrize(
    ("contents", "is_legal"),
    [
        (["Hi", [USE], [RESULT]], True),
        (["Hi", [USE, {"type": "text", "text": "?"}], [RESULT]], True),
        (["Hi", [USE], "and?"], False),
        (["Hi", [RESULT]], False),
        (["Hi", [USE], [RESULT, {"type": "text", "text": "?"}]], False),
        (["Hi", [USE], [{**RESULT, "toolUseId": "u2"}]], False),
        (["Hi", [USE, {**USE, "id": "u2"}], [RESULT]], False),
        (["Hi", [USE, {**USE, "id": "u2"}], [{**RESULT, "toolUseId": "u2"}, RESULT]], True),
    ],
)
async def test_sampling_messages_need_a_result_for_every_tool_use(contents: list[Any], is_legal: bool) -> None:
    """Source: MCP 2025-11-25, client/sampling, "Tool Use and Result Balance"."""
    messages = [
        {
            "role": "assistant" if number % 2 else "user",
            "content": {"type": "text", "text": content} if isinstance(content, str) else content,
        }
        for number, content in enumerate(contents)
    ]
    async with play(OLD, handlers=Handlers(sample=say, sample_tools=True)) as (_, script):
        answer = await ask(script, "sampling/createMessage", {**TALK, "messages": messages, "tools": [WEATHER]})
        assert isinstance(answer, Response) is is_legal
        if isinstance(answer, ErrorResponse):
            assert answer.code == Code.INVALID_PARAMS


@pytest.mark.parametrize(
    ("mode", "uses", "is_legal"),
    [
        ("auto", True, True),
        ("auto", False, True),
        ("required", True, True),
        ("required", False, False),
        ("none", True, False),
        ("none", False, True),
    ],
)
async def test_sampling_result_must_follow_the_tool_choice(mode: str, uses: bool, is_legal: bool) -> None:
    async def sample(params: Any) -> Any:
        block = ToolUseContent(id="u1", name="weather", input={}) if uses else TextContent(text="Hello")
        return CreateMessageResult(role="assistant", content=(block,), model="m")

    async with play(OLD, handlers=Handlers(sample=sample, sample_tools=True)) as (_, script):
        params = {**TALK, "tools": [WEATHER], "toolChoice": {"mode": mode}}
        assert isinstance(await ask(script, "sampling/createMessage", params), Response) is is_legal


# --- isolation of requests


@pytest.mark.parametrize("error", [KeyError("secret"), SystemExit(1), trio.TooSlowError()], ids=repr)
async def test_failing_handler_is_logged_and_its_error_hides_details(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    async def elicit(form: Form) -> None:
        raise error

    async with play(OLD, handlers=Handlers(elicit=elicit)) as (client, script):
        assert await refusal_of(script, "elicitation/create", FORM) == (
            Code.INTERNAL_ERROR,
            "the client failed to answer elicitation/create",
        )
        assert await is_usable(client, script)
    assert type(error).__name__ in caplog.text


async def test_mcp_error_of_a_handler_is_sent_unchanged() -> None:
    async def elicit(form: Form) -> None:
        raise MCPError("not on Sundays", code=-32050, data={"day": 7})

    async with play(OLD, handlers=Handlers(elicit=elicit)) as (_, script):
        answer = await ask(script, "elicitation/create", FORM)
        assert isinstance(answer, ErrorResponse)
        assert (answer.code, answer.message, answer.data) == (-32050, "not on Sundays", {"day": 7})


async def test_slow_handler_times_out(autojump_clock: object) -> None:
    async def elicit(form: Form) -> None:
        await trio.sleep_forever()

    async with play(OLD, handlers=Handlers(elicit=elicit), timeouts=ClientTimeouts(input=60)) as (_, script):
        began = trio.current_time()
        code, message = await refusal_of(script, "elicitation/create", FORM)
        assert (code, message) == (Code.INTERNAL_ERROR, "the client did not answer elicitation/create within 60 s")
        assert trio.current_time() - began == pytest.approx(60)


async def test_cancelled_server_request_ends_its_handler_without_a_response() -> None:
    question_asked = trio.Event()
    ended: list[str] = []

    async def elicit(form: Form) -> None:
        question_asked.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.append("elicit")

    async with play(OLD, handlers=Handlers(elicit=elicit)) as (client, script):
        await script.send(Request("question", "elicitation/create", FORM))
        await question_asked.wait()
        await script.notify("notifications/cancelled", {"requestId": "question", "reason": "never mind"})
        await script.expect_nothing()
        assert ended == ["elicit"]
        assert await is_usable(client, script)


async def test_cancellation_of_an_unknown_request_is_ignored() -> None:
    async with play(OLD) as (client, script):
        for params in ({"requestId": 99}, {"requestId": "x"}, {}, {"requestId": None}, {"requestId": True}, None):
            await script.notify("notifications/cancelled", params)
        await script.expect_nothing()
        assert await is_usable(client, script)


async def test_server_requests_are_handled_concurrently() -> None:
    go_on = trio.Event()

    async def elicit(form: Form) -> dict[str, Any]:
        await go_on.wait()
        return {"name": "Ada"}

    async with play(OLD, handlers=Handlers(elicit=elicit, roots=[])) as (client, script):
        await script.send(Request("first", "elicitation/create", FORM))
        await script.send(Request("second", "elicitation/create", FORM))
        assert await answer_to(script, "roots/list") == {"roots": []}
        assert await answer_to(script, "ping") == {}
        assert await is_usable(client, script)
        go_on.set()
        assert {(await script.take(Response)).id, (await script.take(Response)).id} == {"first", "second"}


async def test_number_of_concurrent_server_requests_is_limited() -> None:
    async def elicit(form: Form) -> None:
        await trio.sleep_forever()

    async with play(OLD, handlers=Handlers(elicit=elicit)) as (client, script):
        await script.send(*[Request(f"flood {number}", "elicitation/create", FORM) for number in range(100)])
        refused = [await script.take(ErrorResponse) for _ in range(36)]
        assert {answer.message for answer in refused} == {"at most 64 requests are answered at once"}
        assert await answer_to(script, "ping") == {}
        assert await is_usable(client, script)


async def test_id_of_a_server_request_is_reusable_after_its_response() -> None:
    go_on = trio.Event()

    async def elicit(form: Form) -> dict[str, Any]:
        await go_on.wait()
        return {"name": "Ada"}

    async with play(OLD, handlers=Handlers(elicit=elicit)) as (_, script):
        await script.send(Request(1, "elicitation/create", FORM), Request(1, "elicitation/create", FORM))
        refused = await script.take(ErrorResponse)
        assert (refused.id, refused.code) == (1, Code.INVALID_REQUEST)
        go_on.set()
        assert (await script.take(Response)).id == 1
        await script.send(Request(1, "elicitation/create", FORM))
        assert (await script.take(Response)).id == 1


async def test_closing_the_client_cancels_its_handlers() -> None:
    question_asked = trio.Event()
    ended: list[str] = []

    async def elicit(form: Form) -> None:
        question_asked.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.append("elicit")

    async with play(OLD, handlers=Handlers(elicit=elicit)) as (_, script):
        await script.send(Request("question", "elicitation/create", FORM))
        await question_asked.wait()
    assert ended == ["elicit"]


# --- rules of a revision or capability


@pytest.mark.parametrize("revision", [revision for revision in HANDSHAKE if revision != OLD])
async def test_include_context_is_dropped_in_revisions_without_its_capability(revision: str) -> None:
    asked: list[Any] = []

    async def sample(params: Any) -> str:
        asked.append(params.include_context)
        return "Hello"

    async with play(revision, handlers=Handlers(sample=sample)) as (_, script):
        result = await answer_to(script, "sampling/createMessage", {**TALK, "includeContext": "allServers"})
        assert result["content"]["text"] == "Hello"
    assert asked == [None]


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_roots_request_without_roots_names_the_reason(revision: str) -> None:
    """Source: MCP 2025-11-25, client/roots, "Error Handling"."""
    async with play(revision) as (_, script):
        answer = await ask(script, "roots/list")
        assert isinstance(answer, ErrorResponse)
        assert answer.code == Code.METHOD_NOT_FOUND
        assert answer.data == {"reason": "Client does not have roots capability"}


async def note(*_: Any) -> None:
    """Has to be awaited, which message handlers cannot do."""


@pytest.mark.parametrize("name", ["log", "notification"])
def test_asynchronous_message_handler_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}: expected a plain function, got an asynchronous one"):
        Handlers(**{name: note})  # type: ignore[arg-type]


async def test_message_handler_that_returns_an_awaitable_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    handlers = Handlers(notification=lambda *received: note(*received))  # type: ignore[arg-type, return-value]
    async with play(OLD, handlers=handlers) as (client, script):
        await script.notify("notifications/own", {})
        assert await is_usable(client, script)
    assert "expected a plain function, got an asynchronous one" in caplog.text
