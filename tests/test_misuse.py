"""Misuse of the Python API raises an error that names the expected and the actual value."""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import attrs
import pytest
import trio
import trio.testing

import mcptrio
from mcptrio import Host, Server, connect, prompt, resource, tool
from mcptrio.client import ClientTimeouts, Handlers
from mcptrio.errors import ConfigError, ConnectionClosed, PluginError
from mcptrio.host import HostOptions
from mcptrio.serving import (
    HTTPLimits,
    HTTPOptions,
    MessageLimits,
    MountOptions,
    ServerLimits,
    ServerSettings,
    StreamChannel,
    StreamOptions,
    Timeouts,
    adapt_channel,
    asgi_app,
    memory_channel_pair,
    over_http,
    over_streams,
    over_transport,
    serve_stdio,
)

__all__: list[str] = []

Anything = Any
"""The type of a value that a type checker would refuse."""


@tool
async def now() -> str:
    """The time."""
    return "noon"


class Notes:
    """A plugin that needs more than settings."""

    def __init__(self, path: str) -> None:
        self.path = path

    @tool
    async def read(self) -> str:
        """Read them."""
        return self.path


def refused(error: type[Exception], work: Callable[[], object]) -> str:
    with pytest.raises(error) as raised:
        work()
    return str(raised.value)


LIST = "plugins: expected a list of modules and objects, got "
ONE = "expected a module, class or object as a plugin, got "


@pytest.mark.parametrize(
    ("plugins", "message"),
    [
        (now, f"{LIST}the function now"),
        (Notes, f"{LIST}the class Notes"),
        (Notes("x"), f"{LIST}Notes"),
        (mcptrio, f"{LIST}the module mcptrio"),
        ("mcptrio_git", f"{LIST}'mcptrio_git'"),
        (None, f"{LIST}None"),
        ([now], f"{ONE}the function now: pass its module, or call server.add_tool(now)"),
        (["mcptrio_git"], f"{ONE}the string 'mcptrio_git': import the module and pass that"),
        ([None], f"{ONE}NoneType"),
        ([3], f"{ONE}int"),
    ],
)
def test_object_that_is_not_a_plugin_is_refused(plugins: Anything, message: str) -> None:
    assert refused(TypeError, lambda: Server(plugins=plugins)) == message


def test_class_that_needs_more_than_settings_is_refused() -> None:
    message = refused(PluginError, lambda: Server(plugins=[Notes], settings=ServerSettings(strict=True)))

    assert "Notes.__init__: expected no parameters but config, got path; pass an object instead" in message


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Server(settings=ServerSettings(limits=wrong(MessageLimits()))),
            "limits: expected ServerLimits, got MessageLimits",
        ),
        (lambda: Server(settings=ServerSettings(timeouts=wrong(30))), "timeouts: expected Timeouts, got 30"),
        (lambda: Server(config=wrong("server.toml")), "config: expected Mapping, got 'server.toml'"),
        (
            lambda: ServerLimits(sessions=wrong("many")),
            "sessions: expected an integer of at least 1, got 'many'",
        ),
        (
            lambda: ServerLimits(sessions=wrong(True)),
            "sessions: expected an integer of at least 1, got true",
        ),
        (lambda: MessageLimits(bytes=wrong(1.5)), "MessageLimits: bytes: expected an integer of at least 1, got 1.5"),
        (lambda: Timeouts(request=wrong("1")), "Timeouts: request: expected a number above 0, got '1'"),
        (lambda: ClientTimeouts(idle=wrong(None)), "ClientTimeouts: idle: expected a number above 0, got None"),
        (lambda: HTTPLimits(message=wrong(ServerLimits())), "HTTPLimits: message: expected MessageLimits, got Server"),
        (
            lambda: HTTPOptions(streams=wrong("many")),
            "streams: expected an integer of at least 1, got 'many'",
        ),
        (lambda: StreamOptions(limits=wrong(HTTPLimits())), "StreamOptions: limits: expected MessageLimits, got HTTP"),
        (lambda: HostOptions(timeouts=wrong(Timeouts())), "HostOptions: timeouts: expected ClientTimeouts, got Time"),
        (lambda: MountOptions(timeouts=wrong(3)), "MountOptions: timeouts: expected ClientTimeouts, got 3"),
        (lambda: MountOptions(tools=wrong(["a"])), "MountOptions: tools: expected ToolPolicy, got list"),
        (lambda: memory_channel_pair(wrong(ServerLimits())), "limits: expected MessageLimits, got ServerLimits"),
        (lambda: memory_channel_pair(client=wrong(5)), "memory_channel_pair: client: expected MessageLimits, got 5"),
        (lambda: StreamChannel(wrong(None), limits=wrong(9)), "StreamChannel: limits: expected MessageLimits, got 9"),
        (lambda: adapt_channel(wrong(5)), "adapt_channel: channel: expected Channel, got 5"),
        (lambda: asgi_app(Server(), wrong(HTTPLimits())), "asgi_app: options: expected HTTPOptions, got HTTPLimits"),
        (lambda: asgi_app(wrong(Server)), "asgi_app: server: expected Server, got the class Server"),
        (lambda: Handlers(elicit=wrong("yes")), "Handlers: elicit: expected a function, got 'yes'"),
        (lambda: Handlers(log=wrong(3)), "Handlers: log: expected a function, got 3"),
        (lambda: Handlers(roots="/home/ada"), "roots: expected a list of folders or a function, got '/home/ada'"),
        (lambda: Host({}, approve=None, options=wrong(5)), "Host: options: expected HostOptions, got 5"),
        (lambda: Host(wrong("server"), approve=None), "Host: targets: expected Mapping, got 'server'"),
    ],
)
def test_value_of_another_class_is_refused(make: Callable[[], object], message: str) -> None:
    assert message in refused(TypeError, make)


def wrong(value: Anything) -> Anything:
    """A value that a type checker would refuse."""
    return value


def test_infinite_timeout_is_accepted() -> None:
    assert ClientTimeouts(request=math.inf).request == math.inf


async def enter(opening: Anything) -> None:
    async with opening:
        pass


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: serve_stdio(wrong(Server)), "serve_stdio: server: expected Server, got the class Server"),
        (lambda: serve_stdio(Server(), limits=wrong(ServerLimits())), "limits: expected MessageLimits, got Server"),
        (lambda: enter(over_http(wrong("notes"))), "over_http: server: expected Server, got 'notes'"),
        (lambda: enter(over_http(Server(), options=wrong(HTTPLimits()))), "options: expected HTTPOptions, got HTTPL"),
        (lambda: enter(over_streams(wrong(None), "unix:/x")), "over_streams: server: expected Server, got None"),
        (lambda: enter(over_streams(Server(), "unix:/x", options=wrong(1))), "options: expected StreamOptions, got 1"),
        (lambda: enter(over_transport(wrong(1), wrong(1))), "over_transport: server: expected Server, got 1"),
        (lambda: enter(connect(Server(), handlers=wrong(now))), "handlers: expected Handlers, got the function now"),
        (lambda: enter(connect(Server(), timeouts=wrong(5))), "connect: timeouts: expected ClientTimeouts, got 5"),
        (lambda: enter(connect(Server(), info=wrong("me"))), "connect: info: expected Implementation, got 'me'"),
    ],
)
async def test_server_is_not_served_with_a_value_of_another_class(
    use: Callable[[], Awaitable[None]], message: str
) -> None:
    with pytest.raises(TypeError, match=re.escape(message)):
        await use()


@pytest.mark.parametrize("target", [5, None, Server, mcptrio])
async def test_invalid_target_is_refused(target: Anything) -> None:
    with pytest.raises(ConfigError, match="target: expected a URL, a command, a Server"):
        await enter(connect(target))


@pytest.mark.parametrize(
    "mark",
    [tool, prompt, partial(resource, "memo://a"), partial(Server().add_tool, now)],
    ids=["tool", "prompt", "resource", "add"],
)
def test_option_with_a_typing_error_is_refused(mark: Callable[..., object]) -> None:
    assert refused(TypeError, lambda: mark(titel="Now")) == "there is no option `titel`; did you mean `title`?"


def test_name_given_to_a_decorator_without_its_option_is_refused() -> None:
    message = refused(TypeError, lambda: tool("water"))  # type: ignore[call-overload]

    assert message == "expected a function below the decorator, got str; pass options by name, such as name='water'"


def test_examples_of_a_tool_that_changes_something_are_refused() -> None:
    for hint in (None, False):
        said = refused(ValueError, lambda hint=hint: tool(read_only=hint, examples=[{}]))  # type: ignore[misc]
        assert said == f"examples: expected read_only=True with them, got {hint}"


def test_decorator_without_its_parentheses_is_refused() -> None:
    message = refused(TypeError, lambda: resource(wrong(now)))

    assert message == '@resource: uri: expected str, got the function now; write @resource("URI")'


@attrs.frozen
class Settings:
    file: str = "notes.db"


class Book:
    def __init__(self, config: Settings) -> None:
        self.config = config

    @tool
    async def where(self) -> str:
        """Where the notes are."""
        return self.config.file


class Failing(Book):
    def __init__(self, config: Settings) -> None:
        raise OSError("no such disk")


def test_settings_of_no_plugin_are_refused() -> None:
    settings = {"file": "other.db"}
    message = refused(ConfigError, lambda: Server(plugins=[Book], config={"Bok": settings}))

    assert message == "config: there is no plugin `Bok`; did you mean `Book`?"
    assert Server(plugins=[Book], config={"Book": settings}).plugins.plugins["Book"].state == "loaded"


def test_settings_of_a_failed_plugin_are_not_an_error() -> None:
    server = Server(plugins=[Failing], config={"Failing": {"file": "other.db"}})

    assert server.plugins.plugins["Failing"].state == "quarantined"


async def test_server_that_is_not_open_is_not_served() -> None:
    server = Server()
    async with server.open() as running:
        pass
    _, channel = memory_channel_pair()

    with pytest.raises(RuntimeError, match=r"the server is not open: use `async with server\.open\(\) as running:`"):
        await running.serve(channel)


async def test_client_is_used_in_its_block_only(autojump_clock: trio.testing.MockClock) -> None:
    opening = connect(Server())
    with pytest.raises(AttributeError, match=r"call_tool: the client is not connected yet; write `async with connect"):
        await wrong(opening).call_tool("now")

    async with opening as client:
        pass
    with pytest.raises(ConnectionClosed, match=r"the block of `async with connect\(\.\.\.\)` has ended"):
        await client.call_tool("now")
    assert trio.current_time() < 1


async def test_host_is_used_in_its_block_only(autojump_clock: trio.testing.MockClock) -> None:
    host = Host({"garden": Server()}, approve=None)
    with pytest.raises(ConnectionClosed, match="the host is not open: write `async with host:` around it"):
        await host.call_tool("garden__now")

    async with host:
        pass
    with pytest.raises(ConnectionClosed, match="the host is closed"):
        await host.call_tool("garden__now")


async def test_warning_names_a_call_that_is_not_awaited() -> None:
    async with connect(Server(plugins=[Notes("x")])) as client:
        with pytest.warns(RuntimeWarning, match=r"coroutine 'Client\.call_tool' was never awaited"):
            client.call_tool("read")
