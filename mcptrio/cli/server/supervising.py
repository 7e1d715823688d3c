"""The parent process of ``mcptrio serve --http`` with several workers.

:mod:`mcptrio.cli.serve` calls it instead of serving. It reads only its own part of the configuration; the workers read
all of it at each start.
"""

from __future__ import annotations

import os
import sys

from mcptrio.cli.server.serve_settings import ServeSettings
from mcptrio.ground.mcptrio_command import mcptrio_command
from mcptrio.serve.process import Hangups, run
from mcptrio.serve.workers import WorkerPlan, WorkerPool
from mcptrio.transports.sockets import listen

__all__ = ["supervise", "worker_count"]


def worker_count(settings: ServeSettings) -> int:
    count = settings.config.http.workers
    if count != "auto":
        return count
    # os.cpu_count() ignores taskset and the CPU set of a container.
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def supervise(settings: ServeSettings, count: int) -> None:
    """Keep ``count`` workers running until a signal ends the process.

    Raises:
        ConfigError: The platform has no workers, or a worker reports an invalid configuration.
        ChildProcessError: No worker could be started.
        OSError: The address cannot be bound.
    """
    config, options = settings.config, settings.options
    if sys.platform == "win32":
        raise config.error(("http", "workers"), "expected 1 on Windows, where processes cannot inherit sockets")
    http = config.http
    if settings.has_store and settings.stores.url == "memory":
        raise config.error(("stores", "url"), "expected sqlite:PATH or nothing with workers, which share no memory")
    host = options["host"] or http.host
    port = options["port"] if options["port"] is not None else http.port
    addresses = settings.addresses or [f"[{host}]:{port}" if ":" in host else f"{host}:{port}"]
    pool = WorkerPool(
        WorkerPlan(
            command=mcptrio_command(*sys.argv[1:]),
            count=count,
            # The parent keeps the sockets open, so the connections that wait in their queues survive a reload.
            listening=[listen(address) for address in addresses],
            shutdown=config.server.timeouts.shutdown + http.shutdown_delay,
            as_json=settings.as_json,
            # Without a configured store, the workers share one in a temporary folder.
            folder=not settings.has_store,
            worker_timeout=http.worker_timeout,
        )
    )
    hangups = Hangups()
    run(lambda stop: pool.run(stop, hangups, task_status=settings.ready(None)), hangups=hangups, before_exit=pool.kill)
