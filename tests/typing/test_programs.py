"""Programs that use the public API run and need no cast. Their types are checked by test_documented.py."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from mcptrio import Server
from tests.typing.programs import asking

__all__: list[str] = []

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RUN = sorted(file.stem for file in HERE.glob("programs/*.py") if file.stem != "asking")
PROGRAMS = [*sorted(HERE.glob("programs/*.py")), *sorted(ROOT.glob("examples/*.py"))]


def check(*files: Path, cache: Path, path: Path = ROOT) -> str:
    """Return what ``mypy --strict`` says of the files, whose modules are also looked for in ``path``."""
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(cache), *map(str, files)]
    env = {**os.environ, "MYPYPATH": str(path)}
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False, env=env)
    return result.stdout + result.stderr


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.name)
def test_no_program_needs_a_cast(program: Path) -> None:
    assert re.findall(r"\bcast\(|type: ignore|pyright: ignore", program.read_text("utf-8")) == []


def test_context_with_a_state_type_is_not_an_argument() -> None:
    server = Server()
    for function in (asking.count_orders, asking.ask_for_values):
        server.add_tool(function)


@pytest.mark.parametrize("name", RUN)
async def test_program_runs(name: str) -> None:
    """Each program asserts what it does itself."""
    program = importlib.import_module(f"tests.typing.programs.{name}")
    with trio.fail_after(60):
        await program.main()
