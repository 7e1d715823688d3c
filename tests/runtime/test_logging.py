"""Log messages to a client: redacted, bounded, and unable to end the session."""

from __future__ import annotations

import logging
import time
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from mcptrio import Context, Server
from mcptrio.capabilities.logging import MAX_TEXT_CHARS, Logging
from mcptrio.outbox import Outbox
from mcptrio.protocol.messages import Message, Notification
from tests.runtime.peers import Client, connected, tool

__all__: list[str] = []

_log = logging.getLogger("author")


async def logged(client: Client, name: str) -> tuple[list[Any], Message]:
    """Return the log messages of a call, and its response."""
    await client.send(tool(1, name))
    messages = []
    while isinstance(message := await client.next(), Notification):
        assert message.params is not None
        messages.append(message.params["data"])
    return messages, message


@pytest.mark.parametrize(
    ("data", "sent"),
    [
        ({"password": "hunter2"}, {"password": "[redacted]"}),
        ({"password": b"hunter2"}, {"password": "[redacted]"}),
        ({"credentials": {"user": "ann", "pin": "1234"}}, {"credentials": "[redacted]"}),
        ({"api_keys": ["one", "two"]}, {"api_keys": "[redacted]"}),
        ({"max_tokens": 512, "secret": None, "token": True}, {"max_tokens": 512, "secret": None, "token": True}),
        ({"a": [{"token": "x"}]}, {"a": [{"token": "[redacted]"}]}),
        ("Authorization: Bearer abcdefghijkl", "Authorization: [redacted] [redacted]"),
        ("see https://ann:hunter2@example.com/", "see https://[redacted]@example.com/"),
    ],
)
def test_secrets_in_log_data_are_redacted(data: Any, sent: Any) -> None:
    assert Logging().redact(data) == sent


@pytest.mark.parametrize("text", ["-eyJ", "eyJ.", "token ", "-----BEGIN ", "://a:", "bearer\t", "sk-", 'password""'])
def test_redaction_of_any_text_takes_linear_time(text: str) -> None:
    began = time.process_time()
    redacted = Logging().redact(text * (4_000_000 // len(text)))
    assert time.process_time() - began < 2
    assert len(redacted) < MAX_TEXT_CHARS + 100


def test_secret_at_the_truncation_boundary_is_redacted() -> None:
    text = "x" * (MAX_TEXT_CHARS - 10) + " ghp_" + "a" * 40
    assert "ghp_" not in Logging().redact(text)


def test_redaction_that_returns_no_text_drops_the_message() -> None:
    sink = Logging()
    sink.redactions.append(lambda text: None)  # type: ignore[arg-type,return-value]
    assert sink.redact("hello") == "[redaction failed]"


async def test_failing_sink_and_redaction_end_nothing() -> None:
    """Logs from a thread too, because an error there would end the Trio run. Uses the real clock for the thread."""

    def from_thread() -> str:
        _log.warning("one %s", "two")
        return "done"

    async def from_task() -> str:
        _log.warning("three")
        return "done"

    def bad_sink(level: str, data: Any, logger: str | None) -> None:
        raise SystemExit(3)

    server = Server()
    server.catalog.logging.sinks.append(bad_sink)
    server.catalog.logging.redactions.append(lambda text: 5)  # type: ignore[arg-type,return-value]
    server.add_tool(from_thread)
    server.add_tool(from_task)
    async with connected(server) as client:
        with trio.fail_after(30):
            for name in ("from_thread", "from_task"):
                answer = (await logged(client, name))[1]
                assert not isinstance(answer, Notification)


async def test_records_logged_by_sinks_and_redactions_are_not_forwarded(autojump_clock: MockClock) -> None:
    received: list[Any] = []

    def redaction(text: str) -> str:
        _log.warning("redacting")
        return text

    def sink(level: str, data: Any, logger: str | None) -> None:
        received.append(data)
        _log.warning("sinking")

    async def speak(ctx: Context) -> str:
        _log.warning("hello")
        return "done"

    server = Server()
    server.catalog.logging.redactions.append(redaction)
    server.catalog.logging.sinks.append(sink)
    server.add_tool(speak)
    async with connected(server) as client:
        messages, _ = await logged(client, "speak")
        assert messages == ["hello"]
        assert received == ["hello"]


async def test_sink_receives_messages_of_a_handler_after_its_request(autojump_clock: MockClock) -> None:
    """The request has no session, so it ends with its result. Its parked handler ends later."""
    received: list[Any] = []

    async def parks(ctx: Context) -> str:
        try:
            return await ctx.ask("what?", str)
        finally:
            _log.warning("cleaned up")

    server = Server()
    server.add_tool(parks)
    server.catalog.logging.sinks.append(lambda level, data, logger: received.append(data))
    async with server.open():
        await server.supervisor.answer(tool(1, "parks", modern=True), Outbox())
        await trio.sleep(server.settings.timeouts.input + 1)

    assert received == ["cleaned up"]
