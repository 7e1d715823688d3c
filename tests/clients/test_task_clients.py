"""The tasks client of the TypeScript SDK follows the tasks of ``mcptrio serve --http``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.clients.running import HERE
from tests.conformance.runner import serve
from tests.node import find_node

__all__: list[str] = []

FOLDER = HERE / "typescript"
COMMAND = (sys.executable, "-m", "mcptrio", "serve", "--http", "--port", "0", "--plugin", "everything")


def test_typescript_client_follows_tasks(tmp_path: Path) -> None:
    node = find_node()
    packages = node.install(FOLDER)
    with serve(COMMAND, tmp_path / "log") as url:
        done = subprocess.run(
            [node.binary, FOLDER / "tasks.mjs", packages, url],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr

    assert json.loads(done.stdout) == {
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
