"""``mcp.json`` in the forms of its hosts: valid files, refused ones, and errors without secrets."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcptrio import Command, ConfigError, Endpoint
from mcptrio.connecting.mcp_json import AskInput, Input, is_reference, load_mcp_json, read_entry, read_reference
from mcptrio.connecting.mcp_json.jsonc import MAX_DEPTH, JSONProblem, parse

__all__: list[str] = []

SECRET = "s3cr3t-do-not-show"


def written(folder: Path, content: Any, name: str = "mcp.json") -> Path:
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))
    return file


def read_mcp_json(file: Path, ask: AskInput | None = None) -> dict[str, Any]:
    """Return the targets of all enabled servers of a file, by name."""
    servers = load_mcp_json(file, ask=ask)
    return {name: servers.read(name) for name in servers.names}


def refusal(file: Path, **options: Any) -> str:
    with pytest.raises(ConfigError) as refused:
        read_mcp_json(file, **options)
    assert SECRET not in str(refused.value)
    assert SECRET not in repr(refused.value.__cause__)
    return str(refused.value).replace(str(file.parent), "")


# Shapes


def test_file_of_claude_and_cursor_is_read(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        {
            "mcpServers": {
                "fs": {"command": "npx", "args": ["-y", "server-fs", "/tmp"], "env": {"LEVEL": "debug"}},
                "web": {"url": "https://mcp.example/mcp", "headers": {"Authorization": "Bearer x"}},
            }
        },
    )

    assert read_mcp_json(file) == {
        "fs": Command(args=("npx", "-y", "server-fs", "/tmp"), env={"LEVEL": "debug"}),
        "web": Endpoint(url="https://mcp.example/mcp", headers={"Authorization": "Bearer x"}),
    }


def test_file_of_vs_code_is_read(tmp_path: Path) -> None:
    text = """// my servers
    {
        "servers": {
            /* over a pipe */
            "fs": {"type": "stdio", "command": "npx", "args": ["https://no.comment/*here*/",], "cwd": "sub"},
            "web": {"type": "http", "url": "https://mcp.example/mcp", "gallery": true, "version": "1.0"}, // not here
        },
        "inputs": [],
    }
    """
    file = written(tmp_path, text, ".vscode/mcp.json")

    assert read_mcp_json(file) == {
        "fs": Command(args=("npx", "https://no.comment/*here*/"), cwd=tmp_path / "sub"),
        "web": Endpoint(url="https://mcp.example/mcp", transport="auto"),
    }


@pytest.mark.parametrize(
    ("entry", "transport"),
    [
        ({"url": "http://127.0.0.1/mcp"}, "auto"),
        ({"serverUrl": "http://127.0.0.1/mcp"}, "auto"),
        ({"httpUrl": "http://127.0.0.1/mcp"}, "http"),
        ({"type": "http", "url": "http://127.0.0.1/mcp"}, "auto"),
        ({"type": "streamable-http", "url": "http://127.0.0.1/mcp"}, "http"),
        ({"type": "streamableHttp", "url": "http://127.0.0.1/mcp"}, "http"),
        ({"type": "streamable_http", "url": "http://127.0.0.1/mcp"}, "http"),
        ({"type": "sse", "url": "http://127.0.0.1/mcp"}, "sse"),
    ],
)
def test_every_name_of_the_http_transport_is_accepted(entry: dict[str, Any], transport: str) -> None:
    assert read_entry(entry) == Endpoint(url="http://127.0.0.1/mcp", transport=transport)  # type: ignore[arg-type]


def test_disabled_servers_are_skipped(tmp_path: Path) -> None:
    servers = {"on": {"command": "a", "disabled": False}, "off": {"command": "b", "disabled": True}}
    file = written(tmp_path, {"mcpServers": servers})

    assert list(read_mcp_json(file)) == ["on"]
    with pytest.raises(ConfigError, match=r"mcp\.json:\d+: mcpServers\.off\.disabled: expected false"):
        load_mcp_json(file).read("off")


def test_null_members_are_absent() -> None:
    entry = {"command": "a", "args": None, "cwd": None, "env": {"KEPT": 1, "GONE": None}, "url": None}

    assert read_entry(entry) == Command(args=("a",), env={"KEPT": "1"})


def test_host_specific_keys_are_ignored() -> None:
    entry = {"command": "a", "alwaysAllow": ["x"], "timeout": 60, "trust": True, "description": "…", "dev": {}}

    assert read_entry(entry) == Command(args=("a",))


def test_file_of_zed_is_read(tmp_path: Path) -> None:
    servers = {
        "fs": {"source": "custom", "command": "npx", "args": ["-y"], "env": {"A": "1"}},
        "web": {"url": "https://mcp.example/mcp", "headers": {"X": "y"}},
        "off": {"command": "npx", "enabled": False},
        "shop": {"source": "extension", "settings": {"key": SECRET}},
    }
    file = load_mcp_json(written(tmp_path, {"theme": "One", "context_servers": servers}, ".zed/settings.json"))

    assert file.read("fs") == Command(args=("npx", "-y"), env={"A": "1"})
    assert file.read("web") == Endpoint(url="https://mcp.example/mcp", headers={"X": "y"})
    assert "off" not in file.names
    with pytest.raises(ConfigError, match=r"context_servers\.off\.enabled: expected true"):
        file.read("off")
    with pytest.raises(ConfigError, match=r"context_servers\.shop: expected either command or url, got .* extension"):
        file.read("shop")


def test_file_of_opencode_is_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A", "1")
    servers = {
        "fs": {"type": "local", "command": ["npx", "-y", "{env:A}"], "environment": {"K": "x{env:A}", "L": "${A}"}},
        "web": {"type": "remote", "url": "https://mcp.example/mcp", "headers": {"A": "{env:A}"}, "oauth": False},
        "login": {"type": "remote", "url": "https://mcp.example/mcp", "oauth": {"clientId": "c"}},
        "off": {"enabled": False},
        "file": {"type": "local", "command": ["a", "{file:~/.key}"]},
        "unset": {"type": "local", "command": ["a", "{env:NONE}"]},
        "empty": {"type": "local", "command": []},
    }
    file = load_mcp_json(written(tmp_path, {"mcp": servers}, "opencode.json"))

    assert file.read("fs") == Command(args=("npx", "-y", "1"), env={"K": "x1", "L": "${A}"})
    assert file.read("web") == Endpoint(url="https://mcp.example/mcp", headers={"A": "1"})
    assert not caplog.records
    file.read("login")
    assert "mcp.login.oauth: ignored" in caplog.text
    assert "off" not in file.names
    for name, message in (
        ("file", r"command\[1\]: \{file:…\}: expected \{env:NAME\}"),
        ("unset", r"command\[1\]: \{env:NONE\}: expected NONE in the environment"),
        ("empty", "command: expected a program"),
    ):
        with pytest.raises(ConfigError, match=rf"opencode\.json:\d+: mcp\.{name}\.{message}"):
            file.read(name)


def test_settings_file_of_vs_code_is_read(tmp_path: Path) -> None:
    mcp = {"inputs": INPUTS, "servers": {"fs": {"command": "a", "args": ["${workspaceFolder}", "${input:key}"]}}}
    file = written(tmp_path, {"editor.tabSize": 2, "mcp": mcp}, ".vscode/settings.json")

    assert read_mcp_json(file, ask=lambda _: "1") == {"fs": Command(args=("a", str(tmp_path), "1"))}
    assert "mcp.inputs: expected a list" in refusal(written(tmp_path, {"mcp": {"servers": {}, "inputs": {}}}))


def test_other_keys_of_gemini_cli_are_ignored(tmp_path: Path) -> None:
    file = written(tmp_path, {"mcp": {"allowed": ["fs"]}, "mcpServers": {"fs": {"command": "a"}}}, "settings.json")

    assert read_mcp_json(file) == {"fs": Command(args=("a",))}


def test_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_bytes(b'\xef\xbb\xbf{"servers": {}}')

    assert read_mcp_json(file) == {}


# Variables


def test_environment_variables_are_substituted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"A": "1", "B": "${A}", "EMPTY": ""}.items():
        monkeypatch.setenv(name, value)
    args = ["${A}", "${env:A}-${B}", "${NONE:-x:-y}", "${env:NONE:-}", "${EMPTY:-x}", "$A", "${1}", "a${/}b", "${A"]
    file = written(tmp_path, {"servers": {"s": {"command": "${A}/bin", "args": args}}})
    [command] = read_mcp_json(file).values()

    assert isinstance(command, Command)
    assert command.args == ("1/bin", "1", "1-${A}", "x:-y", "", "", "$A", "${1}", f"a{os.sep}b", "${A")


def test_folder_variables_are_substituted(tmp_path: Path) -> None:
    entry = {
        "command": "~/bin/x",
        "args": ["${workspaceFolder}", "${workspaceFolderBasename}", "${userHome}"],
        "cwd": "${workspaceFolder}/sub",
    }
    file = written(tmp_path, {"servers": {"s": entry}}, ".cursor/mcp.json")
    [command] = read_mcp_json(file).values()

    assert isinstance(command, Command)
    assert command.args == (f"{Path.home()}/bin/x", str(tmp_path), tmp_path.name, str(Path.home()))
    assert command.cwd == tmp_path / "sub"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("${NONE}", "${NONE}: expected NONE in the environment, got nothing"),
        ("${env:NONE}", "${env:NONE}: expected NONE in the environment, got nothing"),
        ("${command:pick}", "${command:…}: expected a variable of the kind env: or input:, got another kind"),
        ("${A:-${B}}", "${A:-…}: expected a default without a variable, got one with a variable"),
        ("${input:none}", "${input:none}: expected an input with that id in the file, got none"),
        ("${BIG}" * 10, "expected at most 131072 characters, with its variables, got more"),
    ],
)
def test_variable_without_a_value_is_refused(
    tmp_path: Path, text: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BIG", "x" * 20_000)
    file = written(tmp_path, {"mcpServers": {"s": {"command": "a", "args": ["b", text]}}})

    assert refusal(file) == f"/mcp.json:7: mcpServers.s.args[1]: {message}"


def test_input_reference_in_a_single_entry_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected a file that declares the input"):
        read_entry({"command": "a", "args": ["${input:x}"]})


# Inputs

INPUTS = [
    {"id": "key", "type": "promptString", "description": "API key", "password": True},
    {"id": "zone", "type": "pickString", "options": ["eu", {"label": "US", "value": "us"}], "default": "eu"},
]


def test_inputs_are_requested_once_and_only_if_needed(tmp_path: Path) -> None:
    asked: list[Input] = []

    def ask(input: Input) -> str:
        asked.append(input)
        return input.default or SECRET

    entry = {"command": "a", "args": ["${input:key}"], "env": {"KEY": "${input:key}"}}
    zone = {"command": "${input:zone}"}
    file = written(tmp_path, {"servers": {"one": entry, "two": entry, "three": zone}, "inputs": INPUTS})
    read = read_mcp_json(file, ask=ask)

    assert asked == [
        Input(id="key", description="API key", is_secret=True),
        Input(id="zone", options=("eu", "us"), default="eu"),
    ]
    assert read["two"] == Command(args=("a", SECRET), env={"KEY": SECRET})


@pytest.mark.parametrize(
    ("input", "ask", "message"),
    [
        ("key", None, "${input:key}: expected an answer from the user (API key), but this program cannot ask"),
        ("key", lambda _: None, "${input:key}: expected an answer from the user, got none"),
        ("zone", lambda _: SECRET, "${input:zone}: expected one of its 2 options, got something else"),
    ],
)
def test_input_without_a_value_is_refused(tmp_path: Path, input: str, ask: Any, message: str) -> None:
    file = written(tmp_path, {"servers": {"s": {"command": f"${{input:{input}}}"}}, "inputs": INPUTS})

    assert message in refusal(file, ask=ask)


# Files of variables


def test_variants_of_single_hosts_are_accepted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", "${A}")
    env = {"ON": True, "OFF": False, "KEY": "$KEY", "PRICE": "$5", "UNKNOWN": "$NONE"}
    entries = {
        "gemini": {"command": "a", "env": env},
        "fastmcp": {"url": "https://example.com/sse", "transport": "sse", "auth": "oauth"},
    }
    file = written(tmp_path, {"mcpServers": entries})
    read = read_mcp_json(file)

    assert read["gemini"] == Command(
        args=("a",), env={"ON": "true", "OFF": "false", "KEY": "${A}", "PRICE": "$5", "UNKNOWN": "$NONE"}
    )
    assert read["fastmcp"] == Endpoint(url="https://example.com/sse", transport="sse")
    assert "mcpServers.fastmcp.auth: ignored; write the header into headers instead" in caplog.text


def test_env_file_is_read(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(
        "# comment\n\nPLAIN=a b # comment\nexport EXPORTED = 'single # kept'\r\n"
        'DOUBLE="one\\ntwo \\"three\\""  # comment\nEMPTY=\nHASH=a#b\nVAR=${HOME}\nPLAIN_TOO="open\n'
    )
    file = written(
        tmp_path, {"servers": {"s": {"command": "a", "envFile": "${workspaceFolder}/.env", "env": {"HASH": "x"}}}}
    )
    [command] = read_mcp_json(file).values()

    assert isinstance(command, Command)
    assert command.env == {
        "PLAIN": "a b",
        "EXPORTED": "single # kept",
        "DOUBLE": 'one\ntwo "three"',
        "EMPTY": "",
        "HASH": "x",
        "VAR": "${HOME}",
        "PLAIN_TOO": '"open',
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "/mcp.json:5: servers.s.envFile: /.env: cannot be read: No such file"),
        (f"A=1\n{SECRET}\n", "/.env:2: expected NAME=value, got something else"),
        (b"\xff", "servers.s.envFile: /.env: expected UTF-8"),
        ("A=" + "x" * 300_000, "servers.s.envFile: /.env: expected at most 262144 bytes"),
    ],
)
def test_invalid_env_file_is_refused(tmp_path: Path, content: Any, message: str) -> None:
    if content is not None:
        (tmp_path / ".env").write_bytes(content if isinstance(content, bytes) else content.encode())
    file = written(tmp_path, {"servers": {"s": {"command": "a", "envFile": ".env"}}})

    assert message in refusal(file)


# Refusals


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({}, "mcpServers.s: expected either command or url, got none"),
        ({"command": "a", "url": "https://x"}, "mcpServers.s: expected either command or url, got command and url"),
        ({"command": 7}, "mcpServers.s.command: expected a string, got a number"),
        ({"command": ""}, "mcpServers.s.command: expected a program, got an empty string"),
        ({"command": "a", "args": SECRET}, "mcpServers.s.args: expected a list of strings, got a string"),
        ({"command": "a", "args": ["b", {"c": SECRET}]}, "mcpServers.s.args[1]: expected a string, got an object"),
        ({"command": "a", "args": [f"{SECRET}\0"]}, "mcpServers.s.args[0]: expected a string without NUL"),
        ({"command": "a", "env": [SECRET]}, "mcpServers.s.env: expected an object of strings, got a list"),
        ({"command": "a", "env": {"K": [SECRET]}}, "mcpServers.s.env.K: expected a string, got a list"),
        ({"command": "a", "env": {"K=V": SECRET}}, "mcpServers.s.env.K=V: expected the name of a variable"),
        ({"command": "a", "arg": [SECRET]}, "mcpServers.s.arg: expected a known key; did you mean `args`?"),
        ({"command": "a", "sandboxEnabled": True}, "mcpServers.s.sandboxEnabled: expected no sandbox"),
        ({"command": "a", "disabled": "yes"}, "mcpServers.s.disabled: expected false"),
        ({"type": "http", "command": "a"}, "mcpServers.s.type: expected url with the type http, got command"),
        ({"type": "stdio", "url": "https://x"}, "mcpServers.s.type: expected command with the type stdio, got url"),
        ({"type": "tcp", "url": "https://x"}, "mcpServers.s.type: expected one of stdio, local, http"),
        ({"type": ["stdio"], "command": "a"}, "got a list"),
        ({"url": f"ftp://{SECRET}@x"}, "mcpServers.s.url: expected an http, https, ws or wss URL in ASCII"),
        ({"url": f"https://x:{SECRET}/"}, "mcpServers.s.url: expected an http, https, ws or wss URL in ASCII"),
        ({"url": "https://x/a b"}, "mcpServers.s.url: expected an http, https, ws or wss URL in ASCII"),
        ({"url": "https:///path"}, "mcpServers.s.url: expected an http, https, ws or wss URL in ASCII"),
        ({"url": "https://x", "headers": {"A": f"{SECRET}\r\nB: c"}}, "mcpServers.s.headers.A: expected a header on"),
        ([SECRET], "mcpServers.s: expected an object, got a list"),
    ],
)
def test_invalid_entry_is_refused(tmp_path: Path, entry: Any, message: str) -> None:
    file = written(tmp_path, {"mcpServers": {"s": entry}})

    assert message in refusal(file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "/mcp.json:1: expected a value, got the end of the file"),
        ("[]", "/mcp.json:1: expected an object, got a list"),
        ("{}", "/mcp.json:1: expected one of mcpServers, servers, context_servers (Zed) or mcp (opencode,"),
        ('{"servers": {}, "mcpServers": {}}', "settings.json), got mcpServers and servers"),
        ('{"servers": []}', "/mcp.json:1: servers: expected an object, got a list"),
        ('{\n"servers": {\n"a": {,}\n}}', "/mcp.json:3: expected a name in quotation marks or '}', got ','"),
        ('{"servers": {}, "inputs": {}}', "inputs: expected a list, got an object"),
        ('{"servers": {}, "inputs": [{"id": "a"}, {"id": "a"}]}', "inputs[1].id: expected a new id"),
        ('{"servers": {}, "inputs": [{"type": "promptString"}]}', "inputs[0].id: expected a non-empty string"),
    ],
)
def test_invalid_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    assert message in refusal(written(tmp_path, text))


def test_unreadable_file_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "mcp.json") == "/mcp.json: cannot be read: No such file or directory"
    (tmp_path / "mcp.json").write_bytes(b'{"servers": "\xff"}')
    assert refusal(tmp_path / "mcp.json") == "/mcp.json: expected UTF-8, got other bytes at 13"
    (tmp_path / "mcp.json").write_text('{"servers": {}}' + " " * 4 * 1024 * 1024)
    assert refusal(tmp_path / "mcp.json") == "/mcp.json: expected at most 4194304 bytes, got more"


def test_invalid_entry_does_not_affect_others(tmp_path: Path) -> None:
    file = load_mcp_json(written(tmp_path, {"mcpServers": {"bad": {}, "good": {"command": "a"}}}))

    assert file.read("good") == Command(args=("a",))
    with pytest.raises(ConfigError, match=r"mcpServers\.bad"):
        file.read("bad")
    with pytest.raises(ConfigError, match=r"expected the name of a server \(bad, good\), got other"):
        file.read("other")


# References


@pytest.mark.parametrize("text", ["mcp.json", "a/b.JSON#x", "~/.claude.json#my server", "x.jsonc#a#b"])
def test_file_reference_is_recognized(text: str) -> None:
    assert is_reference(text)


@pytest.mark.parametrize("text", ["npx -y x", "mcp.json -x", "python x.py", "#x", ".json"])
def test_other_targets_are_not_file_references(text: str) -> None:
    assert not is_reference(text)


def test_file_reference_is_resolved(tmp_path: Path) -> None:
    file = written(tmp_path, {"mcpServers": {"a#b": {"command": "x"}, "c": {"command": "y"}}})

    assert read_reference(f"{file}#a#b") == ("a#b", Command(args=("x",)))
    with pytest.raises(ConfigError, match=r"expected #name of one of its servers \(a#b, c\), got no name"):
        read_reference(str(file))
    with pytest.raises(ConfigError, match=r"expected file\.json#name, got npx"):
        read_reference("npx")
    alone = written(tmp_path, {"mcpServers": {"only": {"command": "x"}}}, "one.json")
    assert read_reference(str(alone)) == ("only", Command(args=("x",)))


# JSON with comments

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(values, st.sampled_from([None, 1]))
def test_json_with_comments_parser_accepts_json(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)

    assert parse(text).value == json.loads(text)


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@given(st.text(alphabet="{}[]\",:/*\\ \n0-.eE1tfnrulas'x"))
def test_parser_raises_only_its_own_error(text: str) -> None:
    problem: JSONProblem | None = None
    try:
        parse(text)
    except JSONProblem as error:
        problem = error

    if problem is not None:
        assert 1 <= problem.line <= text.count("\n") + 1
        assert not is_json(text) or "once" in str(problem), "refused for another reason than a name that comes twice"


def test_comments_and_trailing_commas_are_skipped() -> None:
    text = '/**/{"a": [1, 2,], // "b": 3\n "c//": "/* no comment */", "d": {"e": "\\"//",},}//'

    assert parse(text).value == {"a": [1, 2], "c//": "/* no comment */", "d": {"e": '"//'}}


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ('{"a": 1 "b": 2}', "expected ',' or '}', got a string", 1),
        ("[1\n2]", "expected ',' or ']', got a number", 2),
        ("[,]", "expected a value, got ','", 1),
        ("[1,,]", "expected a value, got ','", 1),
        ("{a: 1}", "expected JSON, got a name without quotation marks", 1),
        ("{'a': 1}", "expected JSON, got a single quotation mark", 1),
        ('["a\nb"]', "expected JSON, got a string that does not end on its line", 1),
        ('\n["\\x"]', "expected a string, got invalid JSON", 2),
        ("[1] // a\n/* b", "expected JSON, got '/', or a comment that does not end", 2),
        ("{} {}", "expected the end of the file, got '{'", 1),
        ("[01]", "expected JSON, got something else", 1),
        ("[1.]", "expected JSON, got something else", 1),
        ("[NaN]", "expected JSON, got a name without quotation marks", 1),
        ('{"a": 1,\n"a": 2}', "expected each name once, got one twice", 2),
        ("[" * (MAX_DEPTH + 1), f"expected at most {MAX_DEPTH} levels", 1),
    ],
)
def test_json_error_has_message_and_line(text: str, message: str, line: int) -> None:
    with pytest.raises(JSONProblem) as refused:
        parse(text)

    assert (str(refused.value), refused.value.line) == (message, line)


@pytest.mark.parametrize("text", ["[" * 100_000, "/*" * 100_000, '"' * 100_000, "[" + '"\\' * 100_000, "/" * 100_000])
def test_hostile_texts_are_refused_quickly(text: str) -> None:
    with pytest.raises(JSONProblem):
        parse(text)
