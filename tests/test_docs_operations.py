"""docs/operations.md: its commands run unchanged, with a server that was started as the page describes.

As in docs/commands.md, ``$`` begins a command, its output follows, and ``…`` matches anything.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.processes import environment, serving
from tests.test_readme import blocks_of

__all__: list[str] = []

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "operations.md").read_text("utf-8")
BLOCKS = list(blocks_of(PAGE, "docs/operations.md"))
SCRIPTS = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def test_commands_print_the_output_on_the_page(tmp_path: Path) -> None:
    [plugin] = [block.text for block in BLOCKS if block.language == "python"]
    [configuration] = [block.text for block in BLOCKS if block.language == "toml"]
    [serve] = [block.text for block in BLOCKS if block.language == "sh"]
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
            done = subprocess.run(
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

            assert re.fullmatch(re.escape(expected).replace("…", r"[\s\S]*"), done.stdout.rstrip("\n")), done.stdout
        assert '"logger": "mcptrio.' in server.stderr
