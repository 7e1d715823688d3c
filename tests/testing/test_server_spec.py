"""The specification of a server, and its transfer to another process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import mcptrio_everything
import pytest

from mcptrio import ConfigError, Server, tool
from mcptrio.serving import ServerLimits, ServerSettings
from mcptrio.testing import ServerSpec
from mcptrio.testing.server_spec import open_spec, pickle_spec

__all__: list[str] = []


class Counter:
    def __init__(self, start: int) -> None:
        self.value = start

    @tool
    async def count(self) -> int:
        self.value += 1
        return self.value


def plugins(server: Server) -> dict[str, str]:
    return {plugin.name: plugin.state for plugin in server.status.plugins}


def test_plugins_are_modules_objects_names_and_files(tmp_path: Path) -> None:
    file = tmp_path / "clock.py"
    file.write_text("from mcptrio import tool\n@tool\nasync def now() -> str:\n    return 'noon'\n")
    server = ServerSpec(
        plugins=[mcptrio_everything, Counter(1), "fs", file],
        config={"fs": {"folders": [str(tmp_path)]}},
        options={"name": "mine", "settings": ServerSettings(limits=ServerLimits(sessions=7))},
    ).make()

    loaded = {name for name, state in plugins(server).items() if state == "loaded"}
    assert loaded == {"mcptrio_everything", "Counter", "fs", "clock"}
    assert server.info.name == "mine"
    assert server.settings.limits.sessions == 7
    assert server.plugins.strict


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (ServerSpec(plugins=["fss"]), "no plugin `fss` is installed; did you mean `fs`"),
        (ServerSpec(plugins=[Path("nowhere.py")]), "mcp_plugins: no such file: nowhere.py"),
        (
            ServerSpec(plugins=[Counter(1)], config={"counter": {}}),
            r"expected the name of a plugin \(Counter\), got 'counter'",
        ),
        (ServerSpec(config={"a": {}}), r"expected the name of a plugin \(none\), got 'a'"),
    ],
)
def test_invalid_server_parts_are_refused(spec: ServerSpec, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        spec.make()


def test_server_parts_are_transferred_by_name_or_as_a_copy(tmp_path: Path) -> None:
    counter = Counter(1)
    spec = ServerSpec(plugins=[mcptrio_everything, counter, "fs", tmp_path], config={"a": {"b": tmp_path}})
    with pickle_spec(spec) as file:
        opened = open_spec(file)

    assert not file.exists()
    assert opened.plugins[0] is mcptrio_everything
    assert isinstance(opened.plugins[1], Counter)
    assert opened.plugins[1] is not counter
    assert opened.plugins[2:] == ["fs", tmp_path]
    assert opened.config == {"a": {"b": tmp_path}}


def test_modules_that_cannot_be_imported_by_name_are_loaded_from_their_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Test modules are such modules under the import mode that pytest recommends."""
    file = tmp_path / "test_away.py"
    file.write_text("class Plugin:\n    word = 'hello'\n    def __eq__(self, other):\n        return True\n")
    module = ModuleType("test_away")
    module.__file__ = str(file)
    exec(compile(file.read_text(), file, "exec"), module.__dict__)
    monkeypatch.setitem(sys.modules, "test_away", module)
    code = (
        "import sys, pathlib; from mcptrio.testing.server_spec import open_spec as o\n"
        "p = o(pathlib.Path(sys.argv[1]))\n"
    )
    code += "print(p.plugins[0].word, p.plugins[1].__file__)"

    with pickle_spec(ServerSpec(plugins=[module.Plugin(), module])) as parcel:
        result = subprocess.run([sys.executable, "-c", code, parcel], capture_output=True, text=True, check=True)
    assert result.stdout == f"hello {file}\n"


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        (ServerSpec(plugins=[lambda: None]), "mcp_plugins"),
        (ServerSpec(config={"a": {"b": (each for each in ())}}), "mcp_config"),
        (ServerSpec(options={"title": open(__file__)}), "mcp_server_options"),  # noqa: SIM115
    ],
)
def test_unpicklable_server_part_is_refused_by_name(spec: ServerSpec, name: str) -> None:
    with pytest.raises(ConfigError, match=f"^{name}: over stdio the server is in another process"):
        with pickle_spec(spec):
            pass
