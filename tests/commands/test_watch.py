"""``watch``: changes as lines, up to a number of them or Ctrl-C."""

from __future__ import annotations

import json
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.processes import PLUGIN, run, started
from tests.distributions import one_tool
from tests.processes import WAIT_TIMEOUT, serving

__all__: list[str] = []


def line_of(process: subprocess.Popen[bytes], *, err: bool = False) -> bytes:
    """Return its next line."""
    pipe = process.stderr if err else process.stdout
    assert pipe is not None
    assert select.select([pipe], [], [], WAIT_TIMEOUT)[0], "nothing came"
    return pipe.readline()


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_resource_changes_are_printed(tmp_path: Path, revision: str) -> None:
    with serving("--http", "--port=0", "--plugin", str(PLUGIN), cwd=tmp_path) as served:
        url = f"http://127.0.0.1:{served.port}/mcp"
        with started("watch", url, "note://1", "--count", "1", "--revision", revision, cwd=tmp_path) as watching:
            assert line_of(watching, err=True) == b"watching\n"
            for uri in ("note://2", "note://1"):
                assert run("call", url, "touch", f"uri={uri}", cwd=tmp_path).returncode == 0

            assert line_of(watching) == b"resource note://1\n"
            assert watching.wait(WAIT_TIMEOUT) == 0


def test_list_changes_are_printed_as_json_until_ctrl_c(tmp_path: Path) -> None:
    with serving("--http", "--port=0", "--plugin", "everything", cwd=tmp_path) as served:
        url = f"http://127.0.0.1:{served.port}/mcp"
        with started("watch", url, "--json", cwd=tmp_path) as watching:
            assert line_of(watching, err=True) == b"watching\n"
            assert run("call", url, "test_trigger_tool_change", cwd=tmp_path).returncode == 0
            assert json.loads(line_of(watching)) == {"kind": "tools"}
            watching.send_signal(signal.SIGINT)

            assert watching.wait(WAIT_TIMEOUT) == 130


CHANGING = """
from mcptrio import Context, tool


async def brew(cups: int) -> str:
    'Brew tea.'
    return 'tea'


async def pour(cups: str, slowly: bool = False) -> str:
    'Brew tea and pour it.'
    return 'tea'


@tool
async def take(ctx: Context, name: str) -> str:
    ctx.server.remove_tool(name)
    return 'gone'


@tool
async def give(ctx: Context, name: str) -> str:
    ctx.server.add_tool(brew, name=name)
    return 'there'


@tool
async def swap(ctx: Context, name: str) -> str:
    ctx.server.remove_tool(name)
    ctx.server.add_tool(pour, name=name)
    return 'other'
"""


def test_changed_entries_of_a_list_are_printed(tmp_path: Path) -> None:
    (tmp_path / "changing.py").write_text(CHANGING)
    with serving("--http", "--port=0", "--plugin", "changing.py", cwd=tmp_path) as served:
        url = f"http://127.0.0.1:{served.port}/mcp"
        with started("watch", url, "tools", cwd=tmp_path) as watching:
            assert line_of(watching, err=True) == b"watching\n"
            assert run("call", url, "give", "name=tea", cwd=tmp_path).returncode == 0
            assert line_of(watching) == b"tools: added tea\n"
            assert run("call", url, "swap", "name=tea", cwd=tmp_path).returncode == 0
            assert line_of(watching) == b"tools: changed tea (arguments +slowly cups, description)\n"
            assert run("call", url, "take", "name=tea", cwd=tmp_path).returncode == 0
            assert line_of(watching) == b"tools: removed tea\n"


def test_watch_without_notifications_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "answers.json").write_text("{}")
    odd = run(
        "watch", "--", sys.executable, str(Path(__file__).parent / "canned_server.py"), "answers.json", cwd=tmp_path
    )
    (tmp_path / "bare.py").write_text(one_tool("bare"))
    bare = run("watch", "--plugin", "bare.py", "prompts", cwd=tmp_path)

    assert (odd.returncode, bare.returncode) == (2, 2)
    assert odd.stderr == b"mcptrio: the server has no subscriptions to its lists; pass the URI of a resource to watch\n"
    assert bare.stderr == b"mcptrio: the server has no subscriptions to the list of prompts\n"
