"""``mcptrio serve --http``: one process, or one of several workers.

Called by :mod:`mcptrio.cli.serve`.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from attrs import evolve

from mcptrio.cli.server.auth import guard_for
from mcptrio.cli.server.own_issuers import check_own_issuers
from mcptrio.cli.server.serve_settings import ServeSettings
from mcptrio.cli.server.tls import certificates_of
from mcptrio.serve.http import serve_http
from mcptrio.serve.http_process import HTTPProcess
from mcptrio.serve.stores import serve_with_stores
from mcptrio.serve.stores_table import SQLITE_STORE, StoreName
from mcptrio.serve.worker import WorkerProcess

__all__ = ["serve_over_http"]


def serve_over_http(settings: ServeSettings, worker: WorkerProcess | None) -> None:
    """Serve until a signal or the parent ends it.

    Args:
        worker: This process as one of several workers; ``None`` if it is the only one.
    """
    config = settings.config
    http = evolve(
        config.http,
        **{name: value for name in ("host", "port") if (value := settings.options[name]) is not None},
        message=config.server.message,
        auth=guard_for(config, worker.start_parameters.key if worker is not None else None),
    )
    stores = settings.stores
    if worker is not None and worker.start_parameters.folder is not None:
        # A request reaches any worker, so all workers use one store.
        stores = evolve(
            stores, url=StoreName(f"{SQLITE_STORE}{Path(worker.start_parameters.folder) / 'sessions.sqlite'}")
        )
    certificates = certificates_of(config, http2=http.http2)
    server = settings.make()
    check_own_issuers(config, server)
    if settings.metrics is not None:
        settings.metrics.attach_page(server, http.auth, config.telemetry.metrics_scope)
    process = HTTPProcess(
        worker=worker,
        addresses=tuple(settings.addresses),
        certificates=certificates,
        # With several workers, the parent replaces them at SIGHUP.
        renew=settings.renewal(server) if worker is None else None,
        background=settings.background,
    )
    ready = settings.ready(server, process.ready.started if worker is not None else None, http.auth)
    serve = settings.with_companions(
        partial(serve_http, server, host=http.host, port=http.port, options=http, task_status=ready)
    )
    # The parent's bus reaches only its workers; other machines use the same engine.
    is_local = stores.urls["bus"].startswith(SQLITE_STORE)
    bus = worker.bus if worker is not None and is_local else None
    process.run(partial(serve_with_stores, server, stores, serve, bus))
