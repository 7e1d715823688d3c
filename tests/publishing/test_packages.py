"""``mcptrio package``: the files for the registry and for hosts are reproducible, and a bundle starts."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

import attrs
import pytest

from mcptrio import Command, Secret, connect
from mcptrio.cli.package.settings import settings_of
from mcptrio.cli.server.bundle_start import serve_arguments
from tests.commands.processes import run_text as run
from tests.distributions import install

__all__: list[str] = []

GARDEN = '''
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from attrs import field, frozen

from mcptrio import PluginSetup, Secret, hookimpl, tool


@frozen(kw_only=True)
class Config:
    """The garden.

    Args:
        beds: Where the beds are.
    """

    beds: tuple[Path, ...] = ()
    names: tuple[str, ...] = ("rose",)
    depth: float = 0.5
    """How deep to dig, in ``metres``."""
    wet: bool = False
    key: Secret | None = None
    season: Literal["spring", "fall"] = "spring"
    log_file: Path | None = None
    more: Mapping[str, str] = field(factory=dict)


@hookimpl
def setup(server: PluginSetup, config: Config) -> None:
    async def garden_told() -> str:
        """Tell
        the settings.

        All of them.
        """
        return f"{config.beds} {config.names} {config.depth} {config.wet} {bool(config.key)} {config.season}"

    server.add_tool(garden_told)
'''
OWN = "from mcptrio import tool\n\n\n@tool\nasync def own_now() -> str:\n    return 'late'\n"
README = "\n\n# Garden\n\n<!-- mcp-name: io.github.ada/garden -->\n"
SETTINGS = ["beds", "names", "depth", "wet", "key", "season", "log_file"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    site = install(
        tmp_path / "site", "mcptrio-garden", "1.2", modules={"packaged_garden": GARDEN}, garden="packaged_garden"
    )
    info = site / "mcptrio_garden-1.2.dist-info"
    with (info / "METADATA").open("a") as file:
        file.write(f"Summary: A garden as MCP tools.{README}")
    (tmp_path / "own.py").write_text(OWN)
    return tmp_path


def package(folder: Path, *args: str) -> Any:
    return run("package", *args, cwd=folder, PYTHONPATH=str(folder / "site"))


def bundled(folder: Path, *args: str) -> zipfile.ZipFile:
    result = package(folder, "mcpb", "--name=ada-garden", "--author=Ada", "--force", *args)
    assert result.returncode == 0, result.stderr
    data = (folder / "ada-garden.mcpb").read_bytes()
    assert result.stdout == f"ada-garden.mcpb: {len(data)} bytes, SHA-256 {hashlib.sha256(data).hexdigest()}\n"
    return zipfile.ZipFile(io.BytesIO(data))


def test_server_json_of_an_installed_plugin(folder: Path) -> None:
    result = package(
        folder, "server-json", "--plugin=garden", "--title=Garden", "--repository=https://github.com/ada/garden"
    )
    report = json.loads(result.stdout)
    [packaged] = report.pop("packages")
    variables = {each.pop("name"): each for each in packaged.pop("environmentVariables")}

    assert report == {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": "io.github.ada/garden",
        "title": "Garden",
        "description": "A garden as MCP tools.",
        "repository": {"url": "https://github.com/ada/garden", "source": "github"},
        "version": "1.2",
    }
    assert packaged == {
        "registryType": "pypi",
        "identifier": "mcptrio-garden",
        "version": "1.2",
        "runtimeHint": "uvx",
        "transport": {"type": "stdio"},
        "packageArguments": [
            {"type": "positional", "value": "serve"},
            {"type": "named", "name": "--stdio"},
            {"type": "named", "name": "--plugin", "value": "garden"},
        ],
    }
    assert list(variables) == [f"MCPTRIO_GARDEN_{name.upper()}" for name in SETTINGS]
    assert variables["MCPTRIO_GARDEN_DEPTH"] == {
        "description": "How deep to dig, in `metres`.",
        "format": "number",
        "default": "0.5",
    }
    assert variables["MCPTRIO_GARDEN_WET"]["default"] == "false"
    assert variables["MCPTRIO_GARDEN_KEY"] == {"description": "key", "format": "string", "isSecret": True}
    assert variables["MCPTRIO_GARDEN_SEASON"]["choices"] == ["spring", "fall"]
    assert variables["MCPTRIO_GARDEN_LOG_FILE"]["format"] == "filepath"
    assert result.stderr == (
        "mcptrio: uvx mcptrio-garden needs a program of that name:"
        ' [project.scripts] mcptrio-garden = "mcptrio.cli:main"\n'
    )


def test_server_json_of_several_plugins_and_a_url(folder: Path) -> None:
    args = ("--plugin=garden", "--plugin=everything", "--setting=garden.key", "--name=com.example/all")
    result = package(
        folder, "server-json", *args, "--package=mcptrio-garden", "--url=https://example.com/mcp", "-o", "server.json"
    )
    report = json.loads((folder / "server.json").read_text())

    assert result.stdout == ""
    assert "must contain mcp-name: com.example/all" in result.stderr
    assert report["remotes"] == [{"type": "streamable-http", "url": "https://example.com/mcp"}]
    [argument] = report["packages"][0]["runtimeArguments"]
    assert argument["name"] == "--with"
    assert re.fullmatch(r"mcptrio-everything==\S+", argument["value"])
    assert [each["name"] for each in report["packages"][0]["environmentVariables"]] == ["MCPTRIO_GARDEN_KEY"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--name=garden",), "--name: expected NAMESPACE/NAME"),
        (("--version=>=1",), "--version: expected one version"),
        ((f"--description={'x' * 101}",), "--description: expected 1 to 100 characters, got 101"),
        (("--url=example.com",), "--url: expected an http or https URL"),
        (("--repository=github.com/x",), "--repository: expected the http or https URL"),
        (("--plugin=own.py",), "expected plugins from PyPI, got the file own.py"),
        (("--plugin=everything",), "--package: expected one of mcptrio-everything, mcptrio-garden, got none"),
        (("--setting=garden.dept",), "--setting: expected one of garden.beds, "),
        (("-o", "own.py"), "--output: own.py exists; --force overwrites it"),
    ],
)
def test_metadata_that_the_registry_rejects_is_refused(folder: Path, args: tuple[str, ...], message: str) -> None:
    result = package(folder, "server-json", "--plugin=garden", *args)

    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr


def test_bundle_is_reproducible(folder: Path) -> None:
    archive = bundled(folder, "--plugin=garden", "--plugin=own.py")
    data = (folder / "ada-garden.mcpb").read_bytes()
    os.utime(folder / "own.py", (0, 0))
    bundled(folder, "--plugin=own.py", "--plugin=garden")

    assert (folder / "ada-garden.mcpb").read_bytes() == data
    assert archive.namelist() == [".mcpbignore", "manifest.json", "pyproject.toml", "src/own.py", "src/server.py"]
    assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    assert {info.external_attr >> 16 for info in archive.infolist()} == {0o100644}


def test_manifest_of_a_bundle_describes_its_settings_and_tools(folder: Path) -> None:
    archive = bundled(folder, "--plugin=garden", "--plugin=own.py", "--license=MIT", "--display-name=Garden")
    report = json.loads(archive.read("manifest.json"))
    asked = report["user_config"]

    assert report["manifest_version"] == "0.4"
    assert report["author"] == {"name": "Ada"}
    assert report["description"] == "A garden as MCP tools."
    assert report["server"]["type"] == "uv"
    assert report["server"]["entry_point"] in archive.namelist()
    assert report["tools"] == [{"name": "garden_told", "description": "Tell the settings."}, {"name": "own_now"}]
    assert list(asked) == [f"garden_{name}" for name in SETTINGS]
    assert all({"type", "title", "description"} <= each.keys() for each in asked.values())
    assert asked["garden_beds"] == {
        "type": "directory",
        "title": "garden: beds",
        "description": "Where the beds are.",
        "required": False,
        "multiple": True,
    }
    assert asked["garden_key"]["sensitive"] is True
    assert asked["garden_depth"]["default"] == 0.5
    assert '"mcptrio-garden==1.2",' in archive.read("pyproject.toml").decode()
    assert set(re.findall(r"user_config\.(\w+)", json.dumps(report["server"]))) == set(asked)


@pytest.mark.parametrize("is_filled", [True, False], ids=["filled in", "left open"])
async def test_bundle_starts_with_the_command_of_its_manifest(folder: Path, is_filled: bool) -> None:
    with bundled(folder, "--plugin=garden", "--plugin=own.py") as archive:
        archive.extractall(folder / "there")
    report = json.loads((folder / "there" / "manifest.json").read_text())["server"]["mcp_config"]
    values: dict[str, Any] = {
        "garden_beds": ["/a b", "/c"],
        "garden_names": ["x", "y"],
        "garden_depth": "2",
        "garden_wet": "true",
        "garden_key": "s3cret",
    }
    if not is_filled:
        values = {"garden_depth": "0.5"}  # the default, which a host fills in
    args = []
    for arg in report["args"][3:]:
        name = arg.removeprefix("${user_config.").removesuffix("}")
        args += values.get(name, [arg]) if arg.startswith("${") else [arg]
    env = {key: str(values.get(value[14:-1], value)) for key, value in report["env"].items()}
    command = Command(
        args=(sys.executable, *args), cwd=folder / "there", env={**env, "PYTHONPATH": str(folder / "site")}
    )
    async with connect(command) as client:
        result = await client.call_tool("garden_told")
        tools = [tool.name async for tool in client.tools()]

    expected = "() ('rose',) 0.5 False False spring"
    if is_filled:
        expected = "(PosixPath('/a b'), PosixPath('/c')) ('x', 'y') 2.0 True True spring"
    assert result.content[0].text == expected  # type: ignore[union-attr]
    assert sorted(tools) == ["garden_told", "own_now"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--plugin=garden", "--name=Ada Garden"), "--name: expected lower-case letters"),
        (("--plugin=garden", "--version= "), "--version: expected a non-empty string, got none"),
        (("--plugin=gone",), "no plugin `gone` is installed"),
        (("--plugin=server.py",), "expected a file with another name than server.py"),
    ],
)
def test_bundle_that_would_not_work_is_refused(folder: Path, args: tuple[str, ...], message: str) -> None:
    (folder / "server.py").write_text(OWN)
    result = package(folder, "mcpb", "--name=x", "--author=Ada", *args)

    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr
    assert not list(folder.glob("*.mcpb"))


def test_broken_plugin_is_not_packaged(folder: Path) -> None:
    (folder / "own.py").write_text("raise RuntimeError('no such luck')")
    result = package(folder, "mcpb", "--name=x", "--author=Ada", "--plugin=own.py")

    assert result.returncode == 2
    assert "no such luck" in result.stderr
    assert not list(folder.glob("*.mcpb"))


def test_omitted_members_are_absent() -> None:
    environ = {"MCPTRIO_A_B": "${user_config.a_b}", "MCPTRIO_A_C": "", "MCPTRIO_A_D": "1", "OTHER": ""}
    args = [
        "--plugin",
        "a",
        "--plugin",
        "own.py",
        "--list",
        "MCPTRIO_A_E",
        "${user_config.a_e}",
        "--paths",
        "MCPTRIO_A_F",
    ]

    assert serve_arguments([*args, "/x", "/y"], environ, Path("/b")) == [
        *("serve", "--stdio", "--plugin", "a", "--plugin", "/b/own.py")
    ]
    assert environ == {"MCPTRIO_A_D": "1", "OTHER": "", "MCPTRIO_A_F": f"/x{os.pathsep}/y"}


def test_settings_without_source_code_are_found() -> None:
    made = attrs.make_class(
        "Made", {"key": attrs.field(type=Secret, default=None), "table": attrs.field(type=dict, factory=dict)}
    )

    [setting] = settings_of("made", made)
    assert (setting.variable, setting.is_secret, setting.description) == ("MCPTRIO_MADE_KEY", True, "key")


def test_setting_marked_as_secret_is_sensitive() -> None:
    made = attrs.make_class("Marked", {"pin": attrs.field(type=str, default="0000", metadata={"secret": True})})

    [setting] = settings_of("marked", made)
    assert (setting.is_secret, setting.default) == (True, None)
