"""Values that can be a plugin, and the errors for all others."""

from __future__ import annotations

import types
from typing import Any

import pytest

import mcptrio
from mcptrio import PluginError, Server, tool

__all__: list[str] = []


class Garden:
    @tool
    async def water(self) -> str:
        return "watered"


@tool
async def dig() -> str:
    return "dug"


def plain() -> str:
    return ""


@pytest.mark.parametrize(
    ("plugin", "said"),
    [
        (Garden, "got the class Garden: pass an instance, Garden()"),
        (dig, "got the function dig: pass its module, or call server.add_tool(dig)"),
        (plain, "got the function plain: pass its module"),
        ("garden", "got the string 'garden': import the module and pass that"),
    ],
)
def test_value_of_another_kind_is_refused(plugin: Any, said: str) -> None:
    with pytest.raises(TypeError) as raised:
        Server(plugins=[plugin])

    assert str(raised.value).startswith("expected a module or an object as a plugin, ")
    assert said in str(raised.value)


@pytest.mark.parametrize(("plugins", "kind"), [("garden", "str"), (types, "module"), (Garden(), "Garden")])
def test_plugins_that_are_no_list_are_refused(plugins: Any, kind: str) -> None:
    with pytest.raises(TypeError, match=f"plugins: expected a list of modules and objects, got {kind}"):
        Server(plugins=plugins)


def test_object_without_marks_and_hooks_is_a_fault() -> None:
    with pytest.raises(PluginError, match="nothing to serve: no function is marked"):
        Server(plugins=[types.SimpleNamespace(plain=plain)], strict=True)


def test_module_whose_class_is_not_registered_is_a_fault() -> None:
    module = types.ModuleType("garden")
    exec("from mcptrio import tool\nclass Bed:\n    @tool\n    async def dig(self) -> str: return ''\n", vars(module))

    with pytest.raises(PluginError, match=r"class Bed has marked methods \(dig\), but no instance is registered"):
        Server(plugins=[module], strict=True)


async def test_instance_serves_its_marked_methods() -> None:
    async with Server(plugins=[Garden()]).open() as server, mcptrio.connect(server) as client:
        assert [each.name async for each in client.tools()] == ["water"]
