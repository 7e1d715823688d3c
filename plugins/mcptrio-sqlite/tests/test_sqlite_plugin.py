"""The installed plugin, over every transport."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mcptrio_sqlite
import pytest
import trio

from mcptrio.errors import PluginError
from mcptrio.testing import Case, ServerSpec, open_served


@pytest.mark.parametrize("transport", ["memory", "stdio", "http"])
async def test_plugin_is_found_and_configured(shop: Path, transport: str) -> None:
    spec = ServerSpec(plugins=["sqlite"], config={"sqlite": {"databases": {"shop": str(shop)}, "max_rows": 2}})
    with trio.fail_after(60):
        async with open_served(spec, Case(transport=transport)) as served, served.connect() as client:
            [tool] = [tool.name async for tool in client.tools() if tool.name.endswith("read_query")]
            result = await client.call_tool(tool, {"query": "SELECT name FROM customers ORDER BY id"})

    assert result.structured_content["items"] == [["Ada"], ["Bob"]]
    assert result.structured_content["truncated"]


async def test_definitions_take_few_tokens(sqlite_client: Any, check_tokens: Any) -> None:
    async with sqlite_client(writable=("shop",)) as client:
        await check_tokens(client, 1232)


async def test_invalid_setting_is_reported() -> None:
    spec = ServerSpec(plugins=["sqlite"], config={"sqlite": {"writable": ["none"]}})
    with pytest.raises(PluginError, match=r"plugins\.sqlite\.writable: expected the name of a database"):
        async with open_served(spec):
            pass


async def test_missing_folder_and_file_are_logged_at_the_start(
    shop: Path, tmp_path: Path, heard: trio.MemoryReceiveChannel[str]
) -> None:
    databases = {
        "shop": shop,
        "gone": tmp_path / "gone.db",
        "new": tmp_path / "new.db",
        "lost": tmp_path / "no" / "l.db",
    }
    config = {
        "folder": str(tmp_path / "nowhere"),
        "databases": {name: str(path) for name, path in databases.items()},
        "writable": ["new", "lost"],
    }
    with trio.fail_after(60):
        async with open_served(ServerSpec(plugins=["sqlite"], config={"sqlite": config})):
            messages = [await heard.receive() for _ in range(3)]

    assert messages == [
        f"folder of [plugins.sqlite]: there is no directory {tmp_path}/nowhere; create it or correct the setting",
        f"databases.gone of [plugins.sqlite]: {tmp_path}/gone.db does not exist; create it or correct the setting",
        f"databases.lost of [plugins.sqlite]: {tmp_path}/no does not exist; create it or correct the setting",
    ]


def test_doctor_reports_a_missing_file(tmp_path: Path) -> None:
    [problem] = mcptrio_sqlite.doctor(mcptrio_sqlite.Config(databases={"gone": tmp_path / "gone.db"}))

    assert problem.startswith("databases.gone of [plugins.sqlite]: ")
