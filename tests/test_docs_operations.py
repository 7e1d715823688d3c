"""docs/operations.md: its commands run unchanged, with a server that was started as the page describes.

As in docs/commands.md, ``$`` begins a command, its output follows, and ``…`` matches anything.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

from mcptrio import Server
from tests.processes import environment, run, serving
from tests.test_readme import blocks_of

__all__: list[str] = []

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "operations.md").read_text("utf-8")
BLOCKS = list(blocks_of(PAGE, "docs/operations.md"))
SCRIPTS = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def toml(start: str) -> str:
    [text] = [block.text for block in BLOCKS if block.language == "toml" and block.text.startswith(start)]
    return text


def test_commands_print_the_output_on_the_page(tmp_path: Path) -> None:
    [plugin] = [block.text for block in BLOCKS if block.text.startswith("# garden.py")]
    configuration = toml("[server]\n")
    [serve] = [block.text for block in BLOCKS if "serve" in block.text and block.language == "sh"]
    examples = [block for block in BLOCKS if block.language == "console"]
    (tmp_path / "garden.py").write_text(plugin)
    (tmp_path / "mcptrio.toml").write_text(configuration)

    assert len(examples) == 3
    # The default port may be in use on this machine.
    env = {"PATH": SCRIPTS, "MCPTRIO_HTTP_PORT": "0"}
    with serving(command=["bash", "-c", serve], cwd=tmp_path, env=env) as server:
        port = server.until(r'"serving http://[^/]+:(\d+)/mcp"')[1]
        for block in examples:
            text = block.text.replace("127.0.0.1:8000", f"127.0.0.1:{port}")
            commands = re.findall(r"^\$ (.*)$", text, re.MULTILINE)
            expected = "\n".join(line for line in text.splitlines() if not line.startswith("$ "))
            result = subprocess.run(
                [
                    "bash",
                    "-c",
                    "exec 2>&1\n" + "\n".join(each.replace("curl -s", "curl -sw '\\n'") for each in commands),
                ],
                cwd=tmp_path,
                env=environment(PATH=SCRIPTS),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=180,
                check=False,
            )

            assert re.fullmatch(re.escape(expected).replace("…", r"[\s\S]*"), result.stdout.rstrip("\n")), result.stdout
        assert '"logger": "mcptrio.' in server.stderr


def test_tables_of_tools_withhold_tools(tmp_path: Path) -> None:
    (tmp_path / "mcptrio.toml").write_text(toml("[tools]\n"))
    result = run("plugins", "--plugin=git", "--json", cwd=tmp_path)
    [git] = [plugin for plugin in json.loads(result.stdout)["plugins"] if plugin["name"] == "git"]

    assert "git_status" in git["offers"]["tools"]
    assert {"git_show", "git_commit"} <= set(git["withheld"])


def test_tables_of_limits_and_records_are_accepted(tmp_path: Path) -> None:
    (tmp_path / "mcptrio.toml").write_text(toml("[plugins.rate_limit]\n"))
    result = run("plugins", "--no-plugin=authserver", "--json", cwd=tmp_path)
    states = {plugin["name"]: plugin["state"] for plugin in json.loads(result.stdout)["plugins"]}

    assert (states["rate_limit"], states["audit_log"]) == ("loaded", "loaded")


async def test_program_starts_and_removes_a_plugin() -> None:
    [program] = [block for block in BLOCKS if "enable_plugin" in block.text and block.language == "python"]
    module = ModuleType("shown")
    exec(compile(program.text, program.where, "exec"), module.__dict__)
    plugin = ModuleType("plugin")
    exec("from mcptrio import tool\n\n@tool\nasync def area() -> None: ...", plugin.__dict__)
    server = Server(plugins=[plugin])
    async with server.open():
        await module.remove(server, "plugin")
        assert [each.state for each in server.status.plugins] == ["disabled"]
        assert await module.retry(server, "plugin") is None
        assert [each.state for each in server.status.plugins] == ["running"]


def test_every_program_and_configuration_is_used() -> None:
    """The commands of a ``sh`` block are compared with the options by test_readme.py."""
    languages = [block.language for block in BLOCKS if block.language not in ("console", "sh")]

    assert sorted(languages) == ["python", "python", "toml", "toml", "toml"]
