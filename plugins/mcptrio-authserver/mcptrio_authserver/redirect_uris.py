"""Redirect URIs: which may be registered, and which a request may name.

Source: OAuth 2.1 sections 2.3 and 4.1.1; RFC 8252 sections 7 and 8.4; OpenID Connect Dynamic Client Registration 1.0
section 2, "application_type"; MCP 2026-07-28, basic/authorization/security-considerations, "Open Redirection".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final
from urllib.parse import urlencode, urlsplit

from mcptrio.auth.urls import is_loopback

__all__ = ["check_redirect_uri", "host_of", "is_local", "is_registered", "with_parameters"]

# Longest redirect URI in characters.
_MAX_URI_CHARS: Final = 2048
# Characters that RFC 3986 excludes and that parsers treat differently.
_UNSAFE: Final = re.compile(r"[^\x21-\x7e]|[\\<>\"`{}|^]")
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*")
# Schemes that a browser would execute, open or dial instead of starting an app.
_FORBIDDEN_SCHEMES: Final = frozenset(
    {"about", "blob", "chrome", "data", "file", "filesystem", "ftp", "intent", "javascript", "mailto", "ms-msdt"}
    | {"search-ms", "shell", "ssh", "tel", "vbscript", "view-source", "ws", "wss"}
)


def check_redirect_uri(
    uri: str, application_type: str | None = None, app_schemes: Collection[str] | None = None
) -> None:
    """Check a redirect URI that a client registers.

    Args:
        application_type: ``web``, ``native``, or ``None`` if the client names none.
        app_schemes: The allowed schemes of apps without a period; ``None`` for all.

    Raises:
        ValueError: The URI may not be registered; the message is a sentence.
    """
    if len(uri) > _MAX_URI_CHARS or _UNSAFE.search(uri):
        raise ValueError(f"expected a redirect URI of at most {_MAX_URI_CHARS} visible ASCII characters")
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError:
        raise ValueError(f"expected a redirect URI, got {uri[:200]!r}") from None
    scheme = uri.partition(":")[0]
    if "#" in uri:
        raise ValueError(f"expected a redirect URI without a fragment, got {uri[:200]!r}")
    if "@" in parts.netloc or port == 0:
        raise ValueError(f"expected a redirect URI without credentials, got {uri[:200]!r}")
    if scheme == "https" and parts.hostname:
        if application_type == "web" and is_loopback(parts.hostname):
            raise ValueError(f"expected a web application's redirect URI on another machine, got {uri[:200]!r}")
        return
    if scheme == "http" and parts.hostname and is_loopback(parts.hostname):
        if application_type == "web":
            raise ValueError(f"expected https redirect URIs of a web application, got {uri[:200]!r}")
        return
    if scheme in ("http", "https") or scheme.lower() in _FORBIDDEN_SCHEMES or not _SCHEME.fullmatch(scheme):
        raise ValueError(
            f"expected a redirect URI of https, of http on this machine, or of an app's own scheme, got {uri[:200]!r}"
        )
    if application_type == "web":
        raise ValueError(f"expected https redirect URIs of a web application, got {uri[:200]!r}")
    # RFC 8252 sections 7.1 and 8.4: a scheme with a period is a reversed domain name, which has an owner.
    if app_schemes is not None and "." not in scheme and scheme not in app_schemes:
        raise ValueError(
            f"expected an app's own scheme with a period in it, as in com.example.app, got {uri[:200]!r}; "
            "the operator can allow others with app_schemes"
        )


def is_registered(uri: str, registered: Sequence[str]) -> bool:
    """Return True if a request may name a redirect URI."""
    if uri in registered:
        return True
    # RFC 8252 section 7.3: on this machine the port may differ, because a program uses any free one. That is applied to
    # localhost too, which clients publish in their documents although RFC 8252 advises an address.
    bare = _without_port(uri)
    return bare is not None and any(_without_port(each) == bare for each in registered)


def is_local(uri: str) -> bool:
    """Return True if it leads to a program on the user's machine, where another program may receive the code."""
    parts = urlsplit(uri)
    return parts.scheme not in ("http", "https") or is_loopback(parts.hostname or "")


def host_of(uri: str) -> str:
    """Return the target of a redirect URI as users see it."""
    parts = urlsplit(uri)
    if parts.scheme in ("http", "https"):
        return parts.netloc
    return f"{parts.scheme}:"


def with_parameters(uri: str, parameters: Mapping[str, str]) -> str:
    """Return a URI with parameters added to its query."""
    separator = "&" if urlsplit(uri).query else "" if uri.endswith("?") else "?"
    return f"{uri}{separator}{urlencode(parameters)}"


def _without_port(uri: str) -> str | None:
    """Return the URI without its port; ``None`` if it is not http on this machine."""
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError:
        return None
    if not uri.startswith("http://") or not parts.hostname or not is_loopback(parts.hostname) or "@" in parts.netloc:
        return None
    if _UNSAFE.search(uri) or "#" in uri or port == 0:
        return None
    host = parts.netloc.removesuffix(f":{port}") if port is not None else parts.netloc.removesuffix(":")
    return uri.replace(parts.netloc, host, 1)
