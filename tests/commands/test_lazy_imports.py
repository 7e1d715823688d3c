"""A command is imported when it runs: the main help imports none, and serving does not import the client."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mcptrio.cli.group import COMMANDS, cli
from tests.commands.processes import run
from tests.processes import line

__all__: list[str] = []

LOADED = "import json, sys\nsys.stderr.write(json.dumps(sorted(sys.modules)))"
RUN = """
import sys
from mcptrio.cli import main
sys.argv = ["mcptrio", *{}]
try:
    main()
except SystemExit:
    pass
"""


def loaded(code: str, tmp_path: Path, stdin: bytes = b"") -> set[str]:
    result = subprocess.run(
        [sys.executable, "-c", f"{code}\n{LOADED}"],
        cwd=tmp_path,
        input=stdin,
        capture_output=True,
        check=True,
        timeout=60,
    )
    return set(json.loads(result.stderr.splitlines()[-1]))


@pytest.mark.parametrize("name", COMMANDS)
def test_command_summary_matches_its_own_help(name: str) -> None:
    command = cli.commands[name]
    first = " ".join((command.help or "").split("\n\n")[0].split())

    assert command.name == name
    assert first.startswith(COMMANDS[name].removesuffix(".")), first


def test_main_help_imports_no_command(tmp_path: Path) -> None:
    modules = loaded(RUN.format(["--help"]), tmp_path)
    text = " ".join(run("--help", cwd=tmp_path).stdout.decode().split())

    assert not [name for name in modules if name.startswith(("mcptrio.client", "trio"))]
    assert {name for name in modules if name.startswith("mcptrio.cli.")} == {
        "mcptrio.cli.group",
        "mcptrio.cli.help_pages",
    }
    for name, help in COMMANDS.items():
        assert f" {name} {help}" in text


def test_serving_does_not_import_the_client(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from mcptrio import tool\n\n\n@tool\nasync def a() -> str:\n    'A.'\n    return ''\n"
    )
    modules = loaded(
        RUN.format(["serve", "--stdio", "--plugin", "own.py"]),
        tmp_path,
        stdin=line({"jsonrpc": "2.0", "id": 1, "method": "ping"}),
    )
    ours = {name for name in modules if name.startswith("mcptrio.")}

    assert "mcptrio.cli.serve" in ours
    assert {name for name in ours if name.startswith("mcptrio.cli.")} == {
        "mcptrio.cli.group",
        "mcptrio.cli.help_pages",
        "mcptrio.cli.param_types",
        "mcptrio.cli.serve",
        "mcptrio.cli.server",
        "mcptrio.cli.server.auth",
        "mcptrio.cli.server.serve_settings",
        "mcptrio.cli.server.shared_stores",
        "mcptrio.cli.server.config_options",
        "mcptrio.cli.server.plugin_server",
        "mcptrio.cli.server.log_output",
        # The styles of lines in the log.
        "mcptrio.cli.terminal",
        "mcptrio.cli.terminal.layout",
        "mcptrio.cli.terminal.text_width",
    }
    assert not [
        name
        for name in ours
        if name.startswith(("mcptrio.client", "mcptrio.connecting.targets", "mcptrio.connecting.mcp_json"))
    ]


def test_unknown_command_is_refused(tmp_path: Path) -> None:
    result = run("cal", cwd=tmp_path)

    assert (result.returncode, result.stdout) == (2, b"")
    assert b"No such command 'cal'" in result.stderr
