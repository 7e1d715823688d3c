"""A process that serves HTTP, alone or as a worker.

The command line runs it. It handles signals, watches certificates, reports to the parent of a worker, and passes
sockets and events to the function that serves.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio
from attrs import frozen

from mcptrio.ground.nurseries import open_hidden_nursery
from mcptrio.serve.http import HTTPSockets
from mcptrio.serve.process import ReadyStatus, run
from mcptrio.serve.tls import Certificates
from mcptrio.serve.worker import WorkerProcess, WorkerShutdown

__all__ = ["HTTPProcess"]


@frozen(kw_only=True)
class HTTPProcess:
    """The process in which an HTTP server runs.

    Args:
        worker: This process as a worker; ``None`` if it serves alone.
        addresses: Addresses in place of host and port.
        certificates: The certificates for TLS, if any.
        background: Runs while the server runs; see :func:`mcptrio.serve.process.run`.
        renew: A function called at SIGHUP after the certificates are reloaded, in a process that serves alone.
    """

    worker: WorkerProcess | None
    addresses: tuple[str, ...] = ()
    certificates: Certificates | None
    renew: Callable[[], Awaitable[None]] | None = None
    background: Callable[..., Awaitable[None]] | None = None

    def run(self, serve: Callable[..., Awaitable[None]]) -> None:
        """Run ``serve(sockets=..., shutdown=...)`` until it returns. Signals or the parent set ``shutdown``.

        SIGHUP reloads the certificates and calls ``renew``.
        """

        async def in_process(stop: trio.Event) -> None:
            async with open_hidden_nursery() as nursery:
                if self.certificates is not None:
                    nursery.start_soon(self.certificates.watch)
                if self.worker is None:
                    await serve(sockets=self._sockets(None), shutdown=stop)
                else:
                    await self.worker.run(
                        lambda stopping: serve(sockets=self._sockets(stopping), shutdown=stopping.shutdown), stop
                    )

        # A worker needs ``renew`` too. Without it, SIGHUP would stop the worker: an operator may signal all processes
        # of a service, but only the parent may replace workers.
        run(in_process, renew=self._renew, background=self.background)

    async def _renew(self) -> None:
        if self.certificates is not None:
            self.certificates.reload()
        if self.renew is not None:
            await self.renew()

    @property
    def ready(self) -> ReadyStatus:
        """The ``task_status`` of a worker."""
        return ReadyStatus(self._report_ready)

    def _report_ready(self, urls: list[str]) -> None:
        assert self.worker is not None, "only a worker has a parent to notify"
        self.worker.release()
        self.worker.report_ready(urls)

    def _sockets(self, stopping: WorkerShutdown | None) -> HTTPSockets:
        tls = None if self.certificates is None else self.certificates.context
        if self.worker is None or stopping is None:
            return HTTPSockets(bind=self.addresses, tls=tls)
        return HTTPSockets(
            bind=self.worker.addresses, tls=tls, leaving=stopping.leaving, pause=self.worker.counter.pause
        )
