"""Our client follows the tasks of FastMCP, which does not report them on a stream, so the client polls."""

from __future__ import annotations

import pytest
import trio

from mcptrio import connect
from mcptrio.client import Form, Handlers
from mcptrio.errors import TaskCancelled
from tests.clients.running import HERE as CLIENTS
from tests.servers.conftest import HERE
from tests.servers.environment import install

__all__: list[str] = []

FASTMCP = CLIENTS.parent / "coming_from" / "fastmcp.txt"


async def test_client_follows_tasks_of_fastmcp() -> None:
    python = install(FASTMCP, ["fastmcp", "fastmcp_tasks"])
    questions: list[str] = []
    created: list[str] = []

    async def fill_in(form: Form) -> dict[str, str]:
        questions.append(form.message)
        return {"name": "Ada"}

    with trio.fail_after(120):
        command = [str(python), str(HERE / "fastmcp_task_server.py")]
        async with connect(command, handlers=Handlers(elicit=fill_in)) as client:

            async def call(name: str, **arguments: float) -> tuple[str, bool]:
                result = await client.call_tool(name, arguments, created=lambda task: created.append(task.id))
                return result.text, bool(result.is_error)

            assert await call("dig", seconds=0.5) == ("dug", False)
            assert await call("ask") == ("Hello, Ada", False)
            assert await call("break_off") == ("no site", True)
            async with client.start_tool("dig", {"seconds": 600}) as started:
                id = await started.detach()
            assert id is not None
            assert (await client.task(id).state()).status == "working"
            await client.task(id).cancel()
            with pytest.raises(TaskCancelled):
                await client.task(id).result()

    assert (questions, len(created)) == (["Who?"], 3)
