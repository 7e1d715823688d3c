"""A replica in its own process, for tests that kill or stop it.

It opens a stream and claims an effect, prints ``ready``, and then appends to the stream for each line of its input.
"""

from __future__ import annotations

import sys

import trio

from mcptrio.errors import ConnectionClosed
from mcptrio.stores import StoreSettings, open_stores

__all__: list[str] = []


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


async def main(url: str, prefix: str, lease: str) -> None:
    async with open_stores(url, StoreSettings(prefix=prefix, lease=float(lease))) as stores:
        assert stores.effects is not None
        await stores.events.append("s", "x", b"1", will=b"gone")
        await stores.effects.claim("call", "effect")
        say("ready")
        while await trio.to_thread.run_sync(sys.stdin.readline):
            try:
                await stores.events.append("s", "x", b"more")
                say("appended")
            except ConnectionClosed:
                say("closed")


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
