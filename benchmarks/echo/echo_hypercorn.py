"""Stock Hypercorn on Trio with the smallest application: ``python echo_hypercorn.py PORT``.

The body is read, and the answer is always the same bytes.
"""

from __future__ import annotations

import sys
from typing import Any

import trio
from hypercorn.config import Config
from hypercorn.trio import serve

__all__: list[str] = []

_JSON = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"hello"}]}}'
_HEADERS = [
    (b"mcp-session-id", b"none"),
    (b"content-type", b"application/json"),
    (b"content-length", str(len(_JSON)).encode()),
]


async def application(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    await send({"type": "http.response.body", "body": _JSON})


config = Config()
config.bind = [f"127.0.0.1:{sys.argv[1]}"]
config.errorlog = None
# By default Hypercorn closes a connection after 1,000 requests.
config.keep_alive_max_requests = 1_000_000_000
trio.run(serve, application, config)
