"""``mcptrio serve --http``: one process, or one of several workers.

Called by :mod:`mcptrio.commands.serving`.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from attrs import evolve

from mcptrio.commands.asked import Asked, given, names
from mcptrio.commands.own_issuers import check_own_issuers
from mcptrio.commands.renewing import renewal
from mcptrio.commands.serving_auth import guard_for
from mcptrio.commands.serving_tls import certificates_of
from mcptrio.config import SQLITE_STORE, Config
from mcptrio.protocol.jsonrpc import MessageLimits
from mcptrio.serve.http import serve_http
from mcptrio.serve.http_options import HTTPOptions
from mcptrio.serve.http_process import HTTPProcess
from mcptrio.serve.worker import Worker
from mcptrio.transports.http.addresses import Proxies
from mcptrio.transports.http.exchange import HTTPLimits

__all__ = ["over_http"]


def over_http(asked: Asked, worker: Worker | None) -> None:
    """Serve until a signal or the parent ends it.

    Args:
        worker: this process as one of several; ``None`` where it is alone.
    """
    read, options = asked.read, asked.options
    filed = {name: value for name, value in read.http.items() if name in names(HTTPLimits)}
    wanted = {
        **read.http,
        **given({name: options[name] for name in ("host", "port")}),
        "store": _filed_store(read),
    }
    if worker is not None:
        if worker.beginning.folder is not None:
            wanted["store"] = f"{SQLITE_STORE}{Path(worker.beginning.folder) / 'sessions.sqlite'}"
        # What a client posts has to reach the process that has its stream, and nothing sees to that.
        wanted["legacy_sse"] = False
    try:
        Proxies.of(read.http.get("forwarded", ()))
    except ValueError as error:
        raise read.error(("http", "forwarded"), str(error)) from error
    try:
        http = HTTPOptions(
            **{name: value for name, value in wanted.items() if name in names(HTTPOptions)},
            limits=HTTPLimits(message=MessageLimits(**read.message), **filed),
        )
    except ValueError as error:
        raise read.error(("http", "path"), str(error).removeprefix("path: ")) from error
    guard = guard_for(read, worker.beginning.key if worker is not None else None)
    http = evolve(http, auth=guard)
    certificates = certificates_of(read, http2=http.http2)
    server = asked.make()
    check_own_issuers(read, server)
    process = HTTPProcess(
        worker=worker,
        addresses=tuple(asked.addresses),
        certificates=certificates,
        renew=renewal(server, asked) if worker is None else None,
        http2=http.http2,
    )
    address = {name: wanted[name] for name in ("host", "port") if name in wanted}
    ready = asked.ready(server, process.ready.started if worker is not None else None)
    process.run(partial(serve_http, server, **address, options=http, task_status=ready))


def _filed_store(read: Config) -> str:
    """What the file says; a path in it is one from its own folder."""
    store: str = read.http.get("store", "memory")
    if not store.startswith(SQLITE_STORE):
        return store
    return f"{SQLITE_STORE}{read.beside(store.removeprefix(SQLITE_STORE))}"
