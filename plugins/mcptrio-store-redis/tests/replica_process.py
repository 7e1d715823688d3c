"""A replica in its own process, for tests that kill or stop it. Reads words from its input, and answers each.

``append STREAM`` stores an event, ``claim`` claims an effect; the answers are ``ok`` or the name of the error.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
from pathlib import Path
from typing import Self

import trio

from mcptrio.errors import MCPTrioError
from mcptrio.stores import StoreSettings, open_stores

__all__ = ["ReplicaProcess"]

WAIT_TIMEOUT = 30.0


class ReplicaProcess:
    def __init__(self, url: str, **settings: object) -> None:
        arguments = [sys.executable, str(Path(__file__)), url, json.dumps(settings)]
        self.process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def say(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()

    async def answer(self) -> str:
        return await trio.to_thread.run_sync(self._line)

    async def ask(self, text: str) -> str:
        self.say(text)
        return await self.answer()

    def _line(self) -> str:
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], WAIT_TIMEOUT)
        assert readable, f"no answer within {WAIT_TIMEOUT:g} s"
        return self.process.stdout.readline().decode().strip()

    async def __aenter__(self) -> Self:
        assert await self.answer() == "ready"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(WAIT_TIMEOUT)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


async def _serve(url: str, settings: str) -> None:
    async with open_stores(url, StoreSettings(**json.loads(settings))) as stores:
        assert stores.effects is not None
        print("ready", flush=True)  # noqa: T201 - the answer
        while line := await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            answer = "ok"
            try:
                match line.split():
                    case ["append", stream]:
                        await stores.events.append("s", stream, b"1", will=b"gone")
                    case ["claim"]:
                        answer = (await stores.effects.claim("call", "a")).state.value
            except MCPTrioError as error:
                answer = type(error).__name__
            print(answer, flush=True)  # noqa: T201 - the answer


if __name__ == "__main__":
    trio.run(_serve, *sys.argv[1:])
