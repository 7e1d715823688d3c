"""Headers that let web pages of other origins read a response (CORS).

The ASGI entry decides which origins may; this module writes the headers and answers preflight requests.

Source: Fetch standard, "HTTP extensions" (CORS).
"""

from __future__ import annotations

import re
from typing import Final

from mcptrio.http.headers import Headers
from mcptrio.http.server.exchange import Exchange

__all__ = ["answer_preflight", "every_origin", "is_preflight", "one_origin"]

_EXPOSED: Final = b"Mcp-Session-Id, Mcp-Protocol-Version, WWW-Authenticate, DPoP-Nonce, Retry-After"
_METHOD: Final = "access-control-request-method"
_HEADER_LIST: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~, -]{0,2000}")


def every_origin() -> list[tuple[bytes, bytes]]:
    """Headers of a response that pages of every origin may read."""
    return [(b"access-control-allow-origin", b"*")]


def one_origin(origin: str) -> list[tuple[bytes, bytes]]:
    """Headers of a response that pages of one origin may read."""
    return [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", _EXPOSED),
        (b"vary", b"Origin"),
    ]


def is_preflight(method: str, headers: Headers) -> bool:
    """Whether a browser asks which requests a page may send."""
    return method == "OPTIONS" and _METHOD in headers


async def answer_preflight(exchange: Exchange, methods: tuple[str, ...]) -> None:
    """Tell a browser which methods and headers it may send. Which headers these are is no secret."""
    wanted = exchange.headers.get("access-control-request-headers", "")
    allowed = wanted if _HEADER_LIST.fullmatch(wanted) else "content-type"
    await exchange.respond(
        204,
        headers=[
            (b"access-control-allow-methods", ", ".join(methods).encode("ascii")),
            (b"access-control-allow-headers", allowed.encode("ascii")),
            (b"access-control-max-age", b"600"),
        ],
    )
