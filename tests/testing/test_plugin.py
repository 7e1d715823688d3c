"""The pytest plugin, used in a project: its tests, and the output of failures."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import mcptrio

__all__: list[str] = []

pytest_plugins = ["pytester"]

PLUGIN = """
import trio
from mcptrio import Context, hookimpl, tool
from mcptrio.serving import ServerSettings, Timeouts

@tool
async def now(zone: str = "UTC") -> str:
    return f"noon in {zone}"

@tool
async def sow(ctx: Context, bed: str) -> str:
    answer = await ctx.ask(f"What goes into {bed}?", str)
    return f"{answer} in {bed}"

@tool
async def wait(seconds: float) -> str:
    await trio.sleep(seconds)
    return "waited"

class Settings:
    def __init__(self, config):
        self.config = config

    @tool
    async def setting(self, name: str) -> str:
        return str(self.config.get(name))

@hookimpl
def setup(server, config):
    server.add(Settings(config))
"""

FIVE_LINES = """
import my_plugin
mcp_plugins = [my_plugin]

async def test_now(mcp_client):
    result = await mcp_client.call_tool("now", {"zone": "UTC"})
    assert "UTC" in result.content[0].text
"""


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    """Import all modules: those that an inner pytest imports would be imported again by the next one."""
    for module in pkgutil.walk_packages(mcptrio.__path__, "mcptrio."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in ("jsonschema_rs", "cryptography.hazmat.primitives.ciphers.aead"):
        importlib.import_module(name)


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project with a plugin, and without settings for Trio."""
    pytester.makepyfile(my_plugin=PLUGIN)
    pytester.makeini("[pytest]\nfilterwarnings = error\naddopts = --strict-markers -p no:cacheprovider\n")
    pytester.syspathinsert()
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.delenv("CI", raising=False)  # pytest prints more if it is set
    return pytester


def run(project: pytest.Pytester, tests: str, *options: str, **outcomes: int) -> str:
    """Run these tests in a separate pytest, and return its output."""
    project.makepyfile(test_it="import my_plugin\nimport pytest\nmcp_plugins = [my_plugin]\n" + tests)
    result = project.runpytest_inprocess("-rA", "--showlocals", *options)
    result.assert_outcomes(**outcomes)
    return str(result.stdout) + str(result.stderr)


def test_pytest_finds_the_plugin() -> None:
    [point] = entry_points(group="pytest11", name="mcptrio")

    assert point.value == "mcptrio.testing.plugin"


def test_plugin_loads_few_modules_in_a_project_without_its_tests(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "import sys\n"
        "def pytest_unconfigure():\n"
        "    ours = ('mcptrio', 'orjson', 'msgspec')\n"
        "    print('LOADED', *sorted(name for name in sys.modules if name.partition('.')[0] in ours))\n"
    )
    (tmp_path / "test_it.py").write_text("def test(): pass\n")
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:trio", "-s"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    [loaded] = [line.split()[1:] for line in result.stdout.splitlines() if line.startswith("LOADED")]

    ground = ("ground", "ground.lazy_names", "ground.tracebacks", "ground.version")
    ours = ("errors", *ground, "testing", "testing.plugin")
    assert loaded == ["mcptrio", *(f"mcptrio.{name}" for name in ours)]


def test_test_of_five_lines_passes(project: pytest.Pytester) -> None:
    project.makepyfile(test_it=FIVE_LINES)

    assert len([line for line in FIVE_LINES.splitlines() if line]) == 5
    project.runpytest_inprocess().assert_outcomes(passed=1)


def test_test_runs_in_every_revision_and_transport(project: pytest.Pytester) -> None:
    tests = """
async def test_now(mcp_any_client, mcp_case):
    assert mcp_any_client.revision == mcp_case.revision
    result = await mcp_any_client.call_tool("now")
    assert result.content[0].text == "noon in UTC"
"""
    output = run(project, tests, "-v", passed=15)

    assert "test_now[memory-2024-11-05] PASSED" in output
    assert "test_now[stdio-2025-06-18] PASSED" in output
    assert "test_now[http-2026-07-28] PASSED" in output


def test_marker_selects_revisions_and_transports(project: pytest.Pytester) -> None:
    tests = """
pytestmark = pytest.mark.mcp(revisions=["2025-06-18", "2026-07-28"])

async def test_two(mcp_client):
    await mcp_client.ping()

@pytest.mark.mcp(transports=["http"], revisions=["2026-07-28"])
async def test_one(mcp_client, mcp_server):
    assert [session.name for session in mcp_server.status.sessions] == []
    assert mcp_client.name.startswith("http://127.0.0.1:")

@pytest.mark.mcp(replay="both", transports="memory")
class TestMany:
    async def test_three(self, mcp_any_client):
        await mcp_any_client.ping()
"""
    output = run(project, tests, "-v", passed=6)

    assert "test_two[memory-2025-06-18]" in output
    assert "::test_one PASSED" in output
    assert "test_three[memory-2026-07-28-replayed]" in output


def test_server_parts_are_given_by_name_or_by_fixture(project: pytest.Pytester) -> None:
    project.makepyfile(other="from mcptrio import tool\n@tool\nasync def more() -> str:\n    return 'more'\n")
    tests = """
import other
from mcptrio.client import Handlers
from mcptrio.serving import ServerSettings, Timeouts

mcp_plugins = [my_plugin, "fs", other]
mcp_config = {"my_plugin": {"colour": "red"}}
mcp_server_options = {"name": "mine", "settings": ServerSettings(timeouts=Timeouts(request=7))}
mcp_client_options = {"log_level": "debug"}
mcp_handlers = Handlers(elicit=lambda form: fail())

async def test_module(mcp_client, mcp_server):
    names = {tool.name async for tool in mcp_client.tools()}
    assert {"now", "more", "setting", "fs_read_text_file"} <= names
    assert (await mcp_client.call_tool("setting", {"name": "colour"})).content[0].text == "red"
    assert mcp_client.server_info.name == "mine"
    assert mcp_server.settings.timeouts.request == 7
    assert mcp_client._log_level == "debug"
    assert mcp_client._options.handlers is mcp_handlers

class TestClass:
    mcp_plugins = [my_plugin]
    mcp_config = {}

    async def test_class(self, mcp_client):
        assert {tool.name async for tool in mcp_client.tools()} == {"now", "sow", "wait", "setting"}

class TestFixture:
    mcp_plugins = [my_plugin]

    @pytest.fixture
    async def mcp_config(self, tmp_path):
        return {"my_plugin": {"folder": str(tmp_path)}}

    async def test_fixture(self, mcp_client, tmp_path):
        assert (await mcp_client.call_tool("setting", {"name": "folder"})).content[0].text == str(tmp_path)
"""
    run(project, tests, passed=3)


def test_server_fixture_can_connect_several_clients(project: pytest.Pytester) -> None:
    tests = """
from mcptrio.testing import delay, drop

@pytest.mark.mcp(transports=["memory", "http"])
async def test_two(mcp_connect, mcp_server):
    async with mcp_connect() as new, mcp_connect(revision="2024-11-05") as old:
        assert (new.revision, old.revision) == ("2026-07-28", "2024-11-05")
        mcp_server.remove_tool("now")
        assert "now" not in {tool.name async for tool in old.tools()}

async def test_faults(mcp_connect, autojump_clock):
    async with mcp_connect(to_client=[delay(30, "tools/call")]) as client:
        await client.call_tool("now")
        assert autojump_clock.current_time() >= 30
"""
    run(project, tests, passed=3)


def test_clock_jumps_if_the_marker_requests_it(project: pytest.Pytester) -> None:
    tests = """
import trio

@pytest.mark.mcp(autojump=True, revisions=["2025-11-25", "2026-07-28"])
async def test_marked(mcp_client):
    before = trio.current_time()
    await mcp_client.call_tool("wait", {"seconds": 200}, timeout=250)
    assert trio.current_time() - before >= 200

async def test_fixture(mcp_client, autojump_clock):
    await mcp_client.call_tool("wait", {"seconds": 200}, timeout=250)

async def test_real(mcp_client):
    assert not isinstance(trio.lowlevel.current_clock(), trio.testing.MockClock)
"""
    run(project, tests, passed=4)
    project.makeini("[pytest]\ntrio_mode = true\n")
    run(project, tests, passed=4)


def test_script_answers_requests_of_the_server(project: pytest.Pytester) -> None:
    tests = """
@pytest.mark.mcp(revisions=["2025-11-25", "2026-07-28"], replay="both", transports=["memory", "http"])
async def test_sow(mcp_client, mcp_script):
    mcp_script.elicit({"value": "peas"})
    result = await mcp_client.call_tool("sow", {"bed": "north"})
    assert result.content[0].text == "peas in north"
    assert mcp_script.asked[0].message == "What goes into north?"

class TestOnlyURLs:
    @pytest.fixture
    def mcp_handlers(self, mcp_script):
        return mcp_script.handlers("url")

    async def test_sow(self, mcp_client, mcp_script):
        with pytest.raises(Exception, match="did not declare the capability elicitation.form"):
            await mcp_client.call_tool("sow", {"bed": "north"})
"""
    run(project, tests, passed=7)


def test_test_fails_if_the_server_deviates_from_the_script(project: pytest.Pytester) -> None:
    tests = """
@pytest.mark.mcp(revisions=["2025-11-25", "2026-07-28"])
async def test_unexpected(mcp_client, mcp_script):
    mcp_script.sample("hello")
    await mcp_client.call_tool("sow", {"bed": "north"})
    print("never")

async def test_left(mcp_client, mcp_script):
    mcp_script.elicit({"value": "peas"}).decline()
    await mcp_client.call_tool("sow", {"bed": "north"})

async def test_failed_anyway(mcp_client, mcp_script):
    mcp_script.decline()
    assert 1 == 2

def test_unused(mcp_script):
    mcp_script.decline()
"""
    output = run(project, tests, failed=5)

    unexpected = "the server asked a question that is not in the script: form 'What goes into north?' (value)"
    assert f"{unexpected}\nleft:\n  sample('hello')\nasked before: nothing\n" in output
    for revision in ("2025-11-25", "2026-07-28"):
        assert f"FAILED test_it.py::test_unexpected[memory-{revision}] - Failed: {unexpected}" in output
    asked = "form 'What goes into north?' (value) -> accept {'value': 'peas'}"
    assert f"the script was not used up\nleft:\n  decline()\nasked:\n  {asked}\n" in output
    assert "FAILED test_it.py::test_failed_anyway - assert 1 == 2" in output
    assert output.count("was not used up\nleft") == 2
    assert "never" not in output.replace('print("never")', "")


def test_recorded_messages_are_compared_with_a_file(project: pytest.Pytester) -> None:
    tests = """
async def test_wire(mcp_client, mcp_wire):
    await mcp_client.call_tool("now", {"zone": "%s"})
    mcp_wire.assert_wire("wires/now.txt")
"""
    assert "no such snapshot" in run(project, tests % "UTC", failed=1)
    assert "wires/now.txt" in run(project, tests % "UTC", "--mcp-update-snapshots", passed=1)
    run(project, tests % "UTC", passed=1)
    assert "noon in CET" in run(project, tests % "CET", failed=1)
    assert "snapshots rewritten" in run(project, tests % "CET", "--mcp-update-snapshots", passed=1)
    assert "snapshots rewritten" not in run(project, tests % "CET", "--mcp-update-snapshots", passed=1)
    text = (project.path / "wires" / "now.txt").read_text()
    assert text.count("--> tools/call <request ") == 1


def test_leak_is_reported_if_the_fixture_is_used(project: pytest.Pytester) -> None:
    tests = """
kept = []

@pytest.mark.mcp(revisions=["2025-11-25", "2026-07-28"])
async def test_clean(mcp_nothing_left, mcp_any_client):
    await mcp_any_client.call_tool("now")

def test_leaking(mcp_nothing_left):
    kept.append(open(__file__))

def test_unseen():
    kept.pop().close()
"""
    output = run(project, tests, passed=8, errors=1)

    assert "ERROR test_it.py::test_leaking - Failed: left behind: descriptor" in output


# Misuse


@pytest.mark.parametrize(
    ("tests", "problem"),
    [
        (
            "@pytest.mark.mcp(autojump=True)\nasync def test(mcp_any_client): ...",
            'autojump: only in memory, but the test runs over stdio and http as well; use transports=["memory"]',
        ),
        (
            "@pytest.mark.mcp(transports='http')\nasync def test(mcp_client, autojump_clock): ...",
            "autojump_clock: only in memory, but the test runs over http as well",
        ),
        ("async def test(mcp_any_client, mcp_server): ...", "mcp_server: over stdio the server is in another process"),
        (
            "@pytest.mark.mcp('2025-11-25')\nasync def test(mcp_client): ...",
            "mcp: expected keyword arguments, got '2025",
        ),
        (
            "@pytest.mark.mcp(revisons=[])\nasync def test(mcp_client): ...",
            "mcp: expected one of revisions, transports",
        ),
    ],
)
def test_invalid_marker_is_a_collection_error(project: pytest.Pytester, tests: str, problem: str) -> None:
    output = run(project, tests, errors=1)

    assert problem in output
    assert "Traceback" not in output


def test_traceback_of_a_broken_plugin_has_its_own_frames_only(project: pytest.Pytester) -> None:
    output = run(
        project,
        """
from mcptrio import hookimpl, tool

class Bed:
    def __init__(self, size):
        pass

class Unsendable:
    @tool
    async def dig(self, bed: Bed) -> str: ...

class Raising:
    @hookimpl
    def setup(self, server):
        server.add(1 / 0)

class TestUnsendable:
    mcp_plugins = [Unsendable()]
    async def test(self, mcp_client): ...

class TestRaising:
    mcp_plugins = [Raising()]
    async def test(self, mcp_client): ...

@tool
async def dig(): ...

class TestFunction:
    mcp_plugins = [dig]
    async def test(self, mcp_client): ...
""",
        failed=3,
    )

    assert "\nplugin Unsendable: setup failed: Unsendable.dig: parameter `bed`:" in output
    assert "\nplugin Raising: setup failed: division by zero\n" in output
    assert ", in setup\n    server.add(1 / 0)\n" in output
    assert "\nmcp_plugins: expected a module, class or object as a plugin, got the function dig: pass its" in output
    assert "mcptrio/plugins" not in output


def test_failing_assert_is_shown_without_an_exception_group(project: pytest.Pytester) -> None:
    output = run(
        project,
        """
async def test_now(mcp_client):
    result = await mcp_client.call_tool("now")
    try:
        raise KeyError("first")
    except KeyError:
        assert result.content[0].text == "midnight", "wrong time"
""",
        failed=1,
    )

    assert "E           AssertionError: wrong time" in output
    assert output.count("During handling of the above exception") == 1
    assert "Group" not in output
    assert "site-packages" not in output


def test_traceback_of_an_error_ends_at_the_line_of_the_test(project: pytest.Pytester) -> None:
    tests = """
async def test_read(mcp_client):
    await mcp_client.read_resource("garden://north")
"""

    output = run(project, tests, failed=1)
    assert ">       await mcp_client.read_resource" in output
    assert "MethodNotFound" in output
    assert "mcptrio/client" not in output
    assert "mcptrio/client" in run(project, tests, "--full-trace", failed=1)


def test_synchronous_test_is_refused(project: pytest.Pytester) -> None:
    project.makepyfile(test_it="def test_it(mcp_client): ...")
    result = project.runpytest_inprocess()

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["test_it.py::test_it: mcp_client needs an async test: async def test_it"])


def test_property_test_needs_its_own_server_instead_of_the_fixture(project: pytest.Pytester) -> None:
    given = "import hypothesis\n\n@hypothesis.given(zone=hypothesis.strategies.text())\n"
    run(project, given + "async def test_it(mcp_client, zone): ...", errors=1)
    own = """
import hypothesis
from mcptrio.testing import ServerSpec, open_served

@pytest.mark.trio
@hypothesis.settings(max_examples=5, database=None)
@hypothesis.given(zone=hypothesis.strategies.text(max_size=3))
async def test_it(zone):
    async with open_served(ServerSpec(plugins=[my_plugin])) as served, served.connect() as client:
        assert (await client.call_tool("now", {"zone": zone})).content[0].text == f"noon in {zone}"
"""
    run(project, own, passed=1)


def test_without_pytest_trio_the_error_names_it(project: pytest.Pytester) -> None:
    project.makepyfile(test_it=FIVE_LINES)
    result = project.runpytest_inprocess("-p", "no:trio")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["test_it.py::test_now: mcp_client needs pytest-trio: pip install pytest-trio"])


ASYNCIO_AUTO = """
import pytest

def pytest_addoption(parser):
    parser.addini("asyncio_mode", "as pytest-asyncio has it", default="auto")

def pytest_configure(config):
    config.pluginmanager.register(object(), "asyncio")
"""


def test_with_pytest_asyncio_in_auto_mode_the_error_names_the_setting(project: pytest.Pytester) -> None:
    project.makepyfile(test_it=FIVE_LINES, like_asyncio=ASYNCIO_AUTO)
    result = project.runpytest_inprocess("-p", "like_asyncio")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*mode auto; set asyncio_mode = strict*"])


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ("mcp_plugins = my_plugin", "Failed: mcp_plugins: expected a list, got module at"),
        ("mcp_plugins = ['nothing']", "no plugin `nothing` is installed"),
        ("mcp_config = {'my_plugins': {}}", "expected the name of a plugin (my_plugin), got 'my_plugins'"),
    ],
)
def test_invalid_server_parts_fail_the_test(project: pytest.Pytester, message: str, problem: str) -> None:
    tests = f"{message}\nasync def test(mcp_client): ..."
    project.makepyfile(test_it="import my_plugin\nmcp_plugins = [my_plugin]\n" + tests)
    result = project.runpytest_inprocess()

    assert problem in str(result.stdout)
    assert result.ret == 1
