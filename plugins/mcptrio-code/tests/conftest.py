"""A small Python project, and clients of servers with the plugin."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import mcptrio_code
import pytest
import trio

from mcptrio import Client
from mcptrio.testing import Case, ServerSpec, open_served
from mcptrio.types import TextContent

CASE = Case(revision="2025-11-25")
FAKE = Path(__file__).with_name("hostile_server.py")

SHAPES = '''\
"""Shapes."""

UNIT = 1


class Shape:
    def area(self) -> int:
        local = 0
        return local


class Square(Shape):
    def __init__(self, side: int) -> None:
        self.side = side

    def area(self) -> int:
        return self.side * UNIT
'''
MAIN = """\
from shapes import Square

smile = "😀ä"; square = Square(2)
print(smile, square.area())
"""

Connect = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Two Python files; the second one uses the first."""
    folder = tmp_path / "my project"
    folder.mkdir()
    (folder / "shapes.py").write_text(SHAPES)
    (folder / "main.py").write_text(MAIN)
    (folder / "pyrightconfig.json").write_text("{}")
    return folder


@pytest.fixture
def code_client(project: Path) -> Connect:
    """Clients of servers with the project and any other settings."""

    @asynccontextmanager
    async def open_client(**settings: Any) -> AsyncIterator[Client]:
        config = {"folders": [str(project)], **settings}
        spec = ServerSpec(plugins=[mcptrio_code], config={"mcptrio_code": config})
        with trio.fail_after(90):
            async with open_served(spec, CASE) as served, served.connect() as client:
                yield client

    return open_client


@pytest.fixture
def fake_client(code_client: Connect) -> Iterator[Connect]:
    """Clients of servers whose language server for Python is the fake one in a mode."""

    def open_client(mode: str, **settings: Any) -> AbstractAsyncContextManager[Client]:
        server = {"command": [sys.executable, str(FAKE), mode], "globs": ["*.py"]}
        return code_client(servers={"python": server}, **settings)

    return open_client


async def answer(client: Client, tool: str, /, **arguments: Any) -> str:
    """Return the text of a successful call."""
    result = await client.call_tool(tool, arguments)
    [block] = result.content
    assert isinstance(block, TextContent)
    assert not result.is_error, block.text
    return block.text


async def refusal(client: Client, tool: str, /, **arguments: Any) -> str:
    """Return the text of a failed call."""
    result = await client.call_tool(tool, arguments)
    [block] = result.content
    assert isinstance(block, TextContent)
    assert result.is_error, block.text
    return block.text


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition of files or processes, which send no events."""
    while not condition():  # noqa: ASYNC110
        await trio.sleep(0.02)
