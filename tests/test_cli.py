"""The command line: options, their precedence, and errors.

Commands that end before a server starts are called in this process; the others are processes.
"""

from __future__ import annotations

import http.client
import json
import logging
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mcptrio
from mcptrio.cli import main
from tests.distributions import install, one_tool
from tests.error_codes import INVALID_REQUEST
from tests.processes import HELLO, run, serving

__all__: list[str] = []

SETTINGS = """
import json
from mcptrio import Context, tool
from mcptrio.capabilities.catalog import catalog_of

@tool
async def settings(ctx: Context) -> str:
    catalog = catalog_of(ctx.server)
    limits, timeouts = catalog.settings.limits, catalog.settings.timeouts
    return json.dumps({
        "name": catalog.lifecycle.info.name,
        "requests": limits.requests,
        "requests_per_session": limits.requests_per_session,
        "sessions": limits.sessions,
        "request": timeouts.request,
        "idle": timeouts.idle,
        "input": timeouts.input,
        "shutdown": timeouts.shutdown,
        "ping_interval": catalog.settings.ping_interval,
    })
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working directory with a plugin file."""
    (tmp_path / "own.py").write_text(SETTINGS)
    return tmp_path


def settings(folder: Path, *args: str, **env: str) -> dict[str, Any]:
    """The settings of a server with these arguments."""
    with serving("--stdio", *args, cwd=folder, env=env) as served:
        served.greet()
        report: dict[str, Any] = json.loads(served.call("settings"))
        return report


# Misuse


@pytest.fixture
def refused(folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Call ``mcptrio``, check that it exits with 2 and an empty standard output, and return its error."""

    def call(*args: str, **env: str) -> str:
        monkeypatch.chdir(folder)
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "argv", ["mcptrio", *args])
        monkeypatch.setattr(logging.getLogger(), "handlers", [])
        with pytest.raises(SystemExit) as exited:
            main()
        out, err = capfd.readouterr()
        assert (exited.value.code, out) == (2, "")
        return err

    return call


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "expected --stdio, --http, --listen or --transport"),
        (("--http", ":8123"), "unexpected argument :8123: pass --port 8123\n"),
        (("--http", "8123"), "unexpected argument 8123: pass --port 8123\n"),
        (("--http", "--port", "99999"), "--port"),
        (("--http", "--port", "x"), "--port"),
        (("--stdio", "--prot", "1"), "--prot"),
        (("--stdio", "--plugin", "missing.py"), "mcptrio: --plugin: no such file: missing.py\n"),
        (("--stdio", "--plugin", "ownn.py"), "no such file: ownn.py; did you mean `own.py`?"),
        (("--stdio", "--plugin", "."), "mcptrio: no plugin `.` is installed; expected one of "),
        (("--stdio", "--plugin", "own"), "no plugin `own` is installed; did you mean the file `own.py`?"),
        (("--stdio", "--plugin", "everythin"), "no plugin `everythin` is installed; did you mean `everything`?"),
        (("--stdio", "--no-plugin", "everythin"), "no plugin `everythin` is installed; did you mean `everything`?"),
        (("--stdio", "--config", "missing.toml"), "mcptrio: missing.toml: cannot be read: No such file"),
    ],
)
def test_misuse_exits_with_2(refused: Callable[..., str], args: tuple[str, ...], message: str) -> None:
    assert message in refused("serve", *args)


@pytest.mark.parametrize("transport", ["--stdio", "--http"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[http]\nport = \n", "mcptrio.toml:2: expected TOML"),
        (
            "[server]\npage_sice = 5\n",
            "mcptrio.toml:2: server.page_sice: there is no setting `page_sice`;",
        ),
        ("[server.timeouts]\nidle = 'x'\n", "mcptrio.toml:2: server.timeouts.idle: expected a number above 0, got 'x'"),
        ("\n[server]\nenable = ['nots']", "mcptrio.toml:3: server.enable: no plugin `nots` is installed"),
        ("[server]\nenable = ['gone.py']", "mcptrio.toml:2: server.enable: no such file: "),
        ("[server]\nenable=[]\ndisable = ['nots']", "mcptrio.toml:3: server.disable: no plugin `nots` is installed"),
        ("[server]\nkey_files = ['short']", "mcptrio.toml:2: server.key_files: short: expected a sealing key of at le"),
        ("[server]\nkey_files = ['gone']", "mcptrio.toml:2: server.key_files: gone: cannot be read: No such file"),
    ],
)
def test_invalid_configuration_file_exits_with_2(
    refused: Callable[..., str], folder: Path, transport: str, text: str, message: str
) -> None:
    (folder / "mcptrio.toml").write_text(text)
    (folder / "short").write_text("12345")

    assert f"mcptrio: {message}" in refused("serve", transport, "--port=0")


@pytest.mark.parametrize("transport", ["--stdio", "--http"])
def test_invalid_configuration_ends_the_process_with_one_line(tmp_path: Path, transport: str) -> None:
    (tmp_path / "mcptrio.toml").write_text("[server]\nkey_files = ['gone']\nenable = []\n")
    ended = run("serve", transport, "--port=0", cwd=tmp_path)

    assert (ended.returncode, ended.stdout) == (2, "")
    message = "mcptrio.toml:2: server.key_files: gone: cannot be read: No such file or directory"
    assert ended.stderr == f"mcptrio: {message}\n"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("MCPTRIO_KEYS", "0123456789abcdef,short", "MCPTRIO_KEYS: expected a sealing key of at least 16 bytes, got 5"),
        (
            "MCPTRIO_SERVER_LIMITS_SESSIONS",
            "many",
            "MCPTRIO_SERVER_LIMITS_SESSIONS: expected an integer of at least 1, got",
        ),
        (
            "MCPTRIO_SERVER_LIMITS_REQUESTS",
            "0",
            "MCPTRIO_SERVER_LIMITS_REQUESTS: expected an integer of at least 1",
        ),
        ("MCPTRIO_SERVER_TIMEOUTS_IDLE", "nan", "MCPTRIO_SERVER_TIMEOUTS_IDLE: expected a number above 0, got nan"),
        ("MCPTRIO_SERVER_MESSAGE_BYTES", "5", "MCPTRIO_SERVER_MESSAGE_BYTES: expected an integer of at least 1024"),
        ("MCPTRIO_TOOLS_READ_ONLY", "maybe", "MCPTRIO_TOOLS_READ_ONLY: expected true or false, got 'maybe'"),
        ("MCPTRIO_SERVER_ENABLE", "own.py,gone.py", "MCPTRIO_SERVER_ENABLE: no such file: "),
        ("MCPTRIO_HTTP_PROT", "1", "MCPTRIO_HTTP_PROT: there is no such setting; did you mean `MCPTRIO_HTTP_PORT`?"),
        ("MCPTRIO_HTTP_PATH", "mcp", "MCPTRIO_HTTP_PATH: expected a path that begins with /, got 'mcp'"),
        (
            "MCPTRIO_HTTP_PATH",
            "/sse",
            "MCPTRIO_HTTP_PATH: expected another path than /sse and /messages, or legacy_sse = false",
        ),
        ("MCPTRIO_LOG_FORMAT", "xml", "MCPTRIO_LOG_FORMAT: expected one of text, json, got 'xml'"),
    ],
)
def test_invalid_environment_variable_exits_with_2(
    refused: Callable[..., str], name: str, value: str, message: str
) -> None:
    assert message in refused("serve", "--http", **{name: value})


# Precedence


def test_option_precedes_environment_precedes_file_precedes_default(folder: Path) -> None:
    (folder / "mcptrio.toml").write_text(
        "[server]\nname = 'filed'\nping_interval = 9\n"
        "timeouts = { request = 101, idle = 102, input = 103 }\nlimits = { requests = 11, sessions = 12 }\n"
    )
    effective = settings(
        folder,
        "--plugin=own.py",
        MCPTRIO_SERVER_ENABLE="gone.py",
        MCPTRIO_SERVER_TIMEOUTS_IDLE="202",
        MCPTRIO_SERVER_LIMITS_REQUESTS_PER_SESSION="22",
        MCPTRIO_SERVER_TIMEOUTS_SHUTDOWN="0.5",
    )

    assert effective == {
        "name": "filed",
        "request": 101,
        "idle": 202,
        "input": 103,
        "shutdown": 0.5,
        "requests": 11,
        "requests_per_session": 22,
        "sessions": 12,
        "ping_interval": 9,
    }


def test_plugins_are_read_from_the_environment(folder: Path) -> None:
    (folder / "second.py").write_text(one_tool("second"))
    env = {"MCPTRIO_SERVER_ENABLE": "own.py, second.py"}
    with serving("--stdio", cwd=folder, env=env) as served:
        assert served.greet()["serverInfo"]["name"] == "mcptrio"
        assert served.call("second") == "done"
        assert json.loads(served.call("settings"))["sessions"] == 10_000


def test_paths_are_relative_to_the_given_configuration_file(folder: Path) -> None:
    there = folder / "etc"
    there.mkdir()
    (there / "there.py").write_text(SETTINGS)
    (there / "key").write_bytes(b"0123456789abcdef\n")
    (there / "other.toml").write_text("[server]\nname = 'other'\nenable = ['there.py']\nkey_files = ['key']\n")

    assert settings(folder, "--config=etc/other.toml")["name"] == "other"


def test_plugin_named_by_option_is_served_even_if_the_file_disables_it(tmp_path: Path) -> None:
    install(tmp_path / "site", "cli-one", modules={"cli_one": one_tool("one")}, one="cli_one")
    (tmp_path / "mcptrio.toml").write_text("[server]\ndisable = ['one']\n")
    site = str(tmp_path / "site")

    listed = {
        args: {
            each["name"]: each["state"]
            for each in json.loads(run(*args, cwd=tmp_path, PYTHONPATH=site).stdout)["plugins"]
        }
        for args in [
            ("plugins", "--json"),
            ("plugins", "--json", "--plugin=one"),
            ("plugins", "--json", "--plugin=one", "--no-plugin=one"),
        ]
    }
    assert [states["one"] for states in listed.values()] == ["disabled", "loaded", "disabled"]
    assert [states["time"] for states in listed.values()] == ["loaded", "disabled", "disabled"]


def test_message_size_limit_of_the_environment_precedes_the_file(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(one_tool("one"))
    (tmp_path / "mcptrio.toml").write_text(
        "[server.message]\nbytes = 1000000\n[http]\nhost = 'localhost'\npath = '/filed'\n"
    )
    with serving(
        "--http",
        "--port=0",
        "--host=127.0.0.1",
        "--plugin=own.py",
        cwd=tmp_path,
        env={"MCPTRIO_SERVER_MESSAGE_BYTES": "2000", "MCPTRIO_SERVER_MESSAGE_DEPTH": "8"},
    ) as served:
        port = served.port
        assert f"serving http://127.0.0.1:{port}/filed" in served.stderr
        assert post(port, "/filed", {**HELLO, "x": "y" * 2000})[0] == 413
        status, body = post(port, "/filed", {**HELLO, "x": [[[[[[[[1]]]]]]]]})
        assert (status, json.loads(body)["error"]["code"]) == (400, INVALID_REQUEST)
        assert post(port, "/filed", HELLO)[0] == 200


def post(port: int, path: str, message: Any) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    try:
        connection.request("POST", path, json.dumps(message), headers)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


# Listing


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    site = tmp_path / "site"
    install(
        site,
        "cli-good",
        "2.1",
        modules={"cli_good": "import os\nprint('from Python')\nos.system('echo from a child')\n" + one_tool("fine")},
        good="cli_good",
    )
    install(site, "cli-broken", modules={"cli_broken": "raise RuntimeError('no such luck')"}, broken="cli_broken")
    return site


def test_json_list_of_plugins_is_the_only_output(tmp_path: Path, installed: Path) -> None:
    """A plugin's output during its import goes to standard error."""
    ended = run("plugins", "--json", "--plugin=good", "--plugin=broken", cwd=tmp_path, PYTHONPATH=str(installed))
    listed = {each.pop("name"): each for each in json.loads(ended.stdout)["plugins"]}

    assert ended.returncode == 0
    assert listed["good"].pop("import_seconds") > 0
    assert listed["broken"].pop("import_seconds") > 0
    assert listed["good"] == {
        "version": "2.1",
        "distribution": "cli-good",
        "state": "loaded",
        "failure": None,
        "offers": {"tools": ["good_fine"]},
        "tokens": 30,
        "warnings": [],
        "withheld": {},
        "isolated": False,
    }
    assert listed["broken"] == {
        "version": "1.0",
        "distribution": "cli-broken",
        "state": "quarantined",
        "failure": "import failed: RuntimeError: no such luck",
        "offers": {},
        "tokens": 0,
        "warnings": [],
        "withheld": {},
        "isolated": False,
    }
    assert listed["everything"]["state"] == "disabled"
    assert "from Python" in ended.stderr
    assert "from a child" in ended.stderr
    assert "no such luck" in ended.stderr


def test_plugins_are_listed_as_a_table(tmp_path: Path, installed: Path) -> None:
    ended = run("plugins", "--plugin=good", "--plugin=broken", cwd=tmp_path, PYTHONPATH=str(installed))
    table, total, failure = ended.stdout.split("\n\n")
    rows = [re.split(r"  +", row) for row in table.splitlines()]

    assert ended.returncode == 0
    assert rows[0] == ["NAME", "VERSION", "DISTRIBUTION", "STATE", "TOOLS", "TOKENS", "IMPORT", "CONTRIBUTES"]
    listed = {row[0]: [*row[1:6], row[7]] for row in rows}
    assert listed["good"] == ["2.1", "cli-good", "loaded", "1", "30", "1 tool"]
    assert listed["broken"] == ["1.0", "cli-broken", "quarantined", "-", "-", "-"]
    assert total == "1 tool, about 30 tokens in each conversation (estimate: bytes / 4)"
    assert failure == "broken: import failed: RuntimeError: no such luck\n"


@pytest.mark.parametrize("args", [("serve", "--stdio"), ("serve", "--http", "--port=0")])
def test_strict_option_makes_a_broken_plugin_fatal(tmp_path: Path, installed: Path, args: tuple[str, ...]) -> None:
    ended = run(*args, "--strict", "--plugin=broken", cwd=tmp_path, PYTHONPATH=str(installed))

    assert (ended.returncode, ended.stdout) == (2, "")
    assert "mcptrio: plugin broken (from cli-broken): import failed: RuntimeError: no such luck" in ended.stderr
    assert ended.stderr.count("RuntimeError: no such luck") == 1


def test_table_of_an_unknown_plugin_is_reported(folder: Path) -> None:
    (folder / "mcptrio.toml").write_text("[plugins.unheard]\nx = 1\n")
    ended = run("serve", "--stdio", cwd=folder)

    assert ended.returncode == 0
    assert "WARNING mcptrio.cli: mcptrio.toml:1: plugins.unheard: no such plugin is installed\n" in ended.stderr


def test_table_with_a_name_like_that_of_the_named_plugin_is_reported(folder: Path) -> None:
    (folder / "mcptrio.toml").write_text("[plugins.unheard]\nx = 1\n[plugins.owm]\nx = 1\n")
    ended = run("serve", "--stdio", "--plugin=own.py", cwd=folder)

    assert ended.returncode == 0
    assert "unheard" not in ended.stderr
    assert "mcptrio.toml:3: plugins.owm: no such plugin is installed; did you mean `own`?" in ended.stderr


# Other options


def test_version_option_prints_the_version(tmp_path: Path) -> None:
    ended = run("--version", cwd=tmp_path)

    assert (ended.returncode, ended.stdout) == (0, f"mcptrio, version {mcptrio.__version__}\n")


@pytest.mark.parametrize("args", [("--help",), ("serve", "-h"), ("plugins", "--help")])
def test_help_of_the_requested_command_is_printed(tmp_path: Path, args: tuple[str, ...]) -> None:
    ended = run(*args, cwd=tmp_path)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("Usage: mcptrio")


def test_json_log_starts_with_the_first_line_of_stderr(tmp_path: Path, installed: Path) -> None:
    args = ("--http", "--port=0", "--plugin=broken", "--plugin=good", "--log-level=error")
    with serving(*args, cwd=tmp_path, env={"PYTHONPATH": str(installed), "MCPTRIO_LOG_FORMAT": "json"}) as served:
        served.until('"serving http')
        entries = [json.loads(entry) for entry in served.stderr.splitlines()]

    assert [entry["level"] for entry in entries] == ["error", "info"]
    assert entries[0]["message"].startswith("broken (cli-broken 1.0) failed, and is left out: import failed")
    assert (entries[0]["exception"]["type"], entries[0]["exception"]["message"]) == ("RuntimeError", "no such luck")
    assert re.fullmatch(r"serving http://127\.0\.0\.1:\d+/mcp", entries[1]["message"])


def test_start_logs_the_plugins_and_their_tool_counts(folder: Path) -> None:
    (folder / "own.py").write_text(one_tool("water"))
    ended = run("serve", "--stdio", "--plugin=own.py", cwd=folder)

    assert ended.returncode == 0
    assert "mcptrio.serve: plugins: own (1 tool)\n" in ended.stderr


def test_log_level_option_is_applied(folder: Path) -> None:
    (folder / "own.py").write_text(
        SETTINGS + "\nimport logging\nlog = logging.getLogger('own')\nlog.info('i')\nlog.warning('w')\n"
    )
    ended = run("serve", "--stdio", "--plugin=own.py", "--log-level=warning", cwd=folder)

    assert ended.returncode == 0
    assert "WARNING own: w" in ended.stderr
    assert "own: i" not in ended.stderr
