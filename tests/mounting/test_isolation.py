"""``isolate = true``: a plugin in its own process, with the same names, through the command line."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from mcptrio import Client, Command, Mount, Server, connect
from mcptrio.client import ClientTimeouts
from mcptrio.serving import MountOptions
from tests.distributions import install, one_tool
from tests.mounting.mounted import MOUNTED_PLUGIN, TIMEOUTS, WAIT_TIMEOUT, User, eventually, text
from tests.processes import environment, run

__all__: list[str] = []

NEW, OLD = "2026-07-28", "2025-11-25"

IMPORTED = """
import os
from pathlib import Path
with Path({log!r}).open("a") as file:
    file.write(f"{{os.getpid()}}\\n")
"""


@asynccontextmanager
async def served(
    folder: Path, *args: str, revision: str | None = None, user: User | None = None, **env: str
) -> AsyncIterator[Client]:
    command = Command(
        args=[sys.executable, "-m", "mcptrio", "serve", "--stdio", *args],
        cwd=folder,
        env=environment(**env),
        inherit_env=True,
    )
    with trio.fail_after(WAIT_TIMEOUT):
        handlers = (user or User()).handlers()
        async with connect(command, revision=revision, handlers=handlers, timeouts=TIMEOUTS) as client:
            yield client


async def pid_of_the_next(client: Client) -> str:
    """Return the pid of the next process once it runs: a call waits ten seconds for it, and then reports an error."""

    async def is_there() -> bool:
        return not (await client.call_tool("pid")).is_error

    await eventually(is_there)
    return await text(client, "pid")


@pytest.mark.parametrize(("revision", "how"), [(NEW, "segfault"), (OLD, "kill")])
async def test_isolated_plugin_file_is_served_and_restarted_after_a_crash(
    revision: str, how: str, tmp_path: Path
) -> None:
    (tmp_path / "mcptrio.toml").write_text("[plugins.mounted_plugin]\nisolate = true\n")
    user = User()
    async with served(
        tmp_path, "--plugin", str(MOUNTED_PLUGIN), revision=revision, user=user, SECRET_OF_MINE="here"
    ) as client:
        names = [tool.name for tool in await client.tools().all()]
        reports: list[float] = []
        await client.call_tool("steps", {"count": 3}, progress=lambda it: reports.append(it.progress))
        assert "pair" in names
        assert reports == [1, 2, 3]
        assert await text(client, "order") == "blue 3"
        assert await text(client, "everything") == "accept a-model hi file:///srv/data"
        passed = (await client.call_tool("environment", {"names": ["SECRET_OF_MINE", "HOME"]})).structured_content
        assert passed["SECRET_OF_MINE"] == "here"

        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "hang", {"mark": str(tmp_path / "left")})
            await eventually((tmp_path / "left.began").exists)
            nursery.cancel_scope.cancel()
        await eventually((tmp_path / "left.cancelled").exists)

        before = await text(client, "pid")
        crashed = await client.call_tool("die", {"how": how})
        assert crashed.is_error
        ending = {"segfault": "SIGSEGV", "kill": "SIGKILL"}[how]
        assert str(crashed.content[0].text) == f"mounted_plugin: the plugin's process was ended by {ending}"  # type: ignore[union-attr]
        assert await pid_of_the_next(client) != before


async def test_isolated_installed_plugin_keeps_its_tool_names(tmp_path: Path) -> None:
    """Globs match names with and without the prefix, and only the other process imports the plugin."""
    site, log = tmp_path / "site", tmp_path / "log"
    source = IMPORTED.format(log=str(log)) + "\n" + one_tool("fine") + "\n" + one_tool("other") + "\n" + one_tool("odd")
    install(site, "cli-good", "2.1", modules={"cli_good": source}, good="cli_good")
    (tmp_path / "mcptrio.toml").write_text(
        "[tools]\nexclude = ['other']\n\n[plugins.good]\nisolate = true\ntools.include = ['fine', 'good_other']\n"
    )
    async with served(tmp_path, "--plugin", "good", PYTHONPATH=str(site), MCPTRIO_LOG_FORMAT="json") as client:
        assert [tool.name for tool in await client.tools().all()] == ["good_fine"]

    assert len(log.read_text().split()) == 1


async def test_crashing_isolated_plugin_is_quarantined(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("import ctypes\nctypes.string_at(0)\n")
    (tmp_path / "good.py").write_text(one_tool("fine"))
    (tmp_path / "mcptrio.toml").write_text("[plugins.bad]\nisolate = true\n")
    async with served(tmp_path, "--plugin", "bad.py", "--plugin", "good.py") as client:
        assert [tool.name for tool in await client.tools().all()] == ["fine"]

    ended = run("serve", "--stdio", "--plugin", "bad.py", "--strict", cwd=tmp_path)
    assert ended.returncode == 2
    assert "bad cannot be reached: the server was ended by SIGSEGV" in ended.stderr


async def test_unresponsive_required_mount_is_quarantined_and_others_are_served() -> None:
    silent = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    options = MountOptions(start_timeout=0, required=True, timeouts=ClientTimeouts(connect=0.5))
    server = Server(plugins=[Mount(silent, name="silent", options=options)])
    server.add_tool(fine)
    with trio.fail_after(WAIT_TIMEOUT):
        async with server.open(), connect(server) as client:
            assert await text(client, "fine") == "fine"
            await eventually(lambda: server.status.plugins[0].state == "quarantined")
            assert "silent cannot be reached" in str(server.status.plugins[0].failure)
            assert await text(client, "fine") == "fine"


async def fine() -> str:
    return "fine"


HUNGRY = """
from mcptrio import tool

@tool
async def eat(mebibytes: int) -> int:
    return len(bytearray(mebibytes * 1024 * 1024))

@tool
async def starve() -> None:
    import os, sys
    sys.stderr.write("MemoryError\\n")
    sys.stderr.flush()
    os._exit(1)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
async def test_memory_of_an_isolated_plugin_is_limited(tmp_path: Path) -> None:
    (tmp_path / "hungry.py").write_text(HUNGRY)
    (tmp_path / "mcptrio.toml").write_text("[plugins.hungry]\nisolate = true\nmax_memory_mb = 256\n")
    async with served(tmp_path, "--plugin", "hungry.py") as client:
        await eventually(lambda: has_tool(client, "eat"))
        assert await text(client, "eat", mebibytes=50) == str(50 * 1024 * 1024)
        assert (await client.call_tool("eat", {"mebibytes": 300})).is_error
        assert await text(client, "eat", mebibytes=50) == str(50 * 1024 * 1024)
        starved = await client.call_tool("starve")
        assert "the plugin's process ended with exit code 1 (out of memory: max_memory_mb)" in str(starved.content)


async def has_tool(client: Client, name: str) -> bool:
    return name in [tool.name for tool in await client.tools().all()]


def test_memory_limit_without_isolation_is_refused(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(one_tool("fine"))
    (tmp_path / "mcptrio.toml").write_text("[plugins.good]\nmax_memory_mb = 256\n")
    ended = run("serve", "--stdio", "--strict", "--plugin", "good.py", cwd=tmp_path)

    assert ended.returncode != 0
    assert "max_memory_mb: expected isolate = true too" in ended.stderr


def test_list_of_plugins_shows_isolation(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("raise RuntimeError('imported')\n")
    (tmp_path / "mcptrio.toml").write_text("[plugins.bad]\nisolate = true\n")

    listed = run("plugins", "--plugin", "bad.py", cwd=tmp_path)

    assert listed.returncode == 0
    assert "loaded, isolated" in listed.stdout
    assert "\nnot counted, since they run in separate processes: bad\n" in listed.stdout
    assert "imported" not in listed.stdout
    assert "bad: its process is not started here: mcptrio plugins show lists what it has" in listed.stdout


async def test_plugin_can_be_isolated_by_environment_variable(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "import os\nfrom mcptrio import tool\n@tool\nasync def parent() -> int:\n    return os.getppid()\n"
        "@tool\nasync def own() -> int:\n    return os.getpid()\n"
    )
    async with served(tmp_path, "--plugin", "own.py", MCPTRIO_OWN_ISOLATE="true") as client:
        isolated = await text(client, "own"), await text(client, "parent")
    async with served(tmp_path, "--plugin", "own.py") as client:
        plain = await text(client, "own"), await text(client, "parent")

    import os

    assert isolated[1] != str(os.getpid())
    assert plain[1] == str(os.getpid())
