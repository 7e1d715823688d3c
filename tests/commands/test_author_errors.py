"""Failures of a plugin as its author sees them, in a pipe and at a terminal."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.processes import at_terminal, run
from tests.processes import line

__all__: list[str] = []

SOURCE = """\
import asyncio
import sys
from datetime import timezone

import trio

from mcptrio import Context, ToolError, resource, tool


def divide(by: int) -> float:
    return 100 / by


@tool
async def raises() -> float:
    try:
        return divide(0)
    except ZeroDivisionError as error:
        raise ValueError("no beds: \\x1b[2J") from error


@tool
async def in_a_nursery(ctx: Context) -> str:
    async def fail() -> None:
        divide(0)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(fail)
    return ""


@tool
async def several(ctx: Context) -> str:
    async def fail() -> None:
        divide(0)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(fail)
        nursery.start_soon(fail)
    return ""


@tool
async def deep(n: int = 0) -> int:
    def again(n: int) -> int:
        return again(n + 1)

    return again(n)


@tool
async def crowd() -> str:
    def group(depth: int) -> Exception:
        return ExceptionGroup("crowd", [group(depth - 1), group(depth - 1)]) if depth else KeyError("bed")

    raise group(10)


@tool
async def sleeps() -> None:
    await asyncio.sleep(1)


@tool
async def yields() -> None:
    await asyncio.sleep(0)


@tool
def in_thread() -> None:
    trio.current_time()


async def helper() -> int:
    return 3


@tool
async def forgets() -> str:
    helper()
    return "watered"


@tool
async def keeps_coroutine(ctx: Context) -> str:
    answer = ctx.ask("How much?", str)
    return "watered"


@tool
async def returns_coroutine():
    return {"count": helper()}


@tool
async def adds_coroutine() -> int:
    return 1 + helper()


@tool
async def unsendable():
    return {"items": [1, 2, 3, {"when": timezone.utc}]}


class Bed:
    pass


@tool
async def own_instance():
    return Bed()


@tool
async def own_class():
    return [Bed()]


@tool
async def odd_keys():
    return {"beds": {(1, 2): "beans"}}


@tool
async def promises() -> int:
    return "three"


@tool
async def refuses() -> str:
    raise ToolError("the well is dry")


@resource("bed://{n}")
async def bed(n: str) -> str:
    return str(divide(int(n)))
"""
ID = r"[0-9a-f]{8}"


@pytest.fixture
def garden(tmp_path: Path) -> Path:
    path = tmp_path / "garden.py"
    path.write_text(SOURCE)
    return path


def call(garden: Path, tool: str, *options: str) -> subprocess.CompletedProcess[str]:
    result = run("call", "--plugin", "garden.py", *options, tool, cwd=garden.parent)
    return subprocess.CompletedProcess(result.args, result.returncode, result.stdout.decode(), result.stderr.decode())


def number(text: str) -> int:
    """Return the number of the source line that contains this text."""
    return next(number for number, each in enumerate(SOURCE.splitlines(), 1) if text in each)


def test_failing_tool_shows_the_plugins_frames_and_the_cause_once(garden: Path) -> None:
    result = call(garden, "raises")

    assert (result.returncode, result.stdout) == (1, "")
    expected = [
        rf"\[error\] tool raises failed \(id {ID}\)",
        r"  ValueError: no beds: \\x1b\[2J",
        r"    … \d+ frames of mcptrio",
        rf'    File "{garden}", line {number("raise ValueError")}, in raises',
        r'      raise ValueError\("no beds: \\x1b\[2J"\) from error',
        r"  caused by ZeroDivisionError: division by zero",
        rf'    File "{garden}", line {number("return divide(0)")}, in raises',
        r"      return divide\(0\)",
        rf'    File "{garden}", line {number("return 100 / by")}, in divide',
        r"      return 100 / by",
    ]
    # Which lines get marks below them depends on the version of Python.
    shown = re.sub(r"^ +[~^]+\n", "", result.stderr, flags=re.MULTILINE)
    assert re.fullmatch("\n".join(expected) + "\n", shown), result.stderr


def test_verbose_shows_all_frames(garden: Path) -> None:
    output = call(garden, "raises", "--verbose").stderr

    assert "frames of mcptrio" not in output
    assert re.search(r'File "[^"]*mcptrio[^"]*", line', output)


def test_failing_tool_at_a_terminal_is_coloured(garden: Path) -> None:
    with at_terminal("call", "--plugin", "garden.py", "raises", cwd=garden.parent) as person:
        assert person.end() == 1

    assert person.shown.count("ValueError: no beds") == 1
    assert f'File "{garden}", line {number("raise ValueError")}, in raises' in person.shown
    assert "reported an error" not in person.shown
    assert b"\x1b[2J" not in person.raw


def test_json_result_has_the_failure_id_and_no_reason(garden: Path) -> None:
    result = call(garden, "raises", "--json")

    [block] = json.loads(result.stdout)["content"]
    match = re.fullmatch(rf"error executing tool raises: see id ({ID}) in the server's log", block["text"])
    assert match is not None, block
    assert f"tool raises failed (id {match[1]})" in result.stderr


def test_log_of_a_started_server_is_shown_with_verbose(garden: Path) -> None:
    command = (sys.executable, "-m", "mcptrio", "run", str(garden))
    done = run("call", "raises", "--", *command, cwd=garden.parent)
    result = run("call", "--verbose", "raises", "--", *command, cwd=garden.parent)

    assert re.search(rf"see id {ID} in the server's log\n--verbose shows the server's log\n$", done.stderr.decode())
    assert b"ValueError: no beds" in result.stderr
    assert b"--verbose" not in result.stderr


def test_isolated_plugin_shows_its_frames_once(garden: Path) -> None:
    (garden.parent / "mcptrio.toml").write_text("[plugins.garden]\nisolate = true\n")
    result = call(garden, "raises")

    assert result.returncode == 1
    assert result.stderr.count("ValueError: no beds") == 1
    assert f'File "{garden}", line {number("raise ValueError")}, in raises' in result.stderr
    assert "reported an error" not in result.stderr


def test_exception_group_of_one_is_unwrapped(garden: Path) -> None:
    output = call(garden, "in_a_nursery").stderr

    assert "\n  ZeroDivisionError: division by zero\n" in output
    assert "Group" not in output


def test_exception_group_of_several_shows_each(garden: Path) -> None:
    output = call(garden, "several").stderr

    assert "ExceptionGroup: Exceptions from Trio nursery (2 sub-exceptions)" in output
    for position in (1, 2):
        assert f"\n    {position}. ZeroDivisionError: division by zero\n" in output


def test_endless_recursion_is_truncated(garden: Path) -> None:
    output = call(garden, "deep").stderr

    assert "RecursionError: maximum recursion depth exceeded" in output
    assert re.search(r"… \d+ frames of repeated calls", output)
    assert len(output.splitlines()) < 50


def test_nested_exception_groups_are_truncated(garden: Path) -> None:
    output = call(garden, "crowd").stderr.splitlines()

    assert 100 < len(output) < 310
    assert output[-1] == "  …"


def test_tool_error_has_no_frames(garden: Path) -> None:
    result = call(garden, "refuses")

    assert result.stderr == "mcptrio: refuses reported an error:\nthe well is dry\n"


def test_failing_resource_shows_the_plugins_frames_once(garden: Path) -> None:
    result = run("read", "--plugin", "garden.py", "bed://0", cwd=garden.parent)
    output = result.stderr.decode()

    assert result.returncode == 3
    assert output.count("ZeroDivisionError") == 1
    assert re.match(rf"\[error\] bed://\{{n\}} failed \(id {ID}\)\n", output), output


@pytest.mark.parametrize(
    ("tool", "message"),
    [
        ("unsendable", "TypeError: $.items[3].when: a datetime.timezone cannot be sent as JSON; return a string,"),
        ("own_instance", "TypeError: a Bed cannot be sent as JSON; return a string,"),
        ("own_class", "TypeError: $[0]: a Bed cannot be sent as JSON; return a string,"),
        ("odd_keys", "TypeError: $.beds: expected keys that are strings, got a tuple"),
        ("promises", 'TypeError: the return value does not fit its annotation: expected an integer, got "three"'),
        ("returns_coroutine", "TypeError: $.count: a coroutine cannot be sent as JSON; write `await helper(…)`"),
    ],
)
def test_unencodable_result_is_named(garden: Path, tool: str, message: str) -> None:
    result = call(garden, tool)

    assert result.returncode == 1
    assert f"\n  {message}" in result.stderr
    assert "mcptrio/" not in result.stderr
    assert "RuntimeWarning" not in result.stderr


@pytest.mark.parametrize(
    ("tool", "message"),
    [
        ("sleeps", "hint: mcptrio runs on Trio, where asyncio does not work: call trio.sleep, not asyncio.sleep"),
        ("yields", "hint: mcptrio runs on Trio, where asyncio does not work: call trio.sleep, not asyncio.sleep"),
        ("in_thread", "hint: Trio cannot be called from here: declare the function with async def"),
        ("adds_coroutine", "hint: a coroutine is used where its result is expected: write await before the call"),
        ("forgets", "coroutine 'helper' was never awaited: write `await helper(…)`"),
    ],
)
def test_asyncio_call_and_missing_await_are_explained_in_one_line(garden: Path, tool: str, message: str) -> None:
    result = call(garden, tool)

    [explained] = [each for each in result.stderr.splitlines() if message in each]
    assert explained.endswith(message)


def test_warning_names_the_line_in_the_plugin(garden: Path) -> None:
    result = call(garden, "forgets")

    assert (result.returncode, result.stdout) == (0, "watered\n")
    assert f"{garden}:{number('    helper()')}: coroutine 'helper' was never awaited" in result.stderr
    assert "tracemalloc" not in result.stderr


def test_warning_at_a_line_of_mcptrio_names_no_line(garden: Path) -> None:
    done = call(garden, "keeps_coroutine")

    assert "[warning] coroutine 'Context.ask' was never awaited: write `await ask(…)`" in done.stderr
    assert "mcptrio/" not in done.stderr


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "def water(:\n",
            "import failed: SyntaxError: invalid syntax (garden.py, line 1)\n"
            '    File "{path}", line 1\n      def water(:\n                ^\n',
        ),
        (
            "import nosuch\n",
            "import failed: ModuleNotFoundError: No module named 'nosuch'\n"
            '    … 4 frames of mcptrio, importlib\n    File "{path}", line 1, in <module>\n      import nosuch\n',
        ),
        (
            "async def water() -> str:\n    return ''\n",
            "nothing to serve: no function is decorated; write @tool, @resource or @prompt above one\n",
        ),
        (
            "from mcptrio import tool\n\n\nclass Garden:\n    @tool\n"
            "    async def water(self) -> str:\n        return ''\n\n\nclass Shed(Garden):\n    pass\n",
            "nothing to serve: expected one class with decorated methods, got Garden, Shed;"
            " write a setup hook that calls server.add with each object, such as server.add(Garden())\n",
        ),
    ],
    ids=["syntax", "import", "no mark", "two classes"],
)
def test_unusable_plugin_file_exits_with_2_and_one_reason(tmp_path: Path, source: str, message: str) -> None:
    path = tmp_path / "garden.py"
    path.write_text(source)
    listed = run("list", "--plugin", str(path), cwd=tmp_path)
    served = run("serve", "--stdio", "--plugin", str(path), cwd=tmp_path)
    reason = message.replace("{path}", str(path))

    assert (listed.returncode, listed.stdout) == (2, b"")
    assert listed.stderr.decode() == f"mcptrio: plugin garden: {reason}"
    assert (served.returncode, served.stdout) == (2, b"")
    log = served.stderr.decode()
    assert re.fullmatch(
        rf"\S+ \S+ ERROR   mcptrio\.plugins: garden failed, and is left out: {re.escape(reason)}"
        r"mcptrio: nothing to serve: garden failed\n",
        log,
    ), log


def test_unused_class_next_to_a_decorated_function_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "garden.py").write_text(
        "from mcptrio import tool\n\n\n@tool\nasync def rest() -> str:\n    return ''\n\n\n"
        "class Garden:\n    @tool\n    async def water(self) -> str:\n        return ''\n"
    )
    result = run("list", "--plugin", "garden.py", cwd=tmp_path)

    assert result.returncode == 0
    assert (
        b"[warning] garden: class Garden has decorated methods (water), but no instance is registered" in result.stderr
    )


def test_hook_without_its_decorator_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "garden.py").write_text(
        "from mcptrio import PluginSetup, tool\n\n\nclass Garden:\n"
        "    def setup(self, server: PluginSetup) -> None:\n        server.set_tool_prefix('g')\n\n"
        "    def doctor(self, patient: str) -> str:\n        return patient\n\n"
        "    @tool\n    async def water(self) -> str:\n        return ''\n"
    )
    result = run("list", "--plugin", "garden.py", cwd=tmp_path)

    assert result.returncode == 0
    warning = b"[warning] garden: `setup` is not called, because it has no decorator: write @hookimpl above it"
    assert result.stderr.splitlines() == [warning]


@pytest.mark.parametrize("command", [("serve", "--stdio"), ("list",)], ids=["serve", "list"])
def test_unusable_plugin_file_at_a_terminal_is_coloured(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "garden.py").write_text("import nosuch\n")
    with at_terminal(*command, "--plugin", "garden.py", cwd=tmp_path) as person:
        assert person.end() == 2

    assert person.shown.count("No module named 'nosuch'") == 1
    assert 'garden.py", line 1, in <module>' in person.shown
    assert "Traceback" not in person.shown


def test_json_log_has_the_exception_as_fields(garden: Path) -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "raises", "_meta": META}}
    env = {"MCPTRIO_LOG_FORMAT": "json"}
    result = run("serve", "--stdio", "--plugin", "garden.py", cwd=garden.parent, stdin=line(request), env=env)

    [entry] = [each for each in map(json.loads, result.stderr.splitlines()) if each["level"] == "error"]
    assert entry["failure_id"] in json.loads(result.stdout)["result"]["content"][0]["text"]
    exception = entry["exception"]
    assert (exception["type"], exception["message"]) == ("ValueError", "no beds: \x1b[2J")
    assert exception["frames"] == [
        {"file": str(garden), "line": number("raise ValueError"), "function": "raises"},
    ]
    assert exception["cause"]["type"] == "ZeroDivisionError"
    assert [frame["function"] for frame in exception["cause"]["frames"]] == ["raises", "divide"]


META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


LIFESPAN = """\
from collections.abc import AsyncGenerator

from mcptrio import lifespan, tool


@lifespan
async def opened() -> AsyncGenerator[None]:
    raise RuntimeError("no database")
    yield


@tool
async def water() -> str:
    return ""
"""


@pytest.mark.parametrize("how", [("--stdio",), ("--http", "--port", "0")], ids=["stdio", "http"])
def test_failed_lifespan_of_the_only_plugin_ends_the_server(tmp_path: Path, how: tuple[str, ...]) -> None:
    path = tmp_path / "garden.py"
    path.write_text(LIFESPAN)
    result = run("serve", *how, "--plugin", "garden.py", cwd=tmp_path)
    log = result.stderr.decode()

    assert (result.returncode, result.stdout) == (2, b"")
    assert log.count("RuntimeError: no database") == 1
    assert f'File "{path}", line 8, in opened\n      raise RuntimeError("no database")' in log
    assert log.endswith("mcptrio: nothing to serve: garden failed\n")
    assert "Traceback" not in log


def test_server_logs_the_plugins_that_it_leaves_out(tmp_path: Path) -> None:
    (tmp_path / "garden.py").write_text(LIFESPAN)
    (tmp_path / "shed.py").write_text("from mcptrio import tool\n\n\n@tool\nasync def rest() -> str:\n    return ''\n")
    result = run("serve", "--stdio", "--plugin", "garden.py", "--plugin", "shed.py", cwd=tmp_path)

    assert result.returncode == 0
    assert b"serving without garden: see the errors above\n" in result.stderr


def test_unknown_hook_parameter_error_lists_the_known_parameters(tmp_path: Path) -> None:
    (tmp_path / "garden.py").write_text(LIFESPAN.replace("opened()", "opened(app: object)"))
    result = run("list", "--plugin", "garden.py", cwd=tmp_path)

    assert result.returncode == 2
    assert result.stderr.decode().endswith(
        "hook `opened`: expected parameters among server, config, got `app: object`\n"
    )


@pytest.mark.parametrize(
    ("plugin", "tool", "argument", "setting"),
    [
        ("fs", "fs_list_directory", "path=.", "folders"),
        ("git", "git_status", "repo_path=.", "repositories"),
        ("code", "code_outline", "path=a.py", "folders"),
        ("documents", "documents_read_document", "path=a.pdf", "folders"),
    ],
)
def test_advice_for_an_unconfigured_plugin_is_shown_once(
    tmp_path: Path, plugin: str, tool: str, argument: str, setting: str
) -> None:
    result = run("call", "--plugin", plugin, tool, argument, cwd=tmp_path)
    warning, error = result.stderr.decode().splitlines()

    assert result.returncode == 1
    assert f'is allowed: set {setting} = ["/absolute/path"] in [plugins.{plugin}]' in warning
    assert error == f"mcptrio: {tool} reported an error: see the warning above"
