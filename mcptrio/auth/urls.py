"""URLs of authorization: which may be used, what they are called by, and where documents about them are.

Used by every flow, and by the resource server for the places of its documents.
The one rule: what is compared is compared as it came. Nothing is normalised but what :func:`canonical` says, and that
only of our own server's URL.

Source: MCP 2026-07-28, basic/authorization, "Canonical Server URI", and basic/authorization/security-considerations,
"Communication Security"; RFC 9728 section 3.1; RFC 8414 sections 3.1 and 5; OpenID Connect Discovery 1.0, section 4.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult, urlsplit, urlunsplit

from mcptrio.errors import AuthorizationError

__all__ = [
    "at_host_of",
    "canonical",
    "check_url",
    "covers",
    "is_loopback",
    "origin",
    "resource_metadata_urls",
    "server_metadata_urls",
    "shown",
]

_MAX_URL_CHARS: Final = 2048
"""Characters of a URL."""
_MAX_QUOTED_CHARS: Final = 200
"""Characters that an error repeats."""
_UNSAFE: Final = re.compile(r"[^\x21-\x7e]|[\\<>\"`{}|^]")
"""What has no place in a URI (RFC 3986), and is read differently by different readers."""
_PORTS: Final = {"http": 80, "https": 443}
_RESOURCE: Final = "/.well-known/oauth-protected-resource"
_SERVER: Final = "/.well-known/oauth-authorization-server"
_OPENID: Final = "/.well-known/openid-configuration"


def check_url(url: str, what: str, *, query: bool = True) -> str:
    """The URL itself, if it is one that may be used: ``https``, or ``http`` to this very machine.

    Args:
        what: what it is, for the error: ``token_endpoint``.
        query: whether it may have one.

    Raises:
        AuthorizationError: it is not.
    """
    try:
        parts = _split(url)
    except ValueError as error:
        raise AuthorizationError(f"{what}: {error}, got {shown(url)}") from None
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        raise AuthorizationError(f"{what}: expected an https URL, or http on the loopback interface, got {shown(url)}")
    if parts.query and not query:
        raise AuthorizationError(f"{what}: expected a URL without query, got {shown(url)}?…")
    return url


def canonical(url: str) -> str:
    """A server's URL as it is named to an authorization server where it does not name itself.

    Scheme and host in lower case, without the scheme's own port, fragment, and the slash of an empty path.

    Raises:
        AuthorizationError: it is no http or https URL.
    """
    try:
        parts = _split(url.partition("#")[0])
    except ValueError as error:
        raise AuthorizationError(f"url: {error}, got {shown(url)}") from None
    path = "" if parts.path == "/" and not parts.query else parts.path
    return urlunsplit((parts.scheme, _authority(parts), path, parts.query, ""))


def origin(url: str) -> str:
    """Scheme, host and port of a canonical URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def covers(resource: str, url: str) -> bool:
    """Whether a resource is this server, or all that is below a path the server is under.

    Args:
        resource: as somebody else names it.
        url: our server's.
    """
    try:
        broad, narrow = _split(resource), _split(url)
    except ValueError:
        return False
    if (broad.scheme, _authority(broad)) != (narrow.scheme, _authority(narrow)):
        return False
    if broad.query:
        return (broad.path, broad.query) == (narrow.path, narrow.query)
    above, below = broad.path.rstrip("/"), narrow.path.rstrip("/")
    return (below == above or below.startswith(f"{above}/")) and not _has_dots(below)


def resource_metadata_urls(url: str) -> tuple[str, ...]:
    """Where the metadata of a protected resource is, in the order in which it is looked for.

    Args:
        url: canonical.
    """
    parts = urlsplit(url)
    root = f"{origin(url)}{_RESOURCE}"
    rest = urlunsplit(("", "", parts.path if parts.path != "/" else "", parts.query, ""))
    return (f"{root}{rest}", root) if rest else (root,)


def server_metadata_urls(issuer: str) -> tuple[str, ...]:
    """Where the metadata of an authorization server is, in the order in which it is looked for."""
    parts = urlsplit(issuer)
    root, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    if not path:
        return (f"{root}{_SERVER}", f"{root}{_OPENID}")
    return (f"{root}{_SERVER}{path}", f"{root}{_OPENID}{path}", f"{root}{path}{_OPENID}")


def is_loopback(host: str) -> bool:
    """Whether a host is this machine by its address, or by the one name that means it (RFC 6761 section 6.3)."""
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def at_host_of(url: str, other: str) -> str | None:
    """The URL with the host of another one, if both hosts name this machine: ``localhost`` and ``127.0.0.1``.

    Servers compare URLs letter by letter. Returns ``None`` if scheme or port differ too, or if there is no other host.
    """
    try:
        ours, theirs = _split(url), _split(other)
    except ValueError:
        return None
    same = (ours.scheme, ours.port or _PORTS[ours.scheme]) == (theirs.scheme, theirs.port or _PORTS[theirs.scheme])
    hosts = {ours.hostname or "", theirs.hostname or ""}
    if not same or len(hosts) != 2 or not all(map(is_loopback, hosts)):
        return None
    return urlunsplit((ours.scheme, _authority(theirs), ours.path, ours.query, ""))


def shown(url: str) -> str:
    """Any text that should be a URL, for an error: bounded, on one line, without userinfo, query and fragment."""
    text = re.split(r"[?#]", url[: 4 * _MAX_QUOTED_CHARS], maxsplit=1)[0]
    scheme, separator, rest = text.partition("://")
    host, slash, path = rest.partition("/")
    text = f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}"
    return repr(text[:_MAX_QUOTED_CHARS] + "…" if len(text) > _MAX_QUOTED_CHARS else text)


def _split(url: str) -> SplitResult:
    """
    Raises:
        ValueError: what was expected.
    """
    if len(url) > _MAX_URL_CHARS:
        raise ValueError(f"expected a URL of at most {_MAX_URL_CHARS} characters")
    if _UNSAFE.search(url):
        raise ValueError("expected a URL of visible ASCII characters that have a place in one")
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname or parts.port == 0:
        raise ValueError("expected an http or https URL with a host")
    if "@" in parts.netloc:
        raise ValueError("expected a URL without credentials")
    if "#" in url:
        raise ValueError("expected a URL without fragment")
    return parts


def _authority(parts: SplitResult) -> str:
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    return host if parts.port in (None, _PORTS[parts.scheme]) else f"{host}:{parts.port}"


def _has_dots(path: str) -> bool:
    return any(segment.lower().replace("%2e", ".") in (".", "..") for segment in path.split("/"))
