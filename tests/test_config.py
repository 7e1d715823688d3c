"""The configuration file: its keys and its errors."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcptrio.errors import ConfigError
from mcptrio.serve.config import ServeConfig, ServerTable, load_config
from mcptrio.serve.http_options import HTTPTable
from mcptrio.serving import ServerLimits, Timeouts

__all__: list[str] = []

FULL = """\
[server]
name = "files"
instructions = '''
Read first.
[http]
port = "this is text"
'''
enable = ["fs", "own.py"]
disable = ["everything"]
page_size = 20
ping_interval = 0
message.bytes = 1048576
audience = "files.example"
key_files = ["key"]
timeouts.shutdown = inf

[server.limits]
sessions = 10
parked = 0

[http]
host = "::1"
port = 0
path = "/files"
allow_hosts = ["*"]
body_timeout = 3

[plugins.fs]
timeout = 9
folders = ["/srv"]
"""


def read(tmp_path: Path, text: str | bytes) -> ServeConfig:
    file = tmp_path / "mcptrio.toml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_config(file)


def refusal(tmp_path: Path, text: str | bytes) -> str:
    """Return the error of a file, without the folder."""
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    return str(caught.value).removeprefix(f"{tmp_path}/")


def test_every_setting_is_read(tmp_path: Path) -> None:
    config = read(tmp_path, FULL)

    server, http = config.server, config.http
    assert (server.name, server.page_size, server.ping_interval) == ("files", 20, 0)
    assert server.instructions is not None
    assert "this is text" in server.instructions
    assert (server.enable, server.disable) == (("fs", str(tmp_path / "own.py")), ("everything",))
    assert server.timeouts == Timeouts(shutdown=inf)
    assert server.limits == ServerLimits(sessions=10, parked=0)
    assert (http.host, http.port, http.path, http.allow_hosts, http.body_timeout) == ("::1", 0, "/files", ("*",), 3)
    assert config.plugins == {"fs": {"timeout": 9, "folders": ["/srv"]}}
    assert (server.message.bytes, server.audience, server.key_files) == (1048576, "files.example", (tmp_path / "key",))


def test_empty_file_sets_nothing(tmp_path: Path) -> None:
    config = read(tmp_path, "")

    assert config.server == ServerTable()
    assert config.http == HTTPTable()
    assert not config.plugins


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # Where: a key in its table, a dotted key, a table on one line, a table, a quoted part.
        ("[http]\n\nport = 'x'", "mcptrio.toml:3: http.port: expected an integer from 0 to 65535, got 'x'"),
        ("http.port = -1", "mcptrio.toml:1: http.port: expected an integer from 0 to 65535, got -1"),
        ("[server]\ntimeouts.idle = 0", "mcptrio.toml:2: server.timeouts.idle: expected a number above 0, got 0"),
        (
            "[server]\nname = 'x'\nlimits = { sessions = 1, requests = 1.5 }",
            "mcptrio.toml:3: server.limits.requests: expected an integer of at least 1, got 1.5",
        ),
        ("[http]\nport = 1\n[plugins]\nfs = 5", "mcptrio.toml:4: plugins.fs: expected a table, got 5"),
        ("\n[server]\n[server.timeouts]\nidle = nan", "mcptrio.toml:4: server.timeouts.idle: expected a number above"),
        ("[plugins.fs]\nx=1\n[plugins]\n'a b'=-2", "mcptrio.toml:4: plugins.a b: expected a table, got -2"),
        ("server = 5", "mcptrio.toml:1: server: expected a table, got 5"),
        # A multi-line string that looks like a table is not a table.
        ("[server]\nname = '''\n[http]\nport = 5\n'''\n[http]\nport = true", "mcptrio.toml:7: http.port: expected"),
        # What: kinds.
        ("[server]\nname = 5", "mcptrio.toml:2: server.name: expected a string, got 5"),
        ("[server]\nenable = 'fs'", "mcptrio.toml:2: server.enable: expected a list or nothing, got 'fs'"),
        ("[server]\nenable = ['fs', 1]", "mcptrio.toml:2: server.enable: expected a string, got a list"),
        ("[server]\npage_size = 0", "mcptrio.toml:2: server.page_size: expected an integer of at least 1, got 0"),
        ("[server]\npage_size = true", "mcptrio.toml:2: server.page_size: expected an integer of at least 1, got true"),
        ("[server]\nping_interval = -1", "mcptrio.toml:2: server.ping_interval: expected a number of at least 0"),
        ("[server.message]\nbytes = 10", "mcptrio.toml:2: server.message.bytes: expected an integer of at least 1024"),
        ("[http]\nport = 99999", "mcptrio.toml:2: http.port: expected an integer from 0 to 65535, got 99999"),
        ("[http]\npath = 'mcp'", "mcptrio.toml:2: http.path: expected a path that begins with /, got 'mcp'"),
        ("[http]\nlegacy_sse = 'no'", "mcptrio.toml:2: http.legacy_sse: expected true or false, got 'no'"),
        ("[http]\nstreams = -1", "mcptrio.toml:2: http.streams: expected an integer of at least 1, got -1"),
        ("[http]\nhost = 2020-01-01", "mcptrio.toml:2: http.host: expected a string, got a date or time"),
        # Names.
        (
            "[htpp]\nx = 5",
            "mcptrio.toml:1: htpp: there is no such table; did you mean `http`?",
        ),
        (
            "[server]\nport = 5",
            "mcptrio.toml:2: server.port: there is no setting `port` here; it belongs in [http]",
        ),
        (
            "[server.limits]\nidle = 5",
            "mcptrio.toml:2: server.limits.idle: there is no setting `idle` here; it belongs in [server.timeouts]",
        ),
        (
            "[log]\nx = 5",
            "mcptrio.toml:2: log.x: there is no setting `x`; expected one of `format`, `level`",
        ),
        (
            "x = 1",
            "mcptrio.toml:1: x: there is no such table; expected one of `server`, `tools`, `http`, ",
        ),
        # TOML itself.
        ("[http]\nport = \n", "mcptrio.toml:2: expected TOML: Invalid value"),
        ("[server]\nname = hello", "mcptrio.toml:2: expected TOML: Invalid value; put strings in double quotes"),
        (
            "[http]\nhost = 127.0.0.1",
            "mcptrio.toml:2: expected TOML: Expected newline or end of document after a statement; put strings ",
        ),
        (
            '[server]\nenable = [\n  "a",\n  b\n]',
            "mcptrio.toml:4: expected TOML: Invalid value; put strings in double ",
        ),
        ("[http]\nport = 1\nport = 2", "mcptrio.toml:3: expected TOML: Cannot overwrite a value"),
        ("[http]\nhost = '''", "mcptrio.toml:2: expected TOML: "),
        ('[http]\nhost = "a\n', "mcptrio.toml:2: expected TOML: Illegal character '\\n'; put a quote at the end"),
        (b"[http]\nhost = '\xff'", "mcptrio.toml: expected UTF-8, got other bytes at 15"),
        ("a = " + "[" * 5000, "mcptrio.toml"),
    ],
)
def test_error_names_file_line_and_key(tmp_path: Path, text: str | bytes, message: str) -> None:
    assert refusal(tmp_path, text).startswith(message)


@pytest.mark.parametrize(
    ("table", "wrong", "meant"),
    [
        ("server", "instruction", "instructions"),
        ("server", "page-size", "page_size"),
        ("http", "prot", "port"),
        ("server.timeouts", "shut_down", "shutdown"),
        ("server.limits", "session", "sessions"),
    ],
)
def test_error_for_a_misspelt_key_suggests_the_right_one(tmp_path: Path, table: str, wrong: str, meant: str) -> None:
    message = refusal(tmp_path, f"# a comment\n[{table}]\n{wrong} = 1\n")

    assert message == f"mcptrio.toml:3: {table}.{wrong}: there is no setting `{wrong}`; did you mean `{meant}`?"


@pytest.mark.parametrize("what", ["missing", "folder"])
def test_unreadable_file_is_refused(tmp_path: Path, what: str) -> None:
    (tmp_path / "folder").mkdir()

    with pytest.raises(ConfigError, match=rf"{what}: cannot be read: (No such file|Is a directory)"):
        load_config(tmp_path / what)


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    config = read(tmp_path, "")

    assert config.resolve_path("key") == tmp_path / "key"
    assert config.resolve_path("/etc/key") == Path("/etc/key")
    assert ServeConfig().resolve_path("key") == Path("key")


VALUES = st.one_of(
    st.integers(-10, 10).map(str),
    st.floats().map(lambda number: repr(number)),
    st.booleans().map(lambda value: str(value).lower()),
    st.sampled_from(["'text'", "[]", "['a']", "[1]", "{}", "{ a = 1 }", "1979-05-27", "'''\n[http]\n'''"]),
)
KEYS = st.sampled_from(
    ["name", "port", "timeouts", "limits", "idle", "sessions", "enable", "timeout", "page_size", '"a b"', "server.name"]
)
TABLES = st.sampled_from(
    ["server", "http", "plugins", "plugins.fs", "server.timeouts", "server.limits", "'server'.timeouts", "other"]
)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(TABLES, st.lists(st.tuples(KEYS, VALUES), max_size=4)), max_size=4))
def test_any_file_is_read_or_refused_with_a_line(
    tmp_path: Path, tables: list[tuple[str, list[tuple[str, Any]]]]
) -> None:
    text = "".join(f"[{table}]\n" + "".join(f"{key} = {value}\n" for key, value in body) for table, body in tables)
    try:
        config = read(tmp_path, text)
    except ConfigError as error:
        where, line, *_ = str(error).removeprefix(f"{tmp_path}/").split(":")
        assert where == "mcptrio.toml"
        assert 1 <= int(line) <= text.count("\n") + 1
    else:
        assert isinstance(config, ServeConfig)


def test_message_limits_can_be_set(tmp_path: Path) -> None:
    path = tmp_path / "mcptrio.toml"
    path.write_text("[server.message]\ndepth = 16\nbatch = 3\n")
    config = load_config(path)

    assert (config.server.message.depth, config.server.message.batch) == (16, 3)
