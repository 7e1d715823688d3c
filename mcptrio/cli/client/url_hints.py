"""The probable cause of a failed command, and what to do about it, in one clause for the end of the error.

Used by the commands that talk to a server.
"""

from __future__ import annotations

import os
import re
from errno import ECONNREFUSED
from urllib.parse import SplitResult, urlsplit

import click

from mcptrio.errors import MCPTrioError, RequestFailed, RequestTimeout

__all__ = ["has_no_path", "hint_of", "usual_endpoint"]

_ENDPOINTS = {"http": "/mcp", "https": "/mcp", "ws": "/ws", "wss": "/ws"}
"""By scheme, the path that mcptrio and most other servers use."""
_ENCRYPTED_SCHEMES = {"http": "https", "ws": "wss"}
_PYTHON_FILE = re.compile(r"^\S*python[\d.]* (?P<file>\S+\.py)$")
_UNTRUSTED_CERTIFICATE = re.compile(r"self.signed certificate|local issuer certificate")
"""In the words of OpenSSL, with a hyphen since version 3."""


def hint_of(error: MCPTrioError | OSError, url: str) -> str:
    """Return what to check or type; empty if the error suggests nothing."""

    if isinstance(error, RequestTimeout):
        return "--timeout SECONDS waits longer"
    # A misspelt name of a server is started as a command.
    if url and " " not in url and "was not found in PATH" in str(error):
        hint = "no mcp.json in this folder has a server of this name either"
        command = click.get_current_context(silent=True)
        if command is not None and command.info_name == "call":
            return f"{hint}. To call a tool of a plugin: `mcptrio call --plugin FILE.py {url} …`"
        takes_plugin = command is not None and any("--plugin" in each.opts for each in command.command.params)
        return f"{hint}; if {url} is a plugin, pass --plugin {url}" if takes_plugin else hint
    # A file of decorated functions does nothing when Python runs it.
    if (program := _PYTHON_FILE.search(url)) is not None and str(error).endswith("ended with exit code 0"):
        return f"if {program['file']} is a plugin, pass --plugin {program['file']}"
    if (parts := _split(error, url)) is None:
        return ""
    text = str(error)
    if usual_url := usual_endpoint(error, url):
        if has_no_path(url):
            return f"no endpoint at / or {_ENDPOINTS[parts.scheme]}"
        return f"no endpoint at {parts.path or '/'}; most servers have it at {usual_url}"
    if os.strerror(ECONNREFUSED) in text:
        return "is the server running? `mcptrio serve --http --plugin FILE.py` starts one"
    # OpenSSL reports this if the first record is not TLS.
    if parts.scheme == "https" and "WRONG_VERSION_NUMBER" in text:
        return f"the server speaks plain HTTP: use http://{parts.netloc}{parts.path}"
    # mcptrio's server answers this to plain HTTP on its TLS port.
    if parts.scheme in _ENCRYPTED_SCHEMES and "this port speaks HTTPS" in text:
        return f"use {_ENCRYPTED_SCHEMES[parts.scheme]}://{parts.netloc}{parts.path}"
    if "no TLS with" in text and _UNTRUSTED_CERTIFICATE.search(text):
        return "to trust it, set MCPTRIO_CLIENT_TLS_CA to the file with its authority's certificate"
    # Other TLS servers often close the connection when the first bytes are not a TLS handshake.
    if parts.scheme == "http" and "closed the connection without an answer" in text:
        return f"if the server expects TLS, use https://{parts.netloc}{parts.path}"
    return ""


def usual_endpoint(error: BaseException, url: str) -> str:
    """Return the URL to try if a server has no endpoint at ``url``; empty for other problems."""
    if (parts := _split(error, url)) is None or getattr(error, "status", None) != 404:
        return ""
    endpoint = _ENDPOINTS[parts.scheme]
    return f"{parts.scheme}://{parts.netloc}{endpoint}" if parts.path.rstrip("/") != endpoint else ""


def has_no_path(url: str) -> bool:
    """Return whether a URL names a server only, so that its endpoint is at / or at the usual path."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.path in ("", "/") and not parts.query


def _split(error: BaseException, url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    # A URL with a password must not be repeated.
    is_shown = parts.scheme in _ENDPOINTS and "@" not in parts.netloc
    return parts if is_shown and isinstance(error, RequestFailed) else None
