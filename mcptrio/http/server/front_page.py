"""The page that a browser gets at the root of an HTTP server.

The page tells a person who opens the URL of an MCP server what the server is and how to connect a client. It contains
the path of the endpoint, but no other part of the configuration or of the request.
"""

from __future__ import annotations

from html import escape
from typing import Final

from mcptrio.http.headers import Headers
from mcptrio.http.server.exchange import Exchange

__all__ = ["show_front_page", "wants_front_page"]

_PAGE: Final = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>MCP server</title></head>
<body>
<h1>MCP server</h1>
<p>This address serves the <a href="https://modelcontextprotocol.io">Model Context Protocol</a>. Programs use it;
there is nothing to click.</p>
<p>Its endpoint is <code>{path}</code> on this server. Give a client, such as Claude, Cursor or VS Code,
the address of this page with that path.</p>
<p>List what the server offers from a terminal: <code>mcptrio list URL</code></p>
</body>
</html>
"""
_HEADERS: Final = (
    # The path may change with the configuration.
    (b"cache-control", b"no-store"),
    # The page has no script, style or image, so forbid them all.
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)


def wants_front_page(method: str, headers: Headers) -> bool:
    """Return whether a browser requests a page. A client that searches for an endpoint gets 404 instead."""
    return method in ("GET", "HEAD") and "text/html" in (headers.get("accept") or "").lower()


async def show_front_page(path: str, exchange: Exchange, *_: object) -> None:
    """Respond with the page.

    Args:
        path: The path of the endpoint.
    """
    # The path is trusted, but it may have characters with a meaning in HTML.
    page = _PAGE.format(path=escape(path)).encode()
    await exchange.respond(200, page, _HEADERS, media="text/html; charset=utf-8")
