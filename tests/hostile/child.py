"""The HTTP server as a process with several ports: ``python -m tests.hostile.child CERTIFICATE``.

:func:`tests.hostile.serving.hostile_server` starts it. It prints ``listening`` and its ports on standard error, stops
at SIGTERM, and exits with 1 if it could not stop properly. The ports differ only in their limits, so memory and
descriptors belong to one process.
"""

from __future__ import annotations

import json
import logging
import signal
import ssl
import sys
from functools import partial
from typing import Any

import trio

from mcptrio import Server
from mcptrio.http.engine.server import run_engine
from mcptrio.http.hypercorn.connection import serve_http2
from mcptrio.serving import ConnectionLimits, HTTPOptions, asgi_app
from tests.hostile.application import Application

__all__ = ["BODY_TIMEOUT", "CROWD", "HEAD_BYTES", "ROOMY", "TIGHT"]

HEAD_BYTES = 32 * 1024
CROWD = 100
"""Connections that the port ``crowded`` accepts."""
BODY_TIMEOUT = 1.0
"""The endpoint's own timeout, which decides for bodies."""

ROOMY = {"header_timeout": 30.0, "keepalive_timeout": 30.0, "write_timeout": 30.0, "header_bytes": HEAD_BYTES}
# On a busy machine, a client takes a while to send its first byte, like a client that sends nothing.
TIGHT = {"header_timeout": 2.0, "keepalive_timeout": 4.0, "write_timeout": 1.0, "header_bytes": HEAD_BYTES}


async def main(certificate: str) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    tls.set_alpn_protocols(["h2", "http/1.1"])
    limits: dict[str, dict[str, Any]] = {
        "roomy": ROOMY,
        "tight": TIGHT,
        "crowded": ROOMY
        | {"connections": CROWD, "address_share": 1.0, "header_timeout": 300.0, "keepalive_timeout": 300.0},
        "stalling": ROOMY | {"body_timeout": 1.0},
        "tls": ROOMY | {"tls_timeout": 1.0},
        "secure": ROOMY | {"tls_timeout": 30.0},
    }
    endpoint = asgi_app(Server("hostile"), HTTPOptions(body_timeout=BODY_TIMEOUT))
    shutdown = trio.Event()
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        async with endpoint.running() as mounted, trio.open_nursery() as nursery:
            application = Application(mounted)
            ports = {}
            for port, numbers in limits.items():
                serve = partial(
                    run_engine,
                    application,
                    bind="127.0.0.1:0",
                    tls=tls if port in ("tls", "secure") else None,
                    limits=ConnectionLimits(**numbers),
                    http2=serve_http2,
                    shutdown=shutdown,
                    shutdown_timeout=2.0,
                )
                urls = await nursery.start(serve)
                ports[port] = int(urls[0].rpartition(":")[2].strip("/"))
            print("listening", json.dumps(ports), file=sys.stderr, flush=True)
            async for _ in signals:
                break
            shutdown.set()
    print("stopped", application.running, file=sys.stderr, flush=True)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(name)s %(message)s", stream=sys.stderr)
    trio.run(main, sys.argv[1])
