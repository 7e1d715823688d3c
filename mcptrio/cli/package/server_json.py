"""``server.json``: the description of a server on PyPI for the MCP registry.

Data that the registry would refuse is an error with the reason.

Source: the registry's schema for server.json, with the date in its URL; the registry's documentation, "PyPI packages"
(the README names the server) and "Versioning" (no ranges).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution
from typing import Any

from attrs import frozen

from mcptrio.cli.package.described import PublishedPlugin, drop_none
from mcptrio.cli.package.settings import Setting
from mcptrio.errors import ConfigError

__all__ = ["RegistryListing", "advice", "server_json"]

_SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
_NAME = re.compile(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+")
# Limits of the registry's schema.
_MAX_NAME_CHARS, _MAX_TEXT_CHARS, _MAX_VERSION_CHARS = 200, 100, 255
_MCP_NAME = re.compile(r"mcp-name:\s*([a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+)")
_SOURCES = {"github.com": "github", "gitlab.com": "gitlab"}


@frozen(kw_only=True)
class RegistryListing:
    """The publisher's data. ``None`` takes the value from the distribution.

    Args:
        name: ``io.github.user/server``; by default the text after ``mcp-name:`` in the README.
        package: The distribution of the server; by default that of the plugin, if there is one.
        repository: The URL of the source repository.
        url: The URL of a running server, which the file lists in addition to the package.
    """

    name: str | None = None
    title: str | None = None
    description: str | None = None
    version: str | None = None
    package: str | None = None
    repository: str | None = None
    url: str | None = None


def server_json(plugins: Sequence[PublishedPlugin], listing: RegistryListing) -> dict[str, Any]:
    main = _main_distribution(plugins, listing.package)
    name = listing.name or _name_in_readme(main)
    if name is None:
        raise ConfigError("--name: expected io.github.USER/SERVER, or a README with mcp-name: in it; got neither")
    if not _NAME.fullmatch(name) or not 3 <= len(name) <= _MAX_NAME_CHARS:
        raise ConfigError(f"--name: expected NAMESPACE/NAME of letters, digits, '.' and '-', got {name!r}")
    version = listing.version or main.version
    # "Versioning" of the registry: ranges such as ^1.2 or >=1 are refused.
    if not version or len(version) > _MAX_VERSION_CHARS or re.search(r"[\^~<>=*\s]", version):
        raise ConfigError(f"--version: expected one version, got {version!r}")
    if listing.url is not None and not re.fullmatch(r"https?://\S+", listing.url):
        raise ConfigError(f"--url: expected an http or https URL, got {listing.url!r}")
    repository, url = listing.repository, listing.url
    return drop_none(
        {
            "$schema": _SCHEMA,
            "name": name,
            "title": None if listing.title is None else _check_text("--title", listing.title),
            "description": _check_text("--description", listing.description or str(main.metadata["Summary"] or "")),
            "repository": None if repository is None else {"url": repository, "source": _repository_host(repository)},
            "version": version,
            "packages": [_package(plugins, main)],
            "remotes": None if url is None else [{"type": "streamable-http", "url": url}],
        }
    )


def advice(plugins: Sequence[PublishedPlugin], listing: RegistryListing) -> Iterator[str]:
    """Yield advice about requirements of the registry and of uvx that are not met."""
    main = _main_distribution(plugins, listing.package)
    readme_name = _name_in_readme(main)
    # The registry compares the name with the README to check who owns the package.
    if readme_name is None or (listing.name is not None and readme_name != listing.name):
        yield f"the README of {main.name} must contain mcp-name: {listing.name or 'NAME'} (it may be in a comment)"
    # uvx runs the program that has the name of the package.
    scripts = {point.name for point in main.entry_points if point.group == "console_scripts"}
    if main.name not in scripts:
        yield f'uvx {main.name} needs a program of that name: [project.scripts] {main.name} = "mcptrio.cli:main"'


def _main_distribution(plugins: Sequence[PublishedPlugin], package: str | None) -> Distribution:
    installed = {each.distribution.name: each.distribution for each in plugins if each.distribution is not None}
    files = [each.name for each in plugins if each.distribution is None]
    # Users of the registry install from PyPI, which has no single files.
    if files:
        raise ConfigError(f"--plugin: expected plugins from PyPI, got the file {files[0]}.py; a bundle may have files")
    if package is None and len(installed) != 1:
        raise ConfigError(f"--package: expected one of {', '.join(installed)}, got none")
    if package is not None and package not in installed:
        raise ConfigError(f"--package: expected one of {', '.join(installed)}, got {package}")
    return installed[package] if package is not None else next(iter(installed.values()))


def _package(plugins: Sequence[PublishedPlugin], main: Distribution) -> dict[str, Any]:
    others = sorted({each.requirement or "" for each in plugins} - {f"{main.name}=={main.version}"})
    return drop_none(
        {
            "registryType": "pypi",
            "identifier": main.name,
            "version": main.version,
            "runtimeHint": "uvx",
            # uvx installs the other plugins into the same environment.
            "runtimeArguments": [{"type": "named", "name": "--with", "value": each} for each in others] or None,
            "transport": {"type": "stdio"},
            "packageArguments": [
                {"type": "positional", "value": "serve"},
                {"type": "named", "name": "--stdio"},
                *({"type": "named", "name": "--plugin", "value": each.name} for each in plugins),
            ],
            "environmentVariables": [_variable(setting) for each in plugins for setting in each.settings] or None,
        }
    )


def _variable(setting: Setting) -> dict[str, Any]:
    kind = "filepath" if setting.kind in ("directory", "file") else setting.kind
    # A JSON true would be a boolean, but the schema requires a string.
    default = str(setting.default).lower() if isinstance(setting.default, bool) else setting.default
    return drop_none(
        {
            "name": setting.variable,
            "description": setting.description,
            # A list is one variable with separators, for which the schema has no format.
            "format": "string" if setting.is_multiple else kind,
            "isSecret": setting.is_secret or None,
            "default": None if default is None else str(default),
            "choices": list(setting.choices) or None,
        }
    )


def _name_in_readme(main: Distribution) -> str | None:
    # The payload of the metadata is the README.
    readme = main.metadata.get_payload()  # type: ignore[attr-defined, unused-ignore]
    match = _MCP_NAME.search(str(readme or ""))
    return match[1] if match else None


def _check_text(option: str, text: str) -> str:
    if not 0 < len(text) <= _MAX_TEXT_CHARS:
        raise ConfigError(f"{option}: expected 1 to {_MAX_TEXT_CHARS} characters, got {len(text)}")
    return text


def _repository_host(url: str) -> str:
    match = re.fullmatch(r"https?://(?:www\.)?([^/\s]+)/\S+", url)
    if match is None:
        raise ConfigError(f"--repository: expected the http or https URL of a repository, got {url!r}")
    return _SOURCES.get(match[1], match[1])
