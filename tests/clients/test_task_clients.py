"""The tasks clients of the TypeScript SDK and of FastMCP follow the tasks of ``mcptrio serve``.

FastMCP 4.1.4 does so over stdio: over HTTP it sends ``tasks/get`` without the header ``Mcp-Name``, which clients MUST
send, and the server answers with -32020.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.clients.running import HERE
from tests.conformance.runner import serve
from tests.node import find_node
from tests.servers.environment import install

__all__: list[str] = []

FOLDER = HERE / "typescript"
FASTMCP = HERE.parent / "coming_from" / "fastmcp.txt"
COMMAND = (sys.executable, "-m", "mcptrio", "serve", "--http", "--port", "0", "--plugin", "everything")


def test_typescript_client_follows_tasks(tmp_path: Path) -> None:
    node = find_node()
    packages = node.install(FOLDER)
    with serve(COMMAND, tmp_path / "log") as url:
        result = subprocess.run(
            [node.binary, FOLDER / "tasks.mjs", packages, url],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert result.returncode == 0, result.stderr

    assert json.loads(result.stdout) == {
        "greet": {"kind": "immediate", "status": "completed", "text": "Hello, Ada!", "isError": False},
        "slow_compute": {"kind": "task", "status": "completed", "text": "computed x in 0.5 s", "isError": False},
        "failing_job": {"kind": "task", "status": "completed", "text": "the job failed", "isError": True},
        "protocol_error_job": {"kind": "task", "status": "failed", "message": "the job cannot be run"},
        "confirm_delete": {"kind": "task", "status": "completed", "text": "a.txt was deleted", "isError": False},
        "multi_input": {"kind": "task", "status": "completed", "text": "someone 2, then someone 3", "isError": False},
        "test_tool_with_task": {"kind": "task", "status": "completed", "text": "Hello, someone 4!", "isError": False},
        "cancelled": {"status": "cancelled"},
        "questions": ["Delete a.txt?", "What is your name?", "Who is first?", "Who is second?"],
    }


def test_fastmcp_client_follows_tasks() -> None:
    python = install(FASTMCP, ["fastmcp", "fastmcp_tasks"])
    server = (sys.executable, "-m", "mcptrio", "serve", "--stdio", "--plugin", "everything")
    result = subprocess.run(
        [python, HERE / "fastmcp_task_client.py", *server], capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 0, result.stderr

    # A failed task is an error of the tool for its users.
    assert json.loads(result.stdout) == {
        "greet": {"text": "Hello, Ada!"},
        "slow_compute": {"text": "computed x in 0.5 s"},
        "failing_job": {"failed": "the job failed"},
        "protocol_error_job": {"failed": "the job cannot be run"},
        "confirm_delete": {"text": "a.txt was deleted"},
        "multi_input": {"text": "someone 2, then someone 3"},
        "test_tool_with_task": {"text": "Hello, someone 4!"},
        "cancelled": {"statuses": ["working", "cancelled"]},
        "questions": {"asked": ["Delete a.txt?", "What is your name?", "Who is first?", "Who is second?"]},
    }
