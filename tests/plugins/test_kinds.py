"""Values that can be a plugin, and the errors for all others."""

from __future__ import annotations

import types
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from attrs import frozen

import mcptrio
from mcptrio import PluginSetup, Registrar, Server, hookimpl, lifespan, tool
from mcptrio.errors import PluginError
from mcptrio.serving import ServerSettings

__all__: list[str] = []


class Garden:
    @tool
    async def water(self) -> str:
        return "watered"


@frozen(kw_only=True)
class Trees:
    trees: int = 1


@frozen(kw_only=True)
class Beds:
    beds: int = 1


class Orchard:
    def __init__(self, config: Trees) -> None:
        self._config = config

    @tool
    async def count(self) -> int:
        return self._config.trees


class Unsettled(Garden):
    def __init__(self, trees: int) -> None:
        self.trees = trees


class Vague(Garden):
    def __init__(self, config: Nowhere) -> None:  # type: ignore[name-defined]  # noqa: F821
        self.config = config


class Split(Garden):
    @hookimpl
    def setup(self, server: PluginSetup, config: Trees) -> None: ...

    @lifespan
    async def opened(self, server: Registrar, config: Beds) -> AsyncGenerator[None]:
        yield


@tool
async def dig() -> str:
    return "dug"


def plain() -> str:
    return ""


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        (dig, "got the function dig: pass its module, or call server.add_tool(dig)"),
        (plain, "got the function plain: pass its module"),
        ("garden", "got the string 'garden': import the module and pass that"),
    ],
)
def test_value_of_another_kind_is_refused(plugin: Any, message: str) -> None:
    with pytest.raises(TypeError) as raised:
        Server(plugins=[plugin])

    assert str(raised.value).startswith("expected a module, class or object as a plugin, ")
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("plugins", "kind"), [("garden", "'garden'"), (types, "the module types"), (Garden(), "Garden")]
)
def test_plugins_argument_that_is_not_a_list_is_refused(plugins: Any, kind: str) -> None:
    with pytest.raises(TypeError, match=f"plugins: expected a list of modules and objects, got {kind}"):
        Server(plugins=plugins)


def test_namespace_with_tools_has_no_source_file() -> None:
    """The watchdog asks for it while a function blocks the event loop."""
    server = Server(plugins=[types.SimpleNamespace(water=Garden().water)])

    assert server.plugins.owner_of_file(__file__) is None


def test_object_without_decorated_methods_and_hooks_is_an_error() -> None:
    with pytest.raises(PluginError, match="nothing to serve: no function is decorated"):
        Server(plugins=[types.SimpleNamespace(plain=plain)], settings=ServerSettings(strict=True))


CLASS = "from mcptrio import tool\nclass Bed:\n    @tool\n    async def dig(self) -> str: return ''\n"


async def test_module_with_one_plugin_class_is_that_plugin() -> None:
    module = types.ModuleType("garden")
    exec(CLASS, vars(module))

    server = Server(plugins=[module], settings=ServerSettings(strict=True))
    async with server.open(), mcptrio.connect(server) as client:
        assert [each.name async for each in client.tools()] == ["dig"]


def test_module_with_several_plugin_classes_is_an_error() -> None:
    module = types.ModuleType("garden")
    exec(CLASS + "class Tree(Bed): pass\n", vars(module))

    with pytest.raises(PluginError, match="nothing to serve: expected one class with decorated methods, got Bed, Tree"):
        Server(plugins=[module], settings=ServerSettings(strict=True))


async def test_plugin_class_is_instantiated_with_its_settings() -> None:
    server = Server(plugins=[Orchard], config={"Orchard": {"trees": 3}})
    async with server.open(), mcptrio.connect(server) as client:
        assert (await client.call_tool("count")).structured_content == 3


async def test_plugin_class_without_an_annotation_gets_its_table() -> None:
    class Meadow(Garden):
        def __init__(self, config) -> None:  # type: ignore[no-untyped-def]
            self._config = config

        @tool
        async def table(self) -> dict[str, int]:
            return dict(self._config)

    server = Server(plugins=[Meadow], config={"Meadow": {"trees": 3}}, settings=ServerSettings(strict=True))
    async with server.open(), mcptrio.connect(server) as client:
        assert (await client.call_tool("table")).structured_content == {"trees": 3}


def test_settings_of_a_plugin_class_are_checked() -> None:
    with pytest.raises(PluginError, match=r"plugins\.Orchard\.trees: expected an integer, got 'many'"):
        Server(plugins=[Orchard], config={"Orchard": {"trees": "many"}}, settings=ServerSettings(strict=True))


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        (Unsettled, "Unsettled.__init__: expected no parameters but config, got trees; pass an object instead of the"),
        (Vague, "config: expected an annotation that exists at run time, got 'Nowhere'"),
        (Split, "config: expected one class of settings, got Beds in opened, Trees in setup"),
    ],
)
def test_plugin_class_with_unknown_settings_type_is_an_error(plugin: type, message: str) -> None:
    given = plugin if plugin is not Split else plugin()
    with pytest.raises(PluginError) as raised:
        Server(plugins=[given], settings=ServerSettings(strict=True))

    assert message in str(raised.value)


async def test_instance_serves_its_decorated_methods() -> None:
    server = Server(plugins=[Garden()])
    async with server.open(), mcptrio.connect(server) as client:
        assert [each.name async for each in client.tools()] == ["water"]
