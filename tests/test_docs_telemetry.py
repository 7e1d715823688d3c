"""The commands and programs of docs/telemetry.md work, and its names are those of the code."""

from __future__ import annotations

import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from mcptrio.abc.tracing import TRACING
from mcptrio.serve.config import load_config
from mcptrio.telemetry import uninstrument
from mcptrio.telemetry.instruments import INSTRUMENTS
from tests.processes import environment
from tests.telemetry.collector import collecting

__all__: list[str] = []

PAGE = Path(__file__).resolve().parent.parent / "docs" / "telemetry.md"
TEXT = PAGE.read_text("utf-8")
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines()]


@pytest.mark.parametrize("line", [line for line in COMMANDS if "mcptrio serve --stdio" in line])
def test_command_serves_until_its_input_ends(line: str, tmp_path: Path) -> None:
    with collecting() as collector, socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        line = line.replace("http://localhost:4318", collector.url).replace("9464", str(sock.getsockname()[1]))
        sock.close()
        words = shlex.split(line)
        variables = dict(word.split("=", 1) for word in words[: words.index("mcptrio")])
        command = [sys.executable, "-m", *words[words.index("mcptrio") :]]
        ended = subprocess.run(
            command, input=b"", capture_output=True, cwd=tmp_path, env=environment(**variables), timeout=60
        )

    assert ended.returncode == 0, ended.stderr


def test_program_traces_its_process() -> None:
    [program] = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    try:
        exec(compile(program, str(PAGE), "exec"), {})
        assert TRACING.tracer is not None
    finally:
        uninstrument()


def test_configuration_is_read(tmp_path: Path) -> None:
    [table] = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    (tmp_path / "mcptrio.toml").write_text(table)

    assert load_config(tmp_path / "mcptrio.toml").telemetry.endpoint == "http://localhost:4318"


def test_every_metric_is_in_the_table() -> None:
    shown = set(re.findall(r"`(mcp[\w.]+)`", TEXT.split("## Metrics")[1].split("## Request lines")[0]))

    assert {each.name for each in INSTRUMENTS} <= shown
