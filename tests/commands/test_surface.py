"""The size of the command line, which may not grow, and the options that a tool's arguments become."""

from __future__ import annotations

import socket
from pathlib import Path

import click
import pytest

from mcptrio.cli.group import cli
from tests.commands.processes import run
from tests.processes import serving

__all__: list[str] = []

MAX_COMMANDS = 44
MAX_OPTIONS = 233
MAX_SERVING = 18

GARDEN = """
from mcptrio import tool

@tool
async def water(bed: str, litres_each: float = 2.0, gently: bool = False, tags: list[str] | None = None) -> str:
    \"\"\"Water a bed.

    Args:
        bed: The name of the bed.
        litres_each: How much water.
    \"\"\"
    return f"{bed} {litres_each:g} {gently} {tags}"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "garden.py").write_text(GARDEN)
    return tmp_path


def commands(command: click.Command, path: str = "mcptrio") -> dict[str, list[str]]:
    """Return each command with its options; a group counts by its subcommands."""
    own = [param.opts[0] for param in command.params if isinstance(param, click.Option)]
    if not isinstance(command, click.Group):
        return {path: own}
    found: dict[str, list[str]] = {}
    for name in command.commands:
        found |= commands(command.commands[name], f"{path} {name}")
    return found


def test_number_of_commands_and_options_does_not_grow() -> None:
    commands_by_name = commands(cli)
    total = sum(map(len, commands_by_name.values()))

    assert len(commands_by_name) <= MAX_COMMANDS, f"{len(commands_by_name)} commands"
    assert total <= MAX_OPTIONS, f"{total} options: set rare values in mcptrio.toml and the environment"
    for name in ("run", "serve", "dev"):
        assert len(commands_by_name[f"mcptrio {name}"]) <= MAX_SERVING, name


def call(folder: Path, *args: str) -> tuple[int, str, str]:
    result = run("call", "--plugin", "garden.py", *args, cwd=folder)
    return result.returncode, result.stdout.decode(), result.stderr.decode()


def test_help_of_a_tool_lists_its_arguments_as_options(folder: Path) -> None:
    code, shown, _ = call(folder, "water", "--help")
    text = " ".join(shown.split())

    assert code == 0
    assert "Water a bed." in text
    assert "--bed string The name of the bed. [required]" in text
    assert "--litres-each number How much water. [default: 2.0]" in text
    assert "--gently [default: false]" in text


def test_help_without_a_tool_is_that_of_the_command(folder: Path) -> None:
    code, shown, _ = call(folder, "--help")

    assert code == 0
    assert shown.startswith("Usage: mcptrio call")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--bed", "east", "--litres-each", "3", "--gently"), "east 3 True None"),
        (("--bed=west", "--no-gently", "--tags", "a", "--tags", "b"), "west 2 False ['a', 'b']"),
        (("bed=north", "--litres-each=1"), "north 1 False None"),
    ],
)
def test_arguments_are_given_as_options(folder: Path, args: tuple[str, ...], message: str) -> None:
    assert call(folder, "water", *args)[:2] == (0, f"{message}\n")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--litre-each", "3"), "no option `--litre-each`; did you mean `--litres-each`?"),
        (("--verbos",), "no option `--verbos`; did you mean `--verbose`?"),
        (("--bed",), "--bed: expected a value, got nothing"),
    ],
)
def test_misspelt_option_error_suggests_the_nearest(folder: Path, args: tuple[str, ...], message: str) -> None:
    code, _, err = call(folder, "water", *args)

    assert code == 2
    assert message in err


def test_unknown_option_in_front_of_the_tool_is_not_taken_for_its_name(folder: Path) -> None:
    code, _, err = call(folder, "--verbos", "water")

    assert code == 2
    assert "no option `--verbos`; did you mean `--verbose`?; options of a tool follow its name" in err


def test_occupied_port_error_names_the_option(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = run("run", "garden.py", "--http", "--port", port, cwd=folder)

    assert result.returncode == 1
    assert b"pass another --port, or --port 0 for a free one" in result.stderr


def test_address_of_another_machine_error_names_addresses_of_this_one(folder: Path) -> None:
    # 192.0.2.0/24 is reserved for documentation, so no machine has it.
    result = run("serve", "--http", "--plugin", "garden.py", "--host", "192.0.2.1", "--port", "0", cwd=folder)

    assert result.returncode == 1
    assert (
        b"cannot listen on 192.0.2.1:0: Cannot assign requested address; expected an address of this" in result.stderr
    )


def test_call_of_a_hidden_tool_names_the_missing_scope(folder: Path) -> None:
    made = run("token", "new", "ada", "--subject", "ada", "--scope", "look", "--file", "tokens.json", cwd=folder)
    token = made.stdout.decode().strip()
    (folder / "mcptrio.toml").write_text('[auth]\ntokens = "tokens.json"\n')
    guarded = "from mcptrio import tool\n\n@tool(scopes=['dig'])\nasync def dig() -> str:\n    return 'dug'\n"
    guarded += "\nfrom mcptrio import prompt\n\n@prompt(scopes=['plan'])\nasync def plan() -> str:\n    return 'plan'\n"
    (folder / "guarded.py").write_text(guarded)
    with serving("--http", "--port=0", "--plugin=guarded.py", cwd=folder) as served:
        where = (f"http://127.0.0.1:{served.port}/mcp", "--header", f"Authorization=Bearer {token}")
        hidden, unknown = (run("call", *where, tool, cwd=folder) for tool in ("dig", "dgi"))
        prompt = run("prompt", *where, "plan", cwd=folder)

    assert hidden.stderr.decode() == "mcptrio: the server refused: the request needs more scopes: dig (-32600)\n"
    assert unknown.stderr.decode().startswith("mcptrio: the server lists no tool `dgi`; ")
    assert prompt.stderr.decode() == "mcptrio: the server refused: the request needs more scopes: plan (-32600)\n"


def test_endpoint_of_a_protected_server_is_suggested(folder: Path) -> None:
    made = run("token", "new", "ada", "--subject", "ada", "--file", "tokens.json", cwd=folder)
    assert made.returncode == 0, made.stderr
    (folder / "mcptrio.toml").write_text('[auth]\ntokens = "tokens.json"\n')
    with serving("--http", "--port=0", "--plugin=garden.py", cwd=folder) as served:
        path = run("list", f"http://127.0.0.1:{served.port}/mpc", cwd=folder)

    assert path.stderr.decode().endswith(f"the server answers at http://127.0.0.1:{served.port}/mcp\n")


def test_failing_url_error_names_the_probable_cause(folder: Path) -> None:
    with serving("--http", "--port=0", "--plugin=garden.py", cwd=folder) as served:
        here = f"127.0.0.1:{served.port}"
        path = run("list", f"http://{here}/mpc", cwd=folder)
        scheme = run("list", f"https://{here}/mcp", cwd=folder)
        websocket = run("list", f"ws://{here}/mcp", cwd=folder)
    gone = run("list", f"http://{here}/mcp", cwd=folder)

    assert f"HTTP 404; the server answers at http://{here}/mcp\n" in path.stderr.decode()
    assert f"HTTP 404; the server answers at ws://{here}/ws\n" in websocket.stderr.decode()
    assert f"the server speaks plain HTTP: use http://{here}/mcp" in scheme.stderr.decode()
    assert "is the server running? `mcptrio serve --http --plugin FILE.py` starts one" in gone.stderr.decode()
    assert {path.returncode, scheme.returncode, gone.returncode} == {4}


def test_url_without_a_path_means_the_endpoint(folder: Path) -> None:
    with serving("--http", "--port=0", "--plugin=garden.py", cwd=folder) as served:
        here = f"127.0.0.1:{served.port}"
        found = [run("list", url, cwd=folder) for url in (f"http://{here}", f"http://{here}/", f"ws://{here}")]
        found += [
            run("call", f"http://{here}", "--record=trip.jsonl", "water", "bed=east", cwd=folder) for _ in range(2)
        ]
        recordings = [run("show", name, cwd=folder).stdout for name in ("trip.jsonl", "trip.jsonl.1")]
    (folder / "mcptrio.toml").write_text('[http]\npath = "/api"\n')
    with serving("--http", "--port=0", "--plugin=garden.py", cwd=folder) as served:
        elsewhere = run("list", f"http://127.0.0.1:{served.port}", cwd=folder)

    assert [each.returncode for each in found] == [0] * 5, found
    # The attempt at / was not recorded, so the older recording is still there.
    assert all(b"tools/list" in each for each in recordings)
    assert elsewhere.returncode == 4
    assert "HTTP 404; no endpoint at / or /mcp" in elsewhere.stderr.decode()
