"""``mcptrio run``, and the text that a server on standard input shows at a terminal."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.processes import PLUGIN, at_terminal, run
from tests.distributions import one_tool
from tests.processes import HELLO, line, serving

__all__: list[str] = []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "garden.py").write_text(one_tool("water"))
    return tmp_path


def test_run_on_pipes_writes_only_protocol_messages(folder: Path) -> None:
    result = run("run", "garden.py", "--log-level=warning", cwd=folder, stdin=line(HELLO))

    assert (result.returncode, result.stderr) == (0, b"")
    assert json.loads(result.stdout)["result"]["serverInfo"]["name"] == "mcptrio"


def test_run_over_http(folder: Path) -> None:
    command = [sys.executable, "-m", "mcptrio", "run", "garden.py", "--http", "--port=0"]
    with serving(cwd=folder, command=command) as served:
        assert served.port > 0


@pytest.mark.parametrize("args", [("run", str(PLUGIN)), ("serve", "--stdio", "--plugin", str(PLUGIN))])
def test_stdio_server_at_a_terminal_shows_how_to_connect(folder: Path, args: tuple[str, ...]) -> None:
    with at_terminal(*args, cwd=folder) as terminal:
        terminal.until("Serve HTTP instead\n.*--http")
        text = terminal.shown

    assert "MCP server on standard input and output" in text
    assert str(PLUGIN) in text
    assert "mcptrio list -- mcptrio" in text


@pytest.mark.parametrize("command", ["serve", "dev"])
def test_file_without_plugin_option_error_shows_the_command(folder: Path, command: str) -> None:
    result = run(command, "--stdio", "garden.py", cwd=folder)

    assert result.returncode == 2
    assert b"unexpected argument garden.py: pass --plugin garden.py" in result.stderr


def test_port_without_http_is_refused(folder: Path) -> None:
    result = run("run", "garden.py", "--port=1", cwd=folder)

    assert result.returncode == 2
    assert b"expected --http with --host and --port" in result.stderr


PROGRAM = """
from mcptrio import run, tool

@tool
async def dig() -> str:
    return "dug"

if __name__ == "__main__":
    run()
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "allotment.py"
    path.write_text(PROGRAM)
    return path


def test_program_serves_its_own_plugins(program: Path) -> None:
    with serving(cwd=program.parent, command=[sys.executable, program.name]) as served:
        served.greet()
        assert served.call("dig") == "dug"


def test_program_serves_over_http(program: Path) -> None:
    with serving(cwd=program.parent, command=[sys.executable, program.name, "--http", "--port=0"]) as served:
        assert served.port > 0


def test_program_reads_the_settings_of_its_folder(program: Path) -> None:
    (program.parent / "mcptrio.toml").write_text("[plugins.allotment]\nprefix = 'plot'\n")
    with serving(cwd=program.parent, command=[sys.executable, program.name]) as served:
        served.greet()
        assert served.call("plot_dig") == "dug"


def test_program_refuses_names_of_plugins(program: Path) -> None:
    result = subprocess.run(
        [sys.executable, program.name, "fs"], cwd=program.parent, capture_output=True, timeout=60, check=False
    )

    assert result.returncode == 2
    assert b"expected no plugins, since the program names its own, got fs" in result.stderr
    assert b"Usage: allotment.py" in result.stderr


def test_program_that_is_loaded_as_a_plugin_is_told_where_to_call_run(tmp_path: Path) -> None:
    (tmp_path / "garden.py").write_text(f"import mcptrio\n{one_tool('water')}\nmcptrio.run()\n")
    result = run("list", "--plugin", "garden.py", cwd=tmp_path)

    assert result.returncode == 2
    assert b'mcptrio.run() was called at import: write it below `if __name__ == "__main__":`' in result.stderr
