"""The parsed URL of an HTTP server.

The links and channels of a client make it. The dialer reads the address, and the connections read the target. Userinfo
and query may be secret, so :attr:`HTTPEndpoint.name`, which logs and errors show, contains neither.

Source: RFC 3986; RFC 9110 sections 4.2 and 7.2; RFC 7617 section 2; RFC 6454 section 4.
"""

from __future__ import annotations

import re
from base64 import b64encode
from typing import Final
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit

from attrs import field, frozen

__all__ = ["HTTPEndpoint", "shown_url"]

_PORTS: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443}
_HTTP: Final = ("http", "https")
_MAX_URL_CHARS: Final = 8192
"""Characters of a URL."""
_UNSAFE: Final = re.compile(r"[\x00-\x20\x7f-\x9f\ud800-\udfff\\]")
"""Characters that a URL must not have. ``urlsplit`` silently drops some, so that other programs read another URL."""
_UNENCODED: Final = "/%:@!$&'()*+,;=~?"
"""Characters that stay unencoded in a path or query, in addition to letters, digits and ``-._``."""
_MAX_QUOTED_CHARS: Final = 200
"""Characters of a URL that errors repeat."""


@frozen(kw_only=True)
class HTTPEndpoint:
    """The server and the target of requests. Made by :meth:`parse`."""

    scheme: str
    """``http`` or ``https``; for a WebSocket ``ws`` or ``wss``."""
    host: str
    """In ASCII and lower case; an IPv6 address without brackets."""
    port: int
    target: str
    """Path and query, for the request line."""
    authorization: str | None = field(default=None, repr=False)
    """The value of ``Authorization`` for the URL's userinfo."""

    @classmethod
    def parse(cls, url: str, schemes: tuple[str, str] = _HTTP) -> HTTPEndpoint:
        """Return the endpoint of a URL.

        Args:
            schemes: The accepted schemes; ``("ws", "wss")`` for a WebSocket.

        Raises:
            ValueError: The URL is invalid or has another scheme. The message repeats neither credentials nor the query.
        """
        expected = " or ".join(f"{scheme}://host/path" for scheme in schemes)
        if len(url) > _MAX_URL_CHARS:
            raise ValueError(f"url: expected at most {_MAX_URL_CHARS} characters, got {len(url)}")
        if unsafe := _UNSAFE.search(url):
            place = f"{unsafe[0]!r} at character {unsafe.start() + 1}"
            raise ValueError(f"url: expected no spaces, backslashes or control characters, got {place}")
        try:
            parts = urlsplit(url)
            port = parts.port
            host = _ascii_host(parts.hostname or "")
        except ValueError as error:  # UnicodeError is one
            raise ValueError(f"url: expected {expected}, got {_without_secrets(url)}") from error
        if parts.scheme not in schemes or not host or port == 0:
            raise ValueError(f"url: expected {expected}, got {_without_secrets(url)}")
        query = f"?{quote(parts.query, safe=_UNENCODED)}" if parts.query else ""
        return cls(
            scheme=parts.scheme,
            host=host,
            port=port if port is not None else _PORTS[parts.scheme],
            target=(quote(parts.path, safe=_UNENCODED) or "/") + query,
            authorization=_basic(parts),
        )

    @property
    def authority(self) -> str:
        """The value of ``Host``, with the port if it is not the scheme's default."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"

    @property
    def url(self) -> str:
        """The whole URL without credentials."""
        return self.origin + self.target

    @property
    def name(self) -> str:
        """The URL without credentials and query, for logs and errors."""
        return self.origin + self.target.partition("?")[0]

    def join(self, reference: str) -> HTTPEndpoint:
        """Return the endpoint of a URI from the server, which may be relative.

        Raises:
            ValueError: The URI is not an http or https URL, or has another origin.
        """
        if _UNSAFE.search(reference):
            raise ValueError("expected a URI, got one with spaces, backslashes or control characters in it")
        other = HTTPEndpoint.parse(urljoin(self.url, reference))
        # The legacy transport sends credentials to this URL, so another origin must not receive them.
        if other.origin != self.origin:
            raise ValueError(f"expected a URI of {self.origin}, got one of {other.origin[:_MAX_QUOTED_CHARS]}")
        return other


def shown_url(url: str) -> str:
    """Return a URL, valid or not, for an error: bounded, on one line, without userinfo, query and fragment."""
    try:
        return _quote(HTTPEndpoint.parse(url).name)
    except ValueError:
        return _without_secrets(url)


def _without_secrets(url: str) -> str:
    """Return an invalid URL without any part that may be a secret."""
    text = re.split(r"[?#]", url[: 4 * _MAX_QUOTED_CHARS], maxsplit=1)[0]
    return _quote(text.rpartition("@")[2])


def _quote(text: str) -> str:
    return repr(text[:_MAX_QUOTED_CHARS] + "…" if len(text) > _MAX_QUOTED_CHARS else text)


def _ascii_host(host: str) -> str:
    # urlsplit has converted the host to lower case. A zone (fe80::1%eth0) has a meaning on this machine only, and is
    # not supported (RFC 6874).
    if "%" in host:
        raise ValueError(f"expected a host without a percent sign, got {_quote(host)}")
    host = host if host.isascii() else host.encode("idna").decode("ascii")
    if ":" not in host and any(not 0 < len(label) < 64 for label in host.removesuffix(".").split(".")):
        raise ValueError(f"expected a host of labels of 1 to 63 characters, got {_quote(host)}")
    return host


def _basic(parts: SplitResult) -> str | None:
    if parts.username is None and parts.password is None:
        return None
    pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    return "Basic " + b64encode(pair.encode()).decode("ascii")
