"""The URLs of stores: ``memory``, ``sqlite:PATH``, and those of engines."""

from __future__ import annotations

import re
from typing import Final

from mcptrio.errors import ConfigError

__all__ = ["is_local_store", "scheme_of"]

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


def scheme_of(url: str) -> str:
    """Return the scheme of the URL of a store, in lower case.

    Raises:
        ConfigError: The URL has no scheme, or the path of a file is missing.
    """
    match = _SCHEME.match(url)
    if match is None and url == "memory":
        return url
    scheme = match[1].lower() if match is not None else ""
    if scheme in ("", "memory") or url.lower() == "sqlite:":
        expected = "memory, sqlite:PATH, redis://HOST:PORT or postgresql://USER@HOST/DATABASE"
        raise ConfigError(f"store: expected {expected}, got {_without_password(url)!r}")
    return scheme


def is_local_store(url: str) -> bool:
    """Return True if only processes of one machine can share the stores of a URL."""
    return scheme_of(url) in ("memory", "sqlite")


def _without_password(url: str) -> str:
    return re.sub(r"(//[^/:@]*):[^/@]*@", r"\1:…@", url)
