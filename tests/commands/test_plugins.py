"""``mcptrio plugins``: the shown parts of plugins, the secret ones, and switching plugins on and off."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest

from mcptrio.cli.group import cli
from tests.commands.processes import run_text as run
from tests.distributions import install, one_tool

__all__: list[str] = []

ROOT = Path(__file__).resolve().parents[2]

KEEPER = '''
from collections.abc import Mapping
from pathlib import Path
from attrs import field, frozen
from mcptrio import Secret, hookimpl, prompt, resource, tool

@frozen(kw_only=True)
class Remote:
    url: str = "https://example.com"
    token: Secret | None = None

@frozen(kw_only=True)
class Config:
    folder: Path = Path("here")
    size: int = 3
    label: str = "plain"
    token: Secret | None = None
    marked: str = field(default="", metadata={"secret": True})
    referred: str = ""
    remotes: Mapping[str, Remote] = field(factory=dict)

@hookimpl
def setup(server, config: Config):
    server.add_redaction(lambda text: text)

@tool(read_only=True, open_world=False)
async def look(what: str) -> str:
    """Look at something.

    Args:
        what: The thing to look at.
    """
    return what

@tool(destructive=True)
async def drop_every_single_thing_that_was_ever_kept(what: str) -> str:
    """Drop it."""
    return what

@resource("kept://{name}")
async def kept(name: str) -> str:
    """One thing."""
    return name

@prompt
async def tidy() -> str:
    """Ask for order."""
    return "tidy up"
'''
BROKEN = "def reach():\n    raise RuntimeError('no such luck')\n\nreach()\n"
CONFIG = """\
# ours
[server]
enable = ["keeper", "broken"]  # for now

[plugins.keeper]
folder = "there"
token = "hidden-1"
marked = "hidden-2"
referred = { "$env" = "KEEPER_REFERRED" }
timeout = 7

[plugins.keeper.remotes.main]
token = "hidden-4"
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("site")
    install(folder, "cmd-keeper", "1.2", modules={"cmd_keeper": KEEPER}, keeper="cmd_keeper")
    install(folder, "cmd-broken", modules={"cmd_broken": BROKEN}, broken="cmd_broken")
    install(folder, "cmd-plain", modules={"cmd_plain": one_tool("plain")}, plain="cmd_plain")
    return str(folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mcptrio.toml").write_text(CONFIG)
    return tmp_path


def test_list_shows_cost_warnings_and_withheld_tools(folder: Path, site: str) -> None:
    ended = run("plugins", cwd=folder, MCPTRIO_TOOLS_READ_ONLY="true", PYTHONPATH=site, KEEPER_REFERRED="hidden-3")
    head, *_ = table = ended.stdout.partition("\n\n")[0].splitlines()
    row = next(re.split(r"  +", line) for line in table if line.startswith("keeper"))

    assert ended.returncode == 0
    assert head.split() == ["NAME", "VERSION", "DISTRIBUTION", "STATE", "TOOLS", "TOKENS", "IMPORT", "CONTRIBUTES"]
    assert row[:5] == ["keeper", "1.2", "cmd-keeper", "loaded", "1"]
    assert 20 < int(row[5]) < 200
    assert re.fullmatch(r"\d+ ms", row[6])
    long = "keeper_drop_every_single_thing_that_was_ever_kept"
    assert f"keeper: tool {long} has 49 characters: some hosts truncate names over 40" in ended.stdout
    assert f"keeper: tool {long} is withheld: it is not marked read-only" in ended.stdout
    assert "broken: import failed: RuntimeError: no such luck" in ended.stdout


def test_list_without_plugins_says_how_to_get_one(tmp_path: Path) -> None:
    (tmp_path / "mcptrio.toml").write_text("[server]\nenable = []\n")
    listed = run("plugins", cwd=tmp_path)
    served = run("serve", "--stdio", cwd=tmp_path)

    assert (listed.returncode, listed.stdout) == (0, "")
    assert "mcptrio new NAME" in listed.stderr
    assert (served.returncode, served.stdout) == (0, "")
    assert "serving without plugins: " in served.stderr


def test_list_is_the_default_command(folder: Path, site: str) -> None:
    env = {"PYTHONPATH": site, "KEEPER_REFERRED": "x", "MCPTRIO_CONFIG": "mcptrio.toml"}
    one, other = (
        json.loads(run(*args, cwd=folder, **env).stdout)["plugins"]
        for args in [("plugins", "--json"), ("plugins", "list", "--json")]
    )

    for each in (*one, *other):
        each.pop("import_seconds")
    assert one == other
    assert [each["name"] for each in one if each["state"] == "loaded"] == ["keeper"]


def test_show_prints_the_source_of_each_setting_and_no_secret(folder: Path, site: str) -> None:
    env = {"PYTHONPATH": site, "KEEPER_REFERRED": "hidden-3", "MCPTRIO_KEEPER_SIZE": "5"}
    report = json.loads((result := run("plugins", "show", "keeper", "--json", cwd=folder, **env)).stdout)
    text = run("plugins", "show", "keeper", cwd=folder, **env)
    settings = {each["name"]: (each["value"], each["origin"]) for each in report["settings"]}

    assert "hidden-" not in result.stdout + result.stderr + text.stdout + text.stderr
    assert settings == {
        "folder": ('"there"', "mcptrio.toml:6"),
        "size": ("5", "MCPTRIO_KEEPER_SIZE"),
        "label": ('"plain"', "default"),
        "token": ("(not shown)", "mcptrio.toml:7"),
        "marked": ("(not shown)", "mcptrio.toml:8"),
        "referred": ("(not shown)", "mcptrio.toml:9"),
        "remotes": ('{"main":{"url":"https://example.com","token":"(not shown)"}}', "mcptrio.toml:12"),
        "timeout": ("7.0", "mcptrio.toml:10"),
    }
    assert report["hooks"] == ["setup"]
    assert report["tools"][0]["hints"] == {"read_only": True, "open_world": False}
    assert (report["resources"], report["prompts"]) == ({"kept://{name}": "One thing."}, {"tidy": "Ask for order."})
    for line in (
        "  distribution: cmd-keeper",
        "  hooks:        setup",
        '  folder    "there"  [mcptrio.toml:6]',
        "    Look at something.",
        "  kept://{name}: One thing.",
        "  tidy: Ask for order.",
    ):
        assert line in text.stdout.splitlines()
    assert re.search(r"^  keeper_look \(read only, not open world, about \d+ tokens\)$", text.stdout, re.MULTILINE)


def test_show_of_invalid_settings_prints_no_secret(folder: Path, site: str) -> None:
    (folder / "mcptrio.toml").write_text("[plugins.keeper]\nsize = 'x'\ntoken = 'hidden-1'\ntokne = 'hidden-2'\n")
    ended = run("plugins", "show", "keeper", cwd=folder, PYTHONPATH=site)

    assert "plugins.keeper.tokne: there is no setting `tokne`; did you mean `token`?" in ended.stdout
    assert '  size   "x"  [mcptrio.toml:2]' in ended.stdout
    assert "  tokne  (not shown)  [mcptrio.toml:4]" in ended.stdout
    assert "hidden-" not in ended.stdout + ended.stderr


def test_show_prints_the_error_of_a_failed_plugin(folder: Path, site: str) -> None:
    without, with_ = (
        run("plugins", "show", "broken", *more, cwd=folder, PYTHONPATH=site).stdout for more in ([], ["--traceback"])
    )

    assert "  state:        quarantined" in without
    assert "  failure:      import failed: RuntimeError: no such luck" in without
    assert "in reach" not in without
    assert re.search(r"cmd_broken\.py\", line 2, in reach", with_)


def test_show_of_a_disabled_and_of_an_unknown_plugin(folder: Path, site: str) -> None:
    plain = run("plugins", "show", "plain", cwd=folder, PYTHONPATH=site)
    none = run("plugins", "show", "plaim", cwd=folder, PYTHONPATH=site)

    assert "  plain (about 29 tokens)" in plain.stdout
    assert (none.returncode, none.stdout) == (2, "")
    assert "no plugin `plaim` is installed; did you mean `plain`?" in none.stderr


# Enabling and disabling


def test_disable_and_enable_change_only_the_lists(folder: Path, site: str) -> None:
    file = folder / "mcptrio.toml"
    file.chmod(0o640)
    output = run("plugins", "disable", "broken", cwd=folder, PYTHONPATH=site)
    assert output.stdout == "broken is disabled: removed from server.enable in mcptrio.toml\n"
    assert file.read_text() == CONFIG.replace('"keeper", "broken"', '"keeper"')
    again = run("plugins", "disable", "broken", cwd=folder, PYTHONPATH=site)
    assert (again.returncode, again.stdout) == (0, "broken is already disabled\n")

    output = run("plugins", "enable", "broken", cwd=folder, PYTHONPATH=site)
    assert output.stdout == "broken is enabled: added to server.enable in mcptrio.toml\n"
    assert file.read_text() == CONFIG
    assert file.stat().st_mode & 0o777 == 0o640


def test_disable_without_a_file_creates_one(tmp_path: Path, site: str) -> None:
    output = run("plugins", "disable", "plain", cwd=tmp_path, PYTHONPATH=site)

    assert output.stdout == "plain is disabled: added to server.disable in mcptrio.toml, which is new\n"
    assert (tmp_path / "mcptrio.toml").read_text() == '[server]\ndisable = ["plain"]\n'
    listed = json.loads(run("plugins", "--json", "--no-plugin=broken", cwd=tmp_path, PYTHONPATH=site).stdout)["plugins"]
    assert [each["state"] for each in listed if each["name"] in ("keeper", "plain")] == ["loaded", "disabled"]


@pytest.mark.parametrize(
    ("args", "text", "message"),
    [
        (("disable", "plaim"), "", "no plugin `plaim` is installed; did you mean `plain`?"),
        (("enable", "gone.py"), "[server]\nenable = []\n", "no such file: gone.py"),
        (("disable", "own.py"), "", "own.py: a file is served only if it is named"),
        (
            ("disable", "plain"),
            "server = { name = 'x' }\n",
            "mcptrio.toml: cannot be edited: server.disable is written",
        ),
        (
            ("disable", "plain"),
            "[server]\nnam = 'x'\n",
            "mcptrio.toml:2: server.nam: there is no setting `nam`;",
        ),
    ],
)
def test_refused_switch_leaves_the_configuration_unchanged(
    tmp_path: Path, site: str, args: tuple[str, ...], text: str, message: str
) -> None:
    (tmp_path / "mcptrio.toml").write_text(text)
    ended = run("plugins", *args, cwd=tmp_path, PYTHONPATH=site)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert message in ended.stderr
    assert (tmp_path / "mcptrio.toml").read_text() == text


def test_every_option_of_every_subcommand_is_documented() -> None:
    group = cli.commands["plugins"]
    assert isinstance(group, click.Group)
    pages = "".join((ROOT / "docs" / page).read_text("utf-8") for page in ("commands.md", "configuration.md"))
    missing = [
        f"{name} {option}"
        for name, command in group.commands.items()
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for option in parameter.opts
        if f"`{option}" not in pages
    ]

    assert missing == []
    assert set(group.commands) == {"list", "show", "enable", "disable", "add", "install", "uninstall", "doctor"}
