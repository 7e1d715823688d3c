"""URLs of authorization: which URLs may be used, how they are compared, and where metadata documents are.

All flows use these functions; the resource server uses them for the locations of its documents. Only :func:`canonical`
normalises a URL, and only the URL of the own server; all other URLs are compared as received.

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

# Maximum characters of a URL; URLs come from documents of other servers.
_MAX_URL_CHARS: Final = 2048
# Maximum characters of a URL, or of a text from a server, that an error message repeats.
_MAX_QUOTED_CHARS: Final = 200
# RFC 3986 excludes these characters, and URL parsers disagree about them: one would check another host than is used.
_UNSAFE: Final = re.compile(r"[^\x21-\x7e]|[\\<>\"`{}|^]")
_PORTS: Final = {"http": 80, "https": 443}
_RESOURCE: Final = "/.well-known/oauth-protected-resource"
_SERVER: Final = "/.well-known/oauth-authorization-server"
_OPENID: Final = "/.well-known/openid-configuration"


def check_url(url: str, what: str, *, query: bool = True) -> str:
    """Return the URL if it may be used: ``https``, or ``http`` to a loopback address.

    Args:
        what: The name of the value for the error, for example ``token_endpoint``.
        query: True if the URL may have a query.

    Raises:
        AuthorizationError: The URL is malformed or not allowed.
    """
    try:
        parts = _parse(url)
    except ValueError as error:
        raise AuthorizationError(f"{what}: {error}, got {shown(url)}") from None
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        raise AuthorizationError(f"{what}: expected an https URL, or http on the loopback interface, got {shown(url)}")
    if parts.query and not query:
        raise AuthorizationError(f"{what}: expected a URL without query, got {shown(url)}?…")
    return url


def canonical(url: str) -> str:
    """Return the URL by which authorization servers know a server that publishes no resource identifier.

    Scheme and host are lower case; the default port, the fragment and the slash of an empty path are removed.

    Raises:
        AuthorizationError: The URL is not an http or https URL.
    """
    try:
        parts = _parse(url.partition("#")[0])
    except ValueError as error:
        raise AuthorizationError(f"url: {error}, got {shown(url)}") from None
    path = "" if parts.path == "/" and not parts.query else parts.path
    return urlunsplit((parts.scheme, _authority(parts), path, parts.query, ""))


def origin(url: str) -> str:
    """Return scheme, host and port of a canonical URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def covers(resource: str, url: str) -> bool:
    """Return True if a resource identifier includes the server at ``url``: the same URL, or a parent path.

    Args:
        resource: The identifier in the resource metadata.
        url: The URL of the server that the client uses.
    """
    try:
        broad, narrow = _parse(resource), _parse(url)
    except ValueError:
        return False
    if (broad.scheme, _authority(broad)) != (narrow.scheme, _authority(narrow)):
        return False
    # A query names one resource, so it has no resources below it.
    if broad.query:
        return (broad.path, broad.query) == (narrow.path, narrow.query)
    above, below = broad.path.rstrip("/"), narrow.path.rstrip("/")
    # "/a" covers "/a/b", not "/ab". Dot segments could lead out of the path after the check.
    return (below == above or below.startswith(f"{above}/")) and not _has_dot_segments(below)


def resource_metadata_urls(url: str) -> tuple[str, ...]:
    """Return the URLs of a protected resource's metadata, in the order in which clients try them.

    Args:
        url: A canonical URL.
    """
    parts = urlsplit(url)
    root = f"{origin(url)}{_RESOURCE}"
    rest = urlunsplit(("", "", parts.path if parts.path != "/" else "", parts.query, ""))
    return (f"{root}{rest}", root) if rest else (root,)


def server_metadata_urls(issuer: str) -> tuple[str, ...]:
    """Return the URLs of an authorization server's metadata, in the order in which clients try them."""
    parts = urlsplit(issuer)
    root, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    if not path:
        return (f"{root}{_SERVER}", f"{root}{_OPENID}")
    # RFC 8414 inserts the well-known part before the path, OpenID Connect Discovery appends it.
    return (f"{root}{_SERVER}{path}", f"{root}{_OPENID}{path}", f"{root}{path}{_OPENID}")


def is_loopback(host: str) -> bool:
    """Return whether a host is a loopback address or a localhost name (RFC 6761 section 6.3)."""
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def at_host_of(url: str, other: str) -> str | None:
    """Return ``url`` with the host of ``other`` if the two hosts are different loopback names, for advice in errors.

    Servers compare URLs character by character, so ``localhost`` and ``127.0.0.1`` differ. Returns ``None`` if scheme
    or port differ too, if the hosts are equal, or if a host is not a loopback name.
    """
    try:
        ours, theirs = _parse(url), _parse(other)
    except ValueError:
        return None
    same = (ours.scheme, ours.port or _PORTS[ours.scheme]) == (theirs.scheme, theirs.port or _PORTS[theirs.scheme])
    hosts = {ours.hostname or "", theirs.hostname or ""}
    if not same or len(hosts) != 2 or not all(map(is_loopback, hosts)):
        return None
    return urlunsplit((ours.scheme, _authority(theirs), ours.path, ours.query, ""))


def shown(url: str) -> str:
    """Return a URL quoted for an error: bounded, on one line, without userinfo, query and fragment.

    The text may be anything that should be a URL.
    """
    # Queries and userinfo may carry credentials; errors end up in logs.
    text = re.split(r"[?#]", url[: 4 * _MAX_QUOTED_CHARS], maxsplit=1)[0]
    scheme, separator, rest = text.partition("://")
    host, slash, path = rest.partition("/")
    text = f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}"
    return repr(text[:_MAX_QUOTED_CHARS] + "…" if len(text) > _MAX_QUOTED_CHARS else text)


def _parse(url: str) -> SplitResult:
    """Parse and check a URL.

    Raises:
        ValueError: The URL is not allowed; the message has the expected form.
    """
    if len(url) > _MAX_URL_CHARS:
        raise ValueError(f"expected a URL of at most {_MAX_URL_CHARS} characters, got {len(url)}")
    if unsafe := _UNSAFE.search(url):
        raise ValueError(f"expected a URL of the ASCII characters that RFC 3986 allows, got {unsafe[0]!r}")
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname or parts.port == 0:
        raise ValueError("expected an http or https URL with a host")
    if "@" in parts.netloc:
        raise ValueError("expected a URL without credentials")
    # urlsplit drops an empty fragment, so test the text itself.
    if "#" in url:
        raise ValueError("expected a URL without fragment")
    return parts


def _authority(parts: SplitResult) -> str:
    host = parts.hostname or ""
    # SplitResult.hostname has removed the brackets of an IPv6 address.
    host = f"[{host}]" if ":" in host else host
    return host if parts.port in (None, _PORTS[parts.scheme]) else f"{host}:{parts.port}"


def _has_dot_segments(path: str) -> bool:
    # A server may decode "%2e" before it resolves dot segments.
    return any(segment.lower().replace("%2e", ".") in (".", "..") for segment in path.split("/"))
