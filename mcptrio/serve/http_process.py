"""A process that serves HTTP: alone, or as one of several workers; with certificates that are watched, or without.

Run by the command line.
The one rule: what serves knows nothing of this; it is given sockets, and events that say when to end.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio
from attrs import frozen

from mcptrio.ground.nurseries import open_hidden_nursery
from mcptrio.serve.http import HTTPSockets
from mcptrio.serve.process import ReadyStatus, run
from mcptrio.serve.tls import Certificates
from mcptrio.serve.worker import Ends, WorkerProcess

__all__ = ["HTTPProcess"]


@frozen(kw_only=True)
class HTTPProcess:
    """
    Args:
        worker: this process as a worker; ``None`` where it is alone.
        addresses: to serve on instead of host and port.
        certificates: for TLS; ``None`` without.
        renew: what else is to be done at SIGHUP where the process is alone.
    """

    worker: WorkerProcess | None
    addresses: tuple[str, ...] = ()
    certificates: Certificates | None
    renew: Callable[[], Awaitable[None]] | None = None

    def run(self, serve: Callable[..., Awaitable[None]]) -> None:
        """Run ``serve(sockets=..., shutdown=...)`` until it returns, which signals or the parent ask for.

        SIGHUP makes the certificates be read again, and what ``renew`` does. To a worker it is harmless in any case, so
        that a signal to all processes of a service is one to its parent.
        """

        async def in_process(stop: trio.Event) -> None:
            async with open_hidden_nursery() as nursery:
                if self.certificates is not None:
                    nursery.start_soon(self.certificates.watch)
                if self.worker is None:
                    await serve(sockets=self._sockets(None), shutdown=stop)
                else:
                    await self.worker.run(lambda ends: serve(sockets=self._sockets(ends), shutdown=ends.shutdown), stop)

        run(in_process, renew=self._renew)

    async def _renew(self) -> None:
        if self.certificates is not None:
            self.certificates.reload()
        if self.renew is not None:
            await self.renew()

    @property
    def ready(self) -> ReadyStatus:
        """For ``task_status`` of a worker."""
        return ReadyStatus(self._tell)

    def _tell(self, urls: list[str]) -> None:
        assert self.worker is not None, "only workers have somebody to tell"
        self.worker.release()
        self.worker.ready(urls)

    def _sockets(self, ends: Ends | None) -> HTTPSockets:
        tls = None if self.certificates is None else self.certificates.context
        if self.worker is None or ends is None:
            return HTTPSockets(bind=self.addresses, tls=tls)
        return HTTPSockets(bind=self.worker.addresses, tls=tls, leaving=ends.leaving, pause=self.worker.place.pause)
