"""Requests of servers need the user's approval before their handlers, and name the server as the user does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from mcptrio import Context, ElicitURL, Host, ToolError
from mcptrio.abc import MessageChannel
from mcptrio.client import Form, Handlers, OpenURL
from mcptrio.errors import NotApproved
from mcptrio.host import ApprovalRequest, AuditRecord, Decision, HostOptions
from mcptrio.protocol.messages import ErrorResponse, Request, Response
from mcptrio.types import CreateMessageParams
from tests.host.scripted import Scripted, note, plain, text_of

__all__: list[str] = []

FORM = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}
PAGE = {"mode": "url", "message": "Pay", "url": "https://pay.example/1", "elicitationId": "1"}
SAMPLING = {"messages": [{"role": "user", "content": {"type": "text", "text": "Hello?"}}], "maxTokens": 10}


def asking(method: str, params: dict[str, Any]) -> Scripted:
    """Return a handshake server that sends a request during a call; the client's response is the tool's result."""

    async def call(server: Scripted, channel: MessageChannel, call_params: dict[str, Any]) -> Any:
        await channel.send([Request(id="q", method=method, params=params)])
        answer = await server.answer_to("q")
        message = answer.result if isinstance(answer, Response) else {"error": [answer.code, answer.message]}
        return {"content": [{"type": "text", "text": repr(message)}]}

    return Scripted({"tools/call": call}, title="Your Bank")


def only(*kinds: str) -> Callable[[ApprovalRequest], Any]:
    async def approve(request: ApprovalRequest) -> bool:
        return request.kind in ("tool", *kinds)

    return approve


async def fill_in(form: Form) -> Any:
    return {"name": form.server}


async def go(page: OpenURL) -> bool:
    return True


async def say(params: Any) -> str:
    return "Hello!"


ALL = Handlers(elicit=fill_in, open_url=go, sample=say)


async def test_form_has_the_configured_name_of_the_server() -> None:
    async with Host({"notes": asking("elicitation/create", FORM)}, approve=None, handlers=ALL) as host:
        assert text_of(await host.call_tool("notes_echo")) == "{'action': 'accept', 'content': {'name': 'notes'}}"


@pytest.mark.parametrize(
    ("method", "params", "kind", "message"),
    [
        ("elicitation/create", FORM, "form", "{'action': 'decline'}"),
        ("elicitation/create", PAGE, "url", "{'action': 'decline'}"),
        ("sampling/createMessage", SAMPLING, "sampling", "{'error': [-1, 'User rejected sampling request']}"),
    ],
)
async def test_denied_request_gets_the_denial_of_its_protocol(
    method: str, params: dict[str, Any], kind: str, message: str
) -> None:
    records: list[AuditRecord] = []
    seen: list[ApprovalRequest] = []

    async def approve(request: ApprovalRequest) -> bool:
        seen.append(request)
        return request.kind == "tool"

    server = asking(method, params)
    async with Host({"notes": server}, approve=approve, handlers=ALL, audit=records.append) as host:
        assert text_of(await host.call_tool("notes_echo")) == message

    assert [request.kind for request in seen] == ["tool", kind]
    assert seen[1].server == "notes"
    assert seen[1].question is not None
    assert [(record.kind, record.outcome) for record in records] == [(kind, "not_approved"), ("tool", "ok")]


async def test_sampling_result_is_approved_before_it_is_sent() -> None:
    seen: list[ApprovalRequest] = []

    async def approve(request: ApprovalRequest) -> bool:
        seen.append(request)
        return request.kind != "reply"

    server = asking("sampling/createMessage", SAMPLING)
    async with Host({"notes": server}, approve=approve, handlers=ALL) as host:
        text = text_of(await host.call_tool("notes_echo"))

    assert text == "{'error': [-1, 'User rejected sampling request']}"
    assert [request.kind for request in seen] == ["tool", "sampling", "reply"]
    assert seen[1].arguments["messages"][0]["content"]["text"] == "Hello?"
    assert seen[2].arguments["content"] == {"type": "text", "text": "Hello!"}


async def test_user_may_edit_the_prompt_and_the_result_of_sampling() -> None:
    received: list[str] = []

    async def approve(request: ApprovalRequest) -> Decision:
        arguments = dict(request.arguments)
        if request.kind == "sampling":
            arguments["messages"] = [{"role": "user", "content": {"type": "text", "text": "Good day?"}}]
        if request.kind == "reply":
            arguments["content"] = {"type": "text", "text": "Good day!"}
        return Decision(allowed=True, arguments=arguments)

    async def sample(params: CreateMessageParams) -> str:
        received.append(str(params.messages[0].content))
        return "Hello!"

    server = asking("sampling/createMessage", SAMPLING)
    async with Host({"notes": server}, approve=approve, handlers=Handlers(sample=sample)) as host:
        text = text_of(await host.call_tool("notes_echo"))

    assert "Good day?" in received[0]
    assert "Good day!" in text


@pytest.mark.parametrize(
    ("method", "params", "kind", "arguments"),
    [
        ("elicitation/create", FORM, "form", {"message": "x"}),
        ("sampling/createMessage", SAMPLING, "sampling", {"messages": "x"}),
        ("sampling/createMessage", SAMPLING, "reply", {}),
    ],
)
async def test_invalid_edits_deny_the_request(
    method: str, params: dict[str, Any], kind: str, arguments: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    async def approve(request: ApprovalRequest) -> bool | Decision:
        return Decision(allowed=True, arguments=arguments) if request.kind == kind else True

    async with Host({"notes": asking(method, params)}, approve=approve, handlers=ALL) as host:
        text = text_of(await host.call_tool("notes_echo"))

    assert "decline" in text or "rejected" in text
    assert "the edited arguments cannot be used" in caplog.text


async def test_approved_requests_reach_the_handlers() -> None:
    approve = only("form", "url", "sampling", "reply")
    servers = {
        "form": asking("elicitation/create", FORM),
        "url": asking("elicitation/create", PAGE),
        "model": asking("sampling/createMessage", SAMPLING),
    }
    async with Host(servers, approve=approve, handlers=ALL) as host:
        assert "accept" in text_of(await host.call_tool("form_echo"))
        assert "accept" in text_of(await host.call_tool("url_echo"))
        assert "Hello!" in text_of(await host.call_tool("model_echo"))


async def test_denied_question_of_a_result_is_declined() -> None:
    """2026-07-28 has questions in results; the tool learns that the user declined."""
    server = plain()

    async def pay(ctx: Context) -> str:
        await ctx.ask_all(ElicitURL("Pay", "https://pay.example/1", "1"))
        return "paid"

    server.add_tool(pay)
    async with Host({"shop": server}, approve=only(), handlers=ALL) as host:
        assert text_of(await host.call_tool("shop_pay")) == "the user declined to answer: Pay"
        assert host.status["shop"].revision == "2026-07-28"


async def test_denied_sampling_of_a_result_fails_the_call() -> None:
    """2026-07-28 has no answer that denies sampling, and the server does not wait."""
    server = plain()

    async def think(ctx: Context) -> str:
        return str(await ctx.sample("Think"))

    server.add_tool(think)
    async with Host({"one": server}, approve=only(), handlers=ALL) as host:
        with pytest.raises(NotApproved):
            await host.call_tool("one_think")
        assert text_of(await host.call_tool("one_echo")) == "plain"


async def test_capability_without_a_handler_is_not_declared() -> None:
    server = plain()

    async def ask(ctx: Context) -> str:
        try:
            ctx.require("elicitation")
        except Exception as error:
            raise ToolError("cannot ask") from error
        return "asked"

    server.add_tool(ask)
    async with Host({"one": server}, approve=None) as host:
        assert text_of(await host.call_tool("one_ask")) == "cannot ask"


async def test_each_server_has_separate_handlers() -> None:
    def handlers(server: str) -> Handlers:
        async def fill_in(form: Form) -> Any:
            return {"name": f"for {server}"}

        return Handlers(elicit=fill_in)

    servers = {name: asking("elicitation/create", FORM) for name in ("one", "two")}
    async with Host(servers, approve=None, handlers=handlers) as host:
        assert "for one" in text_of(await host.call_tool("one_echo"))
        assert "for two" in text_of(await host.call_tool("two_echo"))


async def test_requests_over_the_limit_are_declined() -> None:
    shown = trio.Event()

    async def flood(channel: MessageChannel) -> None:
        for number in range(6):
            await channel.send([Request(id=f"q{number}", method="elicitation/create", params=FORM)])

    async def begin(server: Scripted, channel: MessageChannel, params: dict[str, Any]) -> Any:
        await flood(channel)
        return {"content": []}

    async def approve(request: ApprovalRequest) -> bool:
        if request.kind == "form":
            await shown.wait()
        return True

    server = Scripted({"tools/call": begin})
    options = HostOptions(questions=2)
    async with Host({"one": server}, approve=approve, handlers=ALL, options=options) as host:
        await host.call_tool("one_echo")
        await trio.testing.wait_all_tasks_blocked()
        answered = [each for each in server.received if isinstance(each, Response | ErrorResponse)]
        assert [each.result for each in answered if isinstance(each, Response)] == [{"action": "decline"}] * 4
        shown.set()
        await trio.testing.wait_all_tasks_blocked()
        assert len([each for each in server.received if isinstance(each, Response)]) == 6


async def test_log_messages_of_a_flooding_server_are_limited(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.abc.Clock
) -> None:
    received: list[Any] = []

    async def flood(server: Scripted, channel: MessageChannel, params: dict[str, Any]) -> Any:
        await channel.send([note("notifications/message", level="info", data=number) for number in range(1000)])
        return {"content": []}

    server = Scripted({"tools/call": flood})
    options = HostOptions(logs_per_second=10)
    async with Host({"one": server}, approve=None, handlers=Handlers(log=received.append), options=options) as host:
        await host.call_tool("one_echo")
        await trio.sleep(0.3)
        await host.call_tool("one_echo")

    assert 10 <= len(received) < 40
    assert "log messages were dropped" in caplog.text


async def test_failing_handler_is_recorded_and_fails_only_its_request() -> None:
    async def fail(form: Form) -> Any:
        raise ZeroDivisionError

    records: list[AuditRecord] = []
    server = asking("elicitation/create", FORM)
    async with Host({"one": server}, approve=None, handlers=Handlers(elicit=fail), audit=records.append) as host:
        assert "error" in text_of(await host.call_tool("one_echo"))

    assert [(record.kind, record.outcome) for record in records] == [("form", "failed"), ("tool", "ok")]
