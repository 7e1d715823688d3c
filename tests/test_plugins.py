"""Plugins that fail at import, at registration, in a lifespan or in the background, and name collisions, affect no
other plugin. The distributions have real entry points, and a client uses a complete server.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mcptrio import ConfigError, PluginSetup, Server, hookimpl, notification
from mcptrio.errors import PluginError
from mcptrio.protocol.messages import Request
from mcptrio.serving import PluginManager
from tests.distributions import install, one_tool
from tests.runtime.peers import Client, connected

__all__: list[str] = []

Load = Callable[..., PluginManager]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a folder on the path; modules imported from it are removed at the end."""
    before = set(sys.modules)
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])
    yield folder
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def load(site: Path) -> Load:
    """Loads plugins that :func:`install` has put there, in their own manager."""

    def load_them(*names: str, strict: bool = False) -> PluginManager:
        manager = PluginManager(strict=strict)
        manager.load_installed(only=names)
        return manager

    return load_them


async def tools_of(server: Server) -> list[str]:
    async with connected(server) as client:
        return await listed(client)


async def listed(client: Client) -> list[str]:
    return sorted(tool["name"] for tool in (await client.result(Request("list", "tools/list", {})))["tools"])


def wanted(manager: PluginManager) -> dict[str, str]:
    return {name: plugin.state for name, plugin in manager.plugins.items() if plugin.state != "disabled"}


PREFIX = """
from mcptrio import hookimpl

@hookimpl
def setup(server):
    server.set_tool_prefix({!r})
"""

# Plugins that fail

FAULTS = {
    "import": ("import nothing_like_it", "import failed: ModuleNotFoundError: No module named 'nothing_like_it'"),
    "syntax": ("def f(:", "import failed: SyntaxError: invalid syntax"),
    "exit": ("import sys\nprint('leaving')\nsys.exit(7)", "import failed: SystemExit: 7"),
    "signature": ("from mcptrio import tool\n@tool\nasync def t(x: object()) -> str: ...", "setup failed: "),
    "registration": (
        "from mcptrio import hookimpl\n@hookimpl\ndef setup(server):\n"
        "    server.add_tool(lambda: 'x', name='partly')\n    raise RuntimeError('half way')",
        "setup failed: half way",
    ),
    "silent": (
        "from mcptrio import hookimpl\n@hookimpl\ndef setup(server):\n    raise ValueError",
        "ValueErro",
    ),
    "bad_name": (
        "from mcptrio import tool\n@tool(name='a b')\nasync def t() -> str: ...",
        "expected a tool name of 1 ",
    ),
    "misspelt": (
        "from mcptrio import hookimpl\n@hookimpl\ndef setupp(server): ...",
        "got `setupp`; did you mean `setup`?",
    ),
    "arguments": (
        "from mcptrio import hookimpl\n@hookimpl\ndef setup(sever): ...",
        "hook `setup`: expected parameters among server, config, got `sever`",
    ),
    "async_hook": (
        "from mcptrio import hookimpl\n@hookimpl\nasync def setup(server): ...",
        "hook `setup`: expected a plain function, got an async one",
    ),
    "wrapper": (
        "from mcptrio import hookimpl\n@hookimpl(wrapper=True)\ndef setup(server): return (yield)",
        "hook `setup`: expected @hookimpl without wrapper",
    ),
}
"""A plugin's source, and what its failure says."""


@pytest.mark.parametrize("kind", FAULTS)
async def test_failing_plugin_does_not_affect_others(
    site: Path, load: Load, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    source, challenge = FAULTS[kind]
    install(site, "bad-dist", "3.0", modules={f"plug_{kind}": source}, bad=f"plug_{kind}")
    install(site, "good-dist", modules={f"plug_{kind}_good": one_tool("fine")}, good=f"plug_{kind}_good")
    manager = load("bad", "good")
    server = Server(plugins=manager)

    assert await tools_of(server) == ["good_fine"]
    assert wanted(manager) == {"bad": "quarantined", "good": "running"}
    failure = manager.plugins["bad"].failure
    assert failure is not None
    assert challenge in failure
    assert manager.plugins["bad"].offers == {}
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == [
        f"bad (bad-dist 3.0) failed, and is left out: {failure}"
    ]
    assert not server.status.ready


@pytest.mark.parametrize("kind", FAULTS)
def test_failing_plugin_is_an_error_if_strict(site: Path, load: Load, kind: str) -> None:
    install(site, "bad-dist", modules={f"plug_strict_{kind}": FAULTS[kind][0]}, bad=f"plug_strict_{kind}")

    with pytest.raises(PluginError) as caught:
        Server(plugins=load("bad", strict=True))
    assert str(caught.value).startswith("plugin bad (from bad-dist): ")
    assert FAULTS[kind][1] in str(caught.value)


def test_stale_entry_point_is_named(site: Path, load: Load) -> None:
    install(site, "notes-dist", modules={"plug_stale": one_tool("fine")}, notes="plug_stale:Notes")

    assert load("notes").plugins["notes"].failure == (
        "import failed: AttributeError: module 'plug_stale' has no attribute 'Notes'; the installed entry point is "
        "`notes = plug_stale:Notes`: correct it in pyproject.toml, and install the package again"
    )


def test_unselected_plugin_is_not_imported(site: Path, load: Load) -> None:
    install(site, "other", modules={"plug_unwanted": "raise RuntimeError"}, other="plug_unwanted")
    manager = load()

    assert manager.plugins["other"].state == "disabled"
    assert manager.plugins["other"].distribution == "other"
    assert "plug_unwanted" not in sys.modules


@pytest.mark.parametrize("how", ["only", "without"])
def test_selected_plugin_that_is_not_installed_is_an_error(site: Path, how: str) -> None:
    install(site, "any", modules={"plug_any": ""}, notes="plug_any")

    with pytest.raises(ConfigError, match=r"^no plugin `nots` is installed; did you mean `notes`\?$"):
        PluginManager().load_installed(**{how: ["nots"]})


# Names that are taken


async def test_duplicate_tool_belongs_to_the_first_plugin(site: Path, load: Load) -> None:
    install(site, "dist-one", "1.1", modules={"plug_first": one_tool("add", "first")}, first="plug_first")
    second = one_tool("own") + one_tool("add", "second") + PREFIX.format("first")
    install(site, "dist-two", "2.2", modules={"plug_second": second}, second="plug_second")
    manager = load("first", "second")
    server = Server(plugins=manager)

    assert await tools_of(server) == ["first_add"]
    assert manager.plugins["second"].failure == (
        "setup failed: tool `first_add` of second (dist-two 2.2) is already offered by first (dist-one 1.1)"
    )
    with pytest.raises(PluginError, match=r"^plugin second \(from dist-two\): .* by first \(dist-one 1\.1\)$"):
        Server(plugins=load("first", "second", strict=True))


async def test_tool_that_a_plugin_defines_twice_is_named(site: Path, load: Load) -> None:
    code = one_tool("add") + '\n\nagain = tool(name="add")(lambda: "")\n'
    install(site, "dist-one", modules={"plug_one": code}, one="plug_one")
    manager = load("one")
    Server(plugins=manager)

    assert manager.plugins["one"].failure == "setup failed: tool `one_add` is defined twice; rename one of the two"


async def test_duplicate_plugin_name_belongs_to_the_first_distribution(site: Path, load: Load) -> None:
    install(site, "dist-b", "2.0", modules={"plug_twice_b": one_tool("b")}, twice="plug_twice_b")
    install(site, "dist-a", "1.0", modules={"plug_twice_a": one_tool("a")}, twice="plug_twice_a")
    manager = load("twice")
    server = Server(plugins=manager)

    assert await tools_of(server) == ["twice_a"]
    assert wanted(manager) == {"twice": "running", "twice #2": "quarantined"}
    assert manager.plugins["twice #2"].distribution == "dist-b"
    assert manager.plugins["twice #2"].failure == (
        "the name of twice (dist-b 2.0) is already taken by twice (dist-a 1.0)"
    )
    assert {each.name: each.state for each in server.status.plugins}["twice"] == "running"
    assert "plug_twice_b" not in sys.modules
    with pytest.raises(PluginError, match=r"\(from dist-b\): .* taken by twice \(dist-a 1\.0\)$"):
        load("twice", strict=True)


def test_module_with_two_plugin_names_is_loaded_once(site: Path, load: Load) -> None:
    install(site, "aliased", modules={"plug_alias": one_tool("a")}, alias="plug_alias", zalias="plug_alias")
    manager = load("alias", "zalias")

    assert wanted(manager) == {"alias": "loaded", "zalias": "quarantined"}
    failure = manager.plugins["zalias"].failure
    assert failure is not None
    assert failure.endswith("is already registered by alias")


def test_plugin_file_with_the_name_of_an_installed_plugin_is_quarantined(site: Path, load: Load) -> None:
    install(site, "dist-notes", modules={"plug_notes": one_tool("a")}, notes="plug_notes")
    file = site / "notes.py"
    file.write_text(one_tool("b"))
    manager = load("notes")
    manager.load_file(file)
    manager.load_file(file)

    assert wanted(manager) == {"notes": "loaded", "notes #2": "quarantined", "notes #3": "quarantined"}
    assert load().load_file(file).state == "loaded"


def test_failing_plugin_file_leaves_no_module(site: Path) -> None:
    (site / "broken.py").write_text("x = 1\nraise RuntimeError('y')")
    plugin = PluginManager().load_file(site / "broken.py")

    assert plugin.failure == "import failed: RuntimeError: y"
    assert "mcptrio_file_broken" not in sys.modules


# One manager, one server


async def test_servers_share_no_state(site: Path, load: Load) -> None:
    install(site, "shared", modules={"plug_shared": one_tool("shared")}, shared="plug_shared")
    one, two = Server(plugins=load("shared")), Server(plugins=load("shared"))
    one.running_plugins.quarantine(one.plugins.plugins["shared"], "for a test")
    two.add_tool(lambda: "x", name="own")

    assert await tools_of(one) == []
    assert await tools_of(two) == ["own", "shared"]
    assert Server().plugins.plugins == {}


async def test_every_entry_of_a_removed_plugin_is_withdrawn() -> None:
    received: list[Any] = []

    class Offers:
        @hookimpl
        def setup(self, server: PluginSetup) -> None:
            server.add_extension("com.example/acme", {})
            server.add_log_sink(lambda level, data, logger: received.append(data))
            server.add_redaction(lambda text: text.replace("hunter2", "*"))

        @notification("acme/told")
        async def told(self, params: Any) -> None:
            received.append(params)

    manager = PluginManager()
    plugin = manager.register(Offers())
    server = Server(plugins=manager)
    assert plugin.offers == {"extensions": ["com.example/acme"], "methods": ["acme/told"]}
    assert server.catalog.methods.listeners["acme/told"]
    server.running_plugins.quarantine(plugin, "for a test")

    assert plugin.offers == {}
    assert server.catalog.lifecycle.extensions == {}
    assert server.catalog.methods.listeners["acme/told"] == []
    assert server.catalog.logging.sinks == []
    # Its secrets are still redacted.
    assert server.catalog.logging.redact("hunter2") == "*"
