"""Drives the tasks of a server with FastMCP's client: ``fastmcp_task_client.py COMMAND…``. Writes the ends as JSON.

A test runs it as a process with the packages of tests/coming_from/fastmcp.txt. It uses only the public API.

Source: fastmcp-tasks 4.1.4, fastmcp_tasks/client.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import ToolError
from fastmcp_tasks import call_tool_task

__all__: list[str] = []


async def report(command: list[str]) -> dict[str, Any]:
    questions: list[str] = []

    async def elicit(message: str, kind: Any, params: Any, context: Any) -> dict[str, Any]:
        questions.append(message)
        properties = params.requested_schema["properties"]
        kinds = {"boolean": True}
        return {name: kinds.get(each["type"], f"someone {len(questions)}") for name, each in properties.items()}

    transport = StdioTransport(command[0], command[1:])
    async with Client(transport, elicitation_handler=elicit) as client:

        async def call(tool: str, **arguments: Any) -> dict[str, Any]:
            try:
                result = await client.call_tool(tool, arguments)
            except ToolError as error:
                return {"failed": str(error)}
            return {"text": result.content[0].text}

        found = {
            "greet": await call("greet", name="Ada"),
            "slow_compute": await call("slow_compute", seconds=0.5, label="x"),
            "failing_job": await call("failing_job"),
            "protocol_error_job": await call("protocol_error_job"),
            "confirm_delete": await call("confirm_delete", filename="a.txt"),
            "multi_input": await call("multi_input"),
            "test_tool_with_task": await call("test_tool_with_task"),
        }
        task = await call_tool_task(client, "slow_compute", {"seconds": 600})
        working = await task.status()
        await task.cancel()
        ended = await task.wait(timeout=30)
        found["cancelled"] = {"statuses": [working.status, ended.status]}
        found["questions"] = {"asked": sorted(questions)}
        return found


print(json.dumps(asyncio.run(report(sys.argv[1:]))))
