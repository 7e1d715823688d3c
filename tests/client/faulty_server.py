"""A server with one fault a tool: ``python faulty_server.py [slow-exit] [--once FILE]``.

It speaks 2025-11-25, and uses no library, so nothing prevents it from violating the protocol.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

__all__: list[str] = []

TOOLS = [
    "echo",
    "die",
    "twice",
    "wrong_id",
    "large",
    "silent",
    "flood",
    "close",
    "rubbish",
    "text_id",
    "unfit",
    "broken",
]


def send(message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer(id: Any, text: str) -> None:
    send({"id": id, "result": {"content": [{"type": "text", "text": text}]}})


def call(id: Any, name: str, params: dict[str, Any]) -> None:
    if name == "die":
        print("out of cheese", file=sys.stderr, flush=True)
        os._exit(7)
    elif name == "twice":
        answer(id, "first")
        answer(id, "second")
    elif name == "wrong_id":
        answer(99_999, "for nobody")
        answer(id, "right")
    elif name == "text_id":
        answer(str(id), "told by its text")
    elif name == "large":
        answer(id, "x" * int(params["arguments"]["size"]))
    elif name == "flood":
        token = params["_meta"]["progressToken"]
        for number in range(20_000):
            send({"method": "notifications/progress", "params": {"progressToken": token, "progress": number}})
        answer(id, "done")
    elif name == "close":
        sys.stdout.close()
        os.close(1)
        while sys.stdin.readline():
            pass
    elif name == "rubbish":
        print("Listening on port 1234...")
        print('{"jsonrpc": "2.0", "id":')
        sys.stdout.flush()
        sys.stdout.buffer.write(b"\xff\xfe\n")
        sys.stdout.buffer.flush()
        answer(id, "after it")
    elif name == "unfit":
        send({"id": id, "result": {"content": "no list"}})
    elif name == "no_object":
        send({"id": id, "result": "a text"})
    elif name == "broken":
        sys.stdout.write(f'{{"jsonrpc": "2.0", "id": {id}, "result": {{"content": [\n')
        sys.stdout.flush()
        answer(id, "the rest")
    elif name == "silent":
        pass
    else:
        answer(id, params.get("arguments", {}).get("text", ""))


def main() -> None:
    arguments = sys.argv[1:]
    if "slow-exit" in arguments:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in sys.stdin:
        message = json.loads(line)
        id, method, params = message.get("id"), message.get("method"), message.get("params") or {}
        if method == "initialize":
            send(
                {
                    "id": id,
                    "result": {
                        "protocolVersion": "2025-11-25",
                        "capabilities": {"tools": {}},
                        "serverInfo": {"name": "faulty", "version": "1"},
                    },
                }
            )
        elif method == "tools/list":
            send({"id": id, "result": {"tools": [{"name": each, "inputSchema": {"type": "object"}} for each in TOOLS]}})
        elif method == "tools/call":
            call(id, params["name"], params)
        elif method == "notifications/cancelled":
            print(f"cancelled {params['requestId']}", file=sys.stderr, flush=True)
        elif id is not None:
            send({"id": id, "error": {"code": -32601, "message": "no such method"}})
    while "slow-exit" in arguments:
        time.sleep(1)


main()
