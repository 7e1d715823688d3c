"""Headers that let web pages of other origins read a response (CORS).

``HTTPApp`` decides which origins may read a response; this module writes the headers and answers preflight requests.

Source: Fetch standard, "HTTP extensions" (CORS).
"""

from __future__ import annotations

import re
from typing import Final

from mcptrio.http.headers import Headers
from mcptrio.http.server.exchange import Exchange

__all__ = ["answer_preflight", "every_origin", "is_preflight", "one_origin"]

# Without this list a page can read only the safelisted response headers (Fetch standard, "CORS-safelisted
# response-header name"), and a browser client needs these for sessions, authorization and retries.
_EXPOSED: Final = b"Mcp-Session-Id, Mcp-Protocol-Version, WWW-Authenticate, DPoP-Nonce, Retry-After"
_METHOD: Final = "access-control-request-method"
# The value is echoed in a response header: field names only, and a bounded number of them.
_HEADER_LIST: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~, -]{0,2000}")


def every_origin() -> list[tuple[bytes, bytes]]:
    """Return the headers of a response that pages of every origin may read."""
    # "*" excludes credentials, so a page cannot use the cookies of its visitor.
    return [(b"access-control-allow-origin", b"*")]


def one_origin(origin: str) -> list[tuple[bytes, bytes]]:
    """Return the headers of a response that pages of one origin may read."""
    return [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", _EXPOSED),
        # A shared cache must not give the response for one origin to a page of another.
        (b"vary", b"Origin"),
    ]


def is_preflight(method: str, headers: Headers) -> bool:
    """Return whether a request is a preflight request of a browser."""
    return method == "OPTIONS" and _METHOD in headers


async def answer_preflight(exchange: Exchange, methods: tuple[str, ...]) -> None:
    """Respond to a preflight request with the methods and headers that a page may send."""
    # Every header is allowed. A list would not protect anything, because clients that are not browsers ignore it.
    requested_headers = exchange.headers.get("access-control-request-headers", "")
    allowed = requested_headers if _HEADER_LIST.fullmatch(requested_headers) else "content-type"
    await exchange.respond(
        204,
        headers=[
            (b"access-control-allow-methods", ", ".join(methods).encode("ascii")),
            (b"access-control-allow-headers", allowed.encode("ascii")),
            # Seconds. Chromium caps this at 7,200; a short time lets a changed policy take effect.
            (b"access-control-max-age", b"600"),
        ],
    )
