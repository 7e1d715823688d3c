"""MCPB bundles: a zip with a manifest that a host application installs; uv installs the dependencies there.

The same plugins give the same bytes: files in a fixed order, with a fixed time and fixed permissions.

Source: MCPB, MANIFEST.md, "UV Runtime" and "User Configuration"; its schema for manifest version 0.4.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from mcptrio.cli.package.described import PublishedPlugin, drop_none
from mcptrio.cli.package.settings import Setting
from mcptrio.errors import ConfigError
from mcptrio.ground.version import __version__

__all__ = ["Bundle", "bundle", "files", "manifest"]

_TIME = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip file can store."""
# The upper 16 bits are the Unix mode: a regular file, rw-r--r--.
_MODE = 0o100644 << 16
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_PYTHON = ">=3.11"

_START_SCRIPT = '''\
"""Starts the server of this bundle. Made by `mcptrio package mcpb`."""

import os
import sys

from mcptrio.cli.server.bundle_start import start

start(sys.argv[1:], os.environ, __file__)
'''
_IGNORED = ".venv/\n__pycache__/\nuv.lock\n"


@frozen(kw_only=True)
class Bundle:
    """The publisher's data.

    Args:
        name: The name of the extension: lower-case letters, digits, '.', '_' and '-'.
        display_name: The name for users.
    """

    name: str
    version: str
    description: str
    author: str
    display_name: str | None = None
    license: str | None = None
    homepage: str | None = None


def bundle(plugins: Sequence[PublishedPlugin], about: Bundle) -> bytes:
    """Return the zip file."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in sorted(files(plugins, about).items()):
            info = zipfile.ZipInfo(name, _TIME)
            info.compress_type = zipfile.ZIP_DEFLATED
            # Unix, whatever system builds the bundle; zipfile would store the real one.
            info.create_system = 3
            info.external_attr = _MODE
            archive.writestr(info, content)
    return data.getvalue()


def files(plugins: Sequence[PublishedPlugin], about: Bundle) -> dict[str, bytes]:
    """Return the contents, by name."""
    contents = {
        "manifest.json": (json.dumps(manifest(plugins, about), indent=2, ensure_ascii=False) + "\n").encode(),
        "pyproject.toml": _pyproject(plugins, about).encode(),
        "src/server.py": _START_SCRIPT.encode(),
        ".mcpbignore": _IGNORED.encode(),
    }
    for each in plugins:
        if each.file is not None:
            try:
                contents[f"src/{each.name}.py"] = each.file.read_bytes()
            except OSError as error:
                raise ConfigError(f"--plugin: {each.file} cannot be read: {error.strerror}") from error
    return contents


def manifest(plugins: Sequence[PublishedPlugin], about: Bundle) -> dict[str, Any]:
    if not _NAME.fullmatch(about.name):
        raise ConfigError(f"--name: expected lower-case letters, digits, '.', '_' and '-', got {about.name!r}")
    for option, text in (
        ("--version", about.version),
        ("--description", about.description),
        ("--author", about.author),
    ):
        if not text.strip():
            raise ConfigError(f"{option}: expected a non-empty string, got none")
    # The start script of the bundle has this name.
    if any(each.name == "server" for each in plugins if each.file is not None):
        raise ConfigError(
            "--plugin: expected a file with another name than server.py, which the bundle contains itself"
        )
    settings = [setting for each in plugins for setting in each.settings]
    tools = {name: text or None for each in plugins for name, text in each.tools.items()}
    return drop_none(
        {
            "manifest_version": "0.4",
            "name": about.name,
            "display_name": about.display_name,
            "version": about.version,
            "description": about.description,
            "author": {"name": about.author},
            "homepage": about.homepage,
            "server": {"type": "uv", "entry_point": "src/server.py", "mcp_config": _mcp_config(plugins, settings)},
            "tools": [drop_none({"name": name, "description": text}) for name, text in sorted(tools.items())],
            # The tools may depend on the settings.
            "tools_generated": True,
            "license": about.license,
            "compatibility": {"platforms": ["darwin", "linux", "win32"], "runtimes": {"python": _PYTHON}},
            "user_config": {setting.key: _user_setting(setting) for setting in settings} or None,
        }
    )


def _mcp_config(plugins: Sequence[PublishedPlugin], settings: Sequence[Setting]) -> dict[str, Any]:
    args = ["run", "--directory", "${__dirname}", "src/server.py"]
    for each in plugins:
        args += ["--plugin", each.name if each.file is None else f"{each.name}.py"]
    # A host application passes a list only as arguments, one for each item, and never in a variable.
    for setting in settings:
        if setting.is_multiple:
            kind = "--paths" if setting.kind in ("directory", "file") else "--list"
            args += [kind, setting.variable, f"${{user_config.{setting.key}}}"]
    env = {each.variable: f"${{user_config.{each.key}}}" for each in settings if not each.is_multiple}
    return drop_none({"command": "uv", "args": args, "env": env or None})


def _user_setting(setting: Setting) -> Mapping[str, Any]:
    description = setting.description
    if setting.choices:
        description = f"{description} ({', '.join(setting.choices)})"
    return drop_none(
        {
            "type": setting.kind,
            "title": setting.title,
            "description": description,
            # A missing input falls back to the default of the settings class.
            "required": False,
            "default": setting.default,
            "multiple": setting.is_multiple or None,
            "sensitive": setting.is_secret or None,
        }
    )


def _pyproject(plugins: Sequence[PublishedPlugin], about: Bundle) -> str:
    # Exact versions, so that the bundle runs what its publisher has tested.
    requirements = sorted({f"mcptrio=={__version__}", *(each.requirement for each in plugins if each.requirement)})
    lines = [
        "[project]",
        f"name = {json.dumps(about.name)}",
        f"version = {json.dumps(about.version)}",
        f"description = {json.dumps(about.description, ensure_ascii=False)}",
        f'requires-python = "{_PYTHON}"',
        "dependencies = [",
        *(f"  {json.dumps(each)}," for each in requirements),
        "]",
        "",
        # The project is only a list of dependencies, so uv must not build it.
        "[tool.uv]",
        "package = false",
    ]
    return "\n".join(lines) + "\n"
