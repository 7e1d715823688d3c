"""Starts a bundle: the user's input becomes the settings of its plugins.

``src/server.py`` of a bundle calls it. An empty input is left out; the host application passes it as empty text, or as
``${user_config.…}``.

Source: MCPB, ``src/shared/config.ts``.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping, Sequence
from pathlib import Path

from mcptrio.cli.group import cli, end

__all__ = ["serve_arguments", "start"]

_EMPTY_INPUT = "${user_config."
_LISTS = ("--paths", "--list")


def start(args: Sequence[str], environ: MutableMapping[str, str], file: str) -> None:
    """Serve stdio until the end.

    Args:
        args: Plugins and lists: ``--plugin NAME``, ``--paths VARIABLE ITEM...``, ``--list VARIABLE ITEM...``.
        file: The bundle's file, in whose folder the plugins' files are.
    """
    end(cli, "mcptrio", serve_arguments(args, environ, Path(file).parent))


def serve_arguments(args: Sequence[str], environ: MutableMapping[str, str], folder: Path) -> list[str]:
    """Return the arguments for ``mcptrio``, and set the user's input in the environment.

    A list ends at the next option.
    """
    # An input that the user left empty must not override the default of its setting.
    for name, value in list(environ.items()):
        if name.startswith("MCPTRIO_") and (not value or value.startswith(_EMPTY_INPUT)):
            del environ[name]
    arguments = ["serve", "--stdio"]
    lists: dict[str, tuple[str, list[str]]] = {}
    rest = list(args)
    while rest:
        option, value, *rest = rest
        # The host application turns an input of several values into several arguments.
        if option in _LISTS:
            items = []
            while rest and rest[0] not in (*_LISTS, "--plugin"):
                items.append(rest.pop(0))
            lists[value] = (os.pathsep if option == "--paths" else ",", items)
        else:
            # The host application starts the bundle in another folder.
            arguments += [option, str(folder / value) if value.endswith(".py") else value]
    for variable, (separator, items) in lists.items():
        filled_items = [item for item in items if item and not item.startswith(_EMPTY_INPUT)]
        if filled_items:
            environ[variable] = separator.join(filled_items)
    return arguments
