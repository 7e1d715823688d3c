"""Names of the servers' tools and prompts in a host.

``fs_read_file`` is the tool ``read_file`` of the server ``fs``. The part before the first ``_`` is the prefix of the
server, which contains no ``_``. Names that do not fit are changed:

- The prefix is at most 24 ASCII letters, digits and ``-``. Otherwise ``-`` replaces the other characters, and the
  prefix is cut and ends with ``-`` and six hexadecimal digits of the SHA-256 of the server's name.
- The whole name is at most 64 letters, digits, ``_`` and ``-``. Otherwise ``_`` replaces the other characters of the
  tool's name, which is cut and ends with ``_`` and eight hexadecimal digits of its SHA-256.

So a name depends only on its server and its tool, and no two tools have the same name.

Source: MCP 2026-07-28, server/tools, "Tool Names"; the tool names of the large model providers, which are at most 64
characters of ``[A-Za-z0-9_-]``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256

__all__ = ["MAX_NAME_CHARS", "hosted_name", "hosted_names", "server_of", "server_prefix"]

MAX_NAME_CHARS = 64
"""Characters of a name in the host."""
_MAX_SERVER_CHARS = 24
_SERVER_DIGITS = 6
_TOOL_DIGITS = 8

_SERVER = re.compile(r"[A-Za-z0-9-]+")
_TOOL = re.compile(r"[A-Za-z0-9_-]+")
_NOT_SERVER = re.compile(r"[^A-Za-z0-9-]")
_NOT_TOOL = re.compile(r"[^A-Za-z0-9_-]")


def server_prefix(server: str) -> str:
    """Return the prefix of the names of a server's tools, without the ``_``."""
    if _SERVER.fullmatch(server) and len(server) <= _MAX_SERVER_CHARS:
        return server
    room = _MAX_SERVER_CHARS - _SERVER_DIGITS - 1
    return f"{_NOT_SERVER.sub('-', server)[:room]}-{_digits(server, _SERVER_DIGITS)}"


def hosted_name(prefix: str, name: str) -> str:
    """Return the name of a tool or prompt in the host.

    Args:
        prefix: The prefix of its server.
    """
    room = MAX_NAME_CHARS - len(prefix) - 1
    if _TOOL.fullmatch(name) and len(name) <= room:
        return f"{prefix}_{name}"
    return f"{prefix}_{_NOT_TOOL.sub('_', name)[: room - _TOOL_DIGITS - 1]}_{_digits(name, _TOOL_DIGITS)}"


def hosted_names(prefix: str, names: Iterable[str]) -> dict[str, str]:
    """Map the host's name of each tool of one server to the tool's own name.

    Duplicates are merged. If two tools would get the same name in the host, the tool whose own name needs no change
    gets it, and the other one is left out.
    """
    hosted: dict[str, str] = {}
    for name in sorted(dict.fromkeys(names), key=lambda name: hosted_name(prefix, name) != f"{prefix}_{name}"):
        hosted.setdefault(hosted_name(prefix, name), name)
    return hosted


def server_of(name: str) -> str | None:
    """Return the prefix of the server that a name in the host belongs to; ``None`` if it belongs to none."""
    prefix, separator, _ = name.partition("_")
    return prefix if separator and prefix else None


def _digits(text: str, count: int) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:count]
