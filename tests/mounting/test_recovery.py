"""A mounted server starts late, changes, crashes, returns or stops when idle: the effects on calls."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import trio
from attrs import evolve

from mcptrio import Client, Command, ConfigError, ConnectionClosed, Mount, Server, connect
from mcptrio.client import Change, ClientTimeouts
from mcptrio.protocol.model.tools import CallToolResult
from mcptrio.serving import MountOptions, MountStatus, memory_channel_pair
from tests.mounting.mounted import MOUNTED_PLUGIN, WAIT_TIMEOUT, WAITING, command, eventually, mounted, text

__all__: list[str] = []

NEW, OLD = "2026-07-28", "2025-11-25"


@pytest.mark.parametrize("how", ["kill", "segfault", "exit"])
async def test_crash_fails_the_calls_in_flight_and_the_server_restarts(how: str, tmp_path: Path) -> None:
    results: list[CallToolResult] = []

    async with mounted() as (client, mount, _):
        before = await text(client, "up_pid")

        async def hang() -> None:
            results.append(await client.call_tool("up_hang", {"mark": str(tmp_path / "a")}))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(hang)
            await eventually((tmp_path / "a.began").exists)
            results.append(await client.call_tool("up_die", {"how": how}))
        after = await text(client, "up_pid")
        names = [tool.name for tool in await client.tools().all()]
        assert (mount.status.state, mount.status.reason) == ("ready", None)

    assert len(results) == 2
    for result in results:
        assert result.is_error
        content = str(result.content)
        assert "up: the server" in content
        assert {"kill": "SIGKILL", "segfault": "SIGSEGV", "exit": "exit code 3"}[how] in content
    assert before != after
    assert "up_pid" in names


async def test_tools_of_a_disconnected_server_report_it(tmp_path: Path) -> None:
    (tmp_path / "mounted_plugin.py").write_text(MOUNTED_PLUGIN.read_text())
    options = evolve(WAITING, ready_timeout=0.2)
    async with mounted(command(tmp_path / "mounted_plugin.py"), options=options) as (client, mount, _):
        (tmp_path / "mounted_plugin.py").unlink()
        await client.call_tool("up_die", {"how": "kill"})
        away = await client.call_tool("up_pid")
        assert away.is_error
        assert "up is not connected" in str(away.content)
        assert mount.status.state in ("disconnected", "starting")

        (tmp_path / "mounted_plugin.py").write_text(MOUNTED_PLUGIN.read_text())

        async def is_back() -> bool:
            return not (await client.call_tool("up_pid")).is_error

        await eventually(is_back)
        assert mount.status.state == "ready"


@pytest.mark.parametrize("upstream", [NEW, OLD])
@pytest.mark.parametrize("revision", [NEW, OLD])
async def test_changes_of_lists_and_resources_are_forwarded(upstream: str, revision: str) -> None:
    async with mounted(upstream=upstream, revision=revision) as (client, _, _):
        async with client.subscribe(["count://up"], tools=True) as changes:
            await client.call_tool("up_grow")
            assert (await anext(changes)).kind == "tools"
            assert await text(client, "up_grown") == "grown"
            await client.call_tool("up_shrink")
            assert (await anext(changes)).kind == "tools"
            assert "up_grown" not in [tool.name for tool in await client.tools().all()]

            async def is_notified() -> bool:
                # The mount subscribes to the mounted server shortly after the client subscribes.
                await client.call_tool("up_rise")
                with trio.move_on_after(0.2):
                    return (await anext(changes)).uri == "count://up"
                return False

            await eventually(is_notified)


async def test_changes_of_resources_are_notified_after_a_server_restart() -> None:
    """Changes during the restart, when there was no subscription, are reported too."""
    async with mounted() as (client, mount, _):
        async with client.subscribe(["count://up"]) as changes:
            await eventually(partial(rises, client, changes))
            mount.restart()
            await anext(changes)
            await eventually(partial(rises, client, changes))


async def test_resource_changes_are_forwarded_after_a_late_first_start(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    late = Command(args=["sh", "-c", f"[ -e {shlex.quote(str(gate))} ] && exec {shlex.join(command().args)}"])
    async with mounted(late, options=evolve(WAITING, start_timeout=0)) as (client, mount, _):
        await eventually(lambda: mount.status.state == "disconnected")
        gate.touch()
        mount.restart()
        await mount.until_listed()
        async with client.subscribe(["count://up"]) as changes:
            await eventually(partial(rises, client, changes))


async def rises(client: Client, changes: AsyncIterator[Change]) -> bool:
    """Return whether a change is reported. The mount subscribes shortly after the client."""
    await client.call_tool("up_rise")
    with trio.move_on_after(0.2):
        return (await anext(changes)).uri == "count://up"
    return False


async def test_slow_start_of_a_mounted_server_does_not_delay_the_server(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    until_open = f"until [ -e {shlex.quote(str(gate))} ]; do sleep 0.05; done"
    slow = Command(args=["sh", "-c", f"{until_open}; exec {shlex.join(command().args)}"])
    # A task that waits for the connection would wait longer than the test.
    options = evolve(
        WAITING, start_timeout=0.1, timeouts=ClientTimeouts(connect=10 * WAIT_TIMEOUT, probe=10 * WAIT_TIMEOUT)
    )
    with trio.fail_after(WAIT_TIMEOUT):
        server = Server(plugins=[Mount(slow, name="up", options=options)])
        async with server.open():
            async with connect(server) as client, client.subscribe(tools=True) as changes:
                assert client.capabilities.tools is not None
                assert await client.tools().all() == ()
                gate.touch()
                await anext(changes)
                assert await text(client, "up_pid")


async def test_unreachable_required_mount_is_quarantined() -> None:
    missing = Mount(["/no/such/program"], name="up", options=MountOptions(required=True))
    other = Mount(command(), name="other", options=WAITING)
    with trio.fail_after(WAIT_TIMEOUT):
        server = Server(plugins=[missing, other])
        async with server.open():
            [up, _] = server.status.plugins
            assert up.state == "quarantined"
            assert "up cannot be reached" in str(up.failure)
            async with connect(server) as client:
                assert await text(client, "other_pid")


async def test_idle_mounted_server_is_stopped_and_restarted_on_demand() -> None:
    async with mounted(options=evolve(WAITING, idle_timeout=0.2)) as (client, mount, _):
        before = await text(client, "up_pid")
        # On a slow machine it may already have been stopped before that call.
        starts = mount.status.starts
        await eventually(lambda: mount.status.state == "stopped")
        assert "up_pid" in [tool.name for tool in await client.tools().all()]
        assert mount.status.starts == starts
        after = await text(client, "up_pid")

        assert before != after
        assert mount.status.starts == starts + 1


async def test_lazy_mount_is_started_for_its_lists_and_for_calls() -> None:
    async with mounted(options=evolve(WAITING, lazy=True)) as (client, mount, _):
        await eventually(lambda: mount.status.state == "stopped")
        assert "up_pid" in [tool.name for tool in await client.tools().all()]
        first, second = await text(client, "up_pid"), await text(client, "up_pid")

        assert first == second
        assert (mount.status.state, mount.status.starts) == ("ready", 2)


async def test_restart_fails_calls_in_flight_and_starts_a_new_process(tmp_path: Path) -> None:
    async with mounted() as (client, mount, _):
        before = await text(client, "up_pid")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "up_hang", {"mark": str(tmp_path / "a")})
            await eventually((tmp_path / "a.began").exists)
            mount.restart()
        after = await text(client, "up_pid")

        assert before != after
        assert mount.status.starts == 2


async def test_mount_can_be_disabled_and_enabled() -> None:
    async with mounted() as (client, _, server):
        await server.disable_plugin("up")
        assert await client.tools().all() == ()
        await server.enable_plugin("up")
        assert await text(client, "up_pid")


async def test_name_of_the_first_mount_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    options = evolve(WAITING, prefix="")
    mounts = [Mount(command(), name="one", options=options), Mount(command(), name="two", options=options)]
    with trio.fail_after(WAIT_TIMEOUT):
        server = Server(plugins=mounts)
        async with server.open(), connect(server) as client:
            names = [tool.name for tool in await client.tools().all()]
            [one, two] = server.status.plugins

    assert len(names) == len(set(names))
    assert "tools" in one.offers
    assert "tools" not in two.offers
    assert "two: tool 'pair' is not offered" in caplog.text
    assert "two: resource 'bytes://all' is not offered" in caplog.text


async def test_mount_of_a_closed_server_reports_closed() -> None:
    mount = Mount(["some-server", "--token", "hidden"])

    assert mount.status == MountStatus(state="closed", where="some-server")
    assert mount.name == "some-server"
    with pytest.raises(ConnectionClosed, match="not open"):
        mount.restart()
    with pytest.raises(ConnectionClosed, match="not open"):
        await mount.until_listed()


def test_target_that_can_be_opened_only_once_is_refused() -> None:
    ours, _ = memory_channel_pair()

    with pytest.raises(ConfigError, match="connected to again"):
        Mount(ours)
