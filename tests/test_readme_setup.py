"""The README's command that sets everything up and serves files: a clone, one line, and a client reads a file.

Runs that block of README.md in a copy of what git sees, in bash. Then the official Python SDK lists the tools and reads
a file, over HTTP and, from the same installation, over stdio. Slow: pip installs.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes import Served, serving

__all__: list[str] = []

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
INSTALL_SECONDS = 300.0
"""Seconds to build three wheels and fetch their dependencies; usually 15 to 60 s."""

CLIENT = """
import json, sys
import anyio
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

async def main(where, path):
    if isinstance(where, str):
        transport = streamable_http_client(where)
    else:
        transport = StdioServerParameters(command=where["command"], args=where["args"], env=where["env"])
    async with Client(transport, read_timeout_seconds=60) as client:
        tools = await client.list_tools()
        read = await client.call_tool("fs_read_text_file", {"path": path})
        print(json.dumps({
            "server": client.server_info.name,
            "tools": [tool.name for tool in tools.tools],
            "error": read.is_error,
            "text": read.content[0].text,
        }))

anyio.run(main, json.loads(sys.argv[1]), sys.argv[2])
"""


def copied_command() -> str:
    """Return the command that a reader copies."""
    blocks = [block.partition("```")[0] for block in README.read_text("utf-8").split("```sh\n")[1:]]
    [command] = [block for block in blocks if "serve --http --plugin fs" in block]
    return command


def copy_of_the_tree(target: Path) -> Path:
    """Copy the files that git knows, as a clone would, including changes that are not committed."""
    if not (ROOT / ".git").exists():
        # Not a clone, but an archive of one, or a copy.
        left_out = shutil.ignore_patterns(".venv*", ".cache", ".*_cache", ".hypothesis", "__pycache__", "*.egg-info")
        return Path(shutil.copytree(ROOT, target, ignore=left_out, dirs_exist_ok=True))
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)
    return target


def path_variable() -> str:
    """Return this process's PATH with the base Python of the tests first.

    The virtual environment of the tests is left out, because a reader has none yet.
    """
    base = Path(sys.base_prefix, "bin")
    others = [part for part in os.environ["PATH"].split(os.pathsep) if Path(part) != Path(sys.prefix, "bin")]
    return os.pathsep.join([str(base), *others])


def server_process_of(served: Served) -> int:
    """Return the id of the process that serves: the shell, or a child of the shell."""
    shell = served.process.pid
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((directory / "stat").read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        if parent == shell:
            return int(directory.name)
    return shell


def look(where: Any, path: Path) -> dict[str, Any]:
    """Return the client's view: the tools, and the text of a file."""
    result = subprocess.run(
        [sys.executable, "-c", CLIENT, json.dumps(where), str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    seen: dict[str, Any] = json.loads(result.stdout)
    return seen


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_of_the_tree(tmp_path_factory.mktemp("clone"))


@pytest.fixture(scope="module")
def served(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    command = ["bash", "-c", copied_command()]
    # Not in the tree, whose files the server offers.
    logs = tmp_path_factory.mktemp("logs")
    # The command is unchanged, but its default port may be in use on this machine.
    env = {
        "MCPTRIO_HTTP_PORT": "0",
        "MCPTRIO_SERVER_TIMEOUTS_SHUTDOWN": "600",
        "VIRTUAL_ENV": "",
        "PYTHONPATH": "",
        "PATH": path_variable(),
    }
    with serving(command=command, cwd=tree, logs=logs, env=env) as served:
        served.until("(?m)^serving http://", INSTALL_SECONDS)
        yield served


def test_client_reads_a_file_over_http(tree: Path, served: Served) -> None:
    seen = look(f"http://127.0.0.1:{served.port}/mcp", tree / "LICENSE")

    assert seen["server"] == "mcptrio"
    assert {"fs_read_text_file", "fs_list_directory", "fs_search_files"} <= set(seen["tools"])
    assert not seen["error"]
    assert seen["text"] == (ROOT / "LICENSE").read_text()


def test_file_outside_the_folder_is_not_served(tree: Path, served: Served) -> None:
    seen = look(f"http://127.0.0.1:{served.port}/mcp", Path("/etc/hostname"))

    assert seen["error"]


def test_same_installation_serves_a_client_over_stdio(tree: Path, served: Served) -> None:
    """Uses the ``mcpServers`` entry of docs/hosts.md."""
    settings = (ROOT / "docs" / "hosts.md").read_text("utf-8").split("```json\n")[1].partition("```")[0]
    [server] = json.loads(settings)["mcpServers"].values()
    server["command"] = server["command"].replace("/path/to", str(tree))
    server["env"] = {name: value.replace("/path/to/folder", str(tree)) for name, value in server["env"].items()}
    seen = look(server, tree / "plugins" / "mcptrio-fs" / "pyproject.toml")

    assert "fs_read_text_file" in seen["tools"]
    assert seen["text"] == (ROOT / "plugins" / "mcptrio-fs" / "pyproject.toml").read_text()


def test_server_of_the_readme_ends_on_a_signal(served: Served) -> None:
    """The last test of this file, because all tests share the server."""
    os.kill(server_process_of(served), signal.SIGTERM)
    # At once: a tenth of what requests in flight would get.
    code, _ = served.end()

    assert code == 0
    assert served.rest() == []
    assert 'File "' not in served.stderr
