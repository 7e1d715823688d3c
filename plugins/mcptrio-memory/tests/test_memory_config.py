"""The settings, as the loader reads them."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import mcptrio_memory
import pytest
from mcptrio_memory import Config

from mcptrio import Server, connect
from mcptrio.errors import PluginError
from mcptrio.plugins.settings import PluginTables
from mcptrio.serving import ServerSettings


def server(settings: dict[str, Any]) -> Server:
    return Server(plugins=[mcptrio_memory], config={"mcptrio_memory": settings}, settings=ServerSettings(strict=True))


async def test_table_is_converted_to_the_settings(file: Path) -> None:
    settings = {"file": str(file), "namespaces": ["home"], "read_only": True, "busy_timeout": 3}
    served = server(settings)
    async with served.open(), connect(served) as client:
        tools = {tool.name async for tool in client.tools()}
        result = await client.call_tool("read_graph", {"namespace": "home"})

    # In the configured file, or the resource would not exist.
    sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True).close()
    assert "create_entities" not in tools
    assert not result.is_error


@pytest.mark.parametrize(
    ("settings", "failure"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 20, "max_limit": 10}, "expected a limit of at most max_limit, 10, got 20"),
        ({"namespace": "a b"}, "expected a namespace of 1 to 100"),
        ({"namespace": "*"}, r"expected the name of one namespace as namespace, got '\*'"),
        ({"namespaces": ["ok", "../x"]}, "expected a namespace"),
        ({"namespaces": "somebody"}, "namespaces"),
        ({"namespaces": "principal", "import_file": "x"}, "import_file: expected none"),
        ({"folder": "x"}, "folder"),
    ],
)
def test_invalid_setting_is_an_error(settings: dict[str, Any], failure: str) -> None:
    with pytest.raises(PluginError, match=failure):
        server(settings)


def test_call_may_name_configured_namespaces_only() -> None:
    config = Config(namespace="a", namespaces=("b",))
    assert [config.allowed_namespace(name) for name in (None, "a", "b", "c", "*")] == ["a", "a", "b", None, None]


@pytest.mark.parametrize(
    ("message", "namespaces"), [("principal", "principal"), ("a, b", ("a", "b")), ("a", ("a",)), ("", ())]
)
def test_namespaces_are_read_from_the_environment(message: str, namespaces: object) -> None:
    tables = PluginTables(environ={"MCPTRIO_MEMORY_NAMESPACES": message})
    assert tables.of("memory", Config).namespaces == namespaces
