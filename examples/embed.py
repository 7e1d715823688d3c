"""A server inside a Trio application, which shares its state with the server's tools.

Run it: python examples/embed.py

The application counts. A client can read the count and change the pace, and is notified of every tenth step.
Ctrl-C cancels the application, and with it the server.
"""

from __future__ import annotations

import trio

from mcptrio import Server
from mcptrio.serving import over_http

__all__ = ["Counter", "main"]


class Counter:
    """The application: a counter that runs until it is cancelled."""

    def __init__(self) -> None:
        self.value = 0
        self.pause = 0.1

    async def run(self, server: Server) -> None:
        while True:
            await trio.sleep(self.pause)
            self.value += 1
            if self.value % 10 == 0:
                server.notify_resource_updated("counter://value")

    async def set_pause(self, seconds: float) -> str:
        """Change the pace of the counter."""
        self.pause = max(0.001, seconds)
        return f"one step every {self.pause} s"

    async def read(self) -> str:
        """Return the count."""
        return str(self.value)


async def main(port: int = 8000, *, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED) -> None:
    counter = Counter()
    server = Server("counter", version="1.0", instructions="A counter that can be watched.")
    server.add_tool(counter.set_pause, read_only=False)
    server.add_resource(counter.read, "counter://value", name="value")
    async with over_http(server, port=port) as urls, trio.open_nursery() as nursery:
        nursery.start_soon(counter.run, server)
        print(f"serving {urls[0]}", flush=True)
        task_status.started(urls[0])


if __name__ == "__main__":
    trio.run(main)
