"""Which plugins and tools are served: profiles of the file, ``only``, policies by option; and a shell's completion."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mcptrio.errors import ConfigError
from mcptrio.serve.config import ToolsTable, load_config
from mcptrio.serving import Timeouts
from tests.commands.processes import run_text as run
from tests.distributions import install, one_tool
from tests.processes import environment

__all__: list[str] = []

TOOLS = '''
from mcptrio import tool

@tool(read_only=True)
async def look() -> str:
    """Look."""
    return ""

@tool
async def push() -> str:
    """Push."""
    return ""

@tool
async def pull() -> str:
    """Pull."""
    return ""
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "own.py").write_text(TOOLS)
    (tmp_path / "broken.py").write_text("raise RuntimeError('no such luck')\n")
    return tmp_path


def listed(folder: Path, *args: str, **env: str) -> dict[str, Any]:
    """Return the plugins that are not disabled."""
    ended = run("plugins", "--json", *args, cwd=folder, **env)
    assert ended.returncode == 0, ended.stderr
    return {each["name"]: each for each in json.loads(ended.stdout)["plugins"] if each["state"] != "disabled"}


# Plugins that are served only by name


def test_plugin_only_by_name_is_not_served_by_default(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    site = tmp_path_factory.mktemp("site")
    point = {"mcptrio.only-by-name": {"demo": "chosen_demo"}}
    install(site, "chosen-demo", modules={"chosen_demo": one_tool("shown")}, groups=point)
    (folder / "named.toml").write_text("[plugins.demo]\n")
    (folder / "disabled.toml").write_text('[server]\ndisable = ["demo"]\n[plugins.demo]\n')
    env = {"PYTHONPATH": str(site)}

    assert "demo" not in listed(folder, **env)
    assert set(listed(folder, "--plugin", "demo", **env)) == {"demo"}
    assert listed(folder, "--config", "named.toml", **env)["demo"]["state"] == "loaded"
    assert "demo" not in listed(folder, "--config", "disabled.toml", **env)


# Policies


def test_policies_of_the_environment_replace_those_of_the_file(folder: Path) -> None:
    (folder / "mcptrio.toml").write_text(
        "[server]\nenable = ['own.py']\n[tools]\nexclude = ['pull']\ninclude = ['l*']\n"
    )

    assert listed(folder)["own"]["offers"]["tools"] == ["look"]
    own = listed(folder, MCPTRIO_TOOLS_INCLUDE="p*, look", MCPTRIO_TOOLS_EXCLUDE="lo*,pull")["own"]
    assert own["offers"]["tools"] == ["push"]
    assert own["withheld"] == {"look": "it is excluded", "pull": "it is excluded"}


# Only


def test_failing_plugin_of_only_is_an_error(folder: Path) -> None:
    option = run("serve", "--stdio", "--strict", "--plugin=broken.py", cwd=folder)
    (folder / "mcptrio.toml").write_text("[server]\nonly = ['own.py', 'broken.py']\n")
    of_file = run("serve", "--stdio", cwd=folder)

    for ended in (option, of_file):
        assert (ended.returncode, ended.stdout) == (2, "")
        assert "plugin broken: import failed: RuntimeError: no such luck" in ended.stderr
    assert list(listed(folder, "--plugin=own.py")) == ["own"]
    assert listed(folder, "--plugin=broken.py")["broken"]["state"] == "quarantined"
    assert list(listed(folder, MCPTRIO_SERVER_ONLY="own.py")) == ["own"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[server]\nonly = ['nots']\n", "mcptrio.toml:2: server.only: no plugin `nots` is installed"),
        ("[server]\nonly = ['gone.py']\n", "mcptrio.toml:2: server.only: no such file: "),
        ("[server]\nenable = []\nonly = []\n", "mcptrio.toml:3: server.only: expected this or enable, got both"),
        (
            "[server]\ndisable = ['fs']\nonly = ['fs']\n",
            "mcptrio.toml:3: server.only: expected plugins that are not in disable, got fs",
        ),
    ],
)
def test_invalid_only_setting_is_reported(folder: Path, text: str, message: str) -> None:
    (folder / "mcptrio.toml").write_text(text)
    ended = run("plugins", cwd=folder)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert f"mcptrio: {message}" in ended.stderr


def test_only_in_the_environment_replaces_enable_in_the_file(folder: Path) -> None:
    (folder / "mcptrio.toml").write_text("[server]\nenable = ['broken.py']\n")

    assert list(listed(folder, MCPTRIO_SERVER_ONLY="own.py")) == ["own"]


# Profiles

PROFILES = """\
[server]
name = "all"
enable = ["own.py"]
timeouts = { request = 600, idle = 60 }

[plugins.own]
tools.exclude = ["push"]
colour = { "$env" = "COLOUR", default = "blue" }
shape = { edge = 1, side = 2 }

[profiles.review.server]
name = "review"
timeouts = { idle = 5 }

[profiles.review.tools]
read_only = true

[profiles.review.plugins.own]
tools.exclude = []
colour = { "$file" = "colour" }
shape = { side = 3 }

[profiles.bare.server]
only = ["own.py"]
"""


def loaded(folder: Path, text: str, profile: str | None) -> Any:
    path = folder / "mcptrio.toml"
    path.write_text(text)
    return load_config(path, profile)


def test_profile_is_merged_into_the_other_settings(tmp_path: Path) -> None:
    without, review, bare = (loaded(tmp_path, PROFILES, name) for name in (None, "review", "bare"))

    assert (without.server.name, without.tools) == ("all", ToolsTable())
    assert without.server.timeouts == Timeouts(request=600, idle=60)
    assert (review.server.name, review.tools) == ("review", ToolsTable(read_only=True))
    assert review.server.timeouts == Timeouts(request=600, idle=5)
    assert review.plugins["own"] == {
        "tools": {"exclude": []},
        "colour": {"$file": "colour"},
        "shape": {"edge": 1, "side": 3},
    }
    assert (review.server.enable, review.server.only) == ((str(tmp_path / "own.py"),), None)
    assert (bare.server.enable, bare.server.only) == (None, (str(tmp_path / "own.py"),))


def test_error_names_the_line_of_the_profile(tmp_path: Path) -> None:
    review = loaded(tmp_path, PROFILES, "review")
    file = tmp_path / "mcptrio.toml"

    assert str(review.error(("plugins", "own", "shape", "side"), "x")).startswith(f"{file}:21: profiles.review.plugins")
    assert str(review.error(("plugins", "own", "shape", "edge"), "x")).startswith(f"{file}:9: plugins.own.shape.edge")
    assert review.where(("server", "name")) == f"{file}:12"
    assert review.where(("server", "enable")) == f"{file}:3"


@pytest.mark.parametrize(
    ("text", "profile", "message"),
    [
        (PROFILES, "revue", ": there is no profile `revue`; did you mean `review`?"),
        ("", "x", ": there is no profile `x`; there are none"),
        ("profiles = 1", None, ":1: profiles: expected a table, got 1"),
        ("[profiles]\nx = 1", None, ":2: profiles.x: expected a table, got 1"),
        (
            "[profiles.x.server]\nnam = 'x'",
            None,
            ":2: profiles.x.server.nam: there is no setting `nam`",
        ),
        (
            "[profiles.x.http]\nport = 'x'",
            None,
            ":2: profiles.x.http.port: expected an integer from 0 to 65535, got 'x'",
        ),
        (
            "[profiles.x.profiles.y]",
            None,
            ":1: profiles.x.profiles: there is no such table; expected one of `server`",
        ),
    ],
)
def test_invalid_profile_is_an_error(tmp_path: Path, text: str, profile: str | None, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        loaded(tmp_path, text, profile)
    assert str(refused.value).startswith(f"{tmp_path / 'mcptrio.toml'}{message}")


def test_profile_is_selected_by_option_or_environment(folder: Path) -> None:
    (folder / "mcptrio.toml").write_text(PROFILES)
    (folder / "colour").write_text("red")

    assert listed(folder)["own"]["offers"]["tools"] == ["look", "pull"]
    assert listed(folder, "--profile=review")["own"]["offers"]["tools"] == ["look"]
    ended = run("serve", "--stdio", cwd=folder, MCPTRIO_PROFILE="revue")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "there is no profile `revue`; did you mean `review`?" in ended.stderr


def test_profile_of_the_documentation_is_valid(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "configuration.md").read_text("utf-8")
    [text] = re.findall(r"```toml\n(\[server\]\nenable.*?)```", page, re.DOTALL)
    review = loaded(tmp_path, text, "review")

    assert (review.tools, review.server.enable, review.http.port) == (ToolsTable(read_only=True), ("fs", "git"), 9001)
    assert review.plugins == {"fs": {"folders": ["/srv/checkouts"]}}


def test_profile_without_a_file_is_an_error(tmp_path: Path) -> None:
    ended = run("plugins", "--profile=x", cwd=tmp_path)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert "--profile: expected mcptrio.toml with a profile `x`, got no such file" in ended.stderr


# Completion


def suggested(folder: Path, *words: str, site: str = "") -> list[str]:
    """Return bash's suggestions for the last word."""
    ended = run(
        cwd=folder,
        COMP_WORDS=" ".join(words),
        COMP_CWORD=str(len(words) - 1),
        _MCPTRIO_COMPLETE="bash_complete",
        PYTHONPATH=site,
    )
    return [line.partition(",")[2] for line in ended.stdout.splitlines()]


def test_commands_subcommands_and_plugins_are_completed(tmp_path: Path) -> None:
    site = tmp_path / "site"
    install(site, "chosen-tea", modules={"chosen_tea": one_tool("tea")}, tea="chosen_tea", teapot="chosen_tea")

    assert suggested(tmp_path, "mcptrio", "pl") == ["plugins"]
    assert {"list", "show", "doctor"} <= set(suggested(tmp_path, "mcptrio", "plugins", ""))
    assert suggested(tmp_path, "mcptrio", "plugins", "show", "te", site=str(site)) == ["tea", "teapot"]
    assert suggested(tmp_path, "mcptrio", "call", "--plugin", "teap", site=str(site)) == ["teapot"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_is_valid_in_its_shell(tmp_path: Path, shell: str) -> None:
    ended = run("completion", shell, cwd=tmp_path)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert f"_MCPTRIO_COMPLETE={shell}_complete" in ended.stdout
    if (program := shutil.which(shell)) is not None:
        subprocess.run([program, "-n"], input=ended.stdout, text=True, check=True, timeout=60, env=environment())
