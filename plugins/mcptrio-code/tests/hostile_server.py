"""A language server that misbehaves as its argument says. The tests start it as a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

MODE = sys.argv[1]
OUT = sys.stdout.buffer
IN = sys.stdin.buffer


def send(message: dict[str, Any]) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    OUT.write(b"Content-Type: x\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
    OUT.flush()


def receive() -> dict[str, Any]:
    length = 0
    while (line := IN.readline()) != b"\r\n":
        if not line:
            sys.exit()
        length = int(line.split(b":")[1])
    message: dict[str, Any] = json.loads(IN.read(length))
    return message


def raw(data: bytes) -> None:
    OUT.write(data)
    OUT.flush()


def symbols(uri: str) -> Any:
    """Answer a request for the symbols of a document."""
    if MODE == "silent":
        return None
    if MODE == "dies":
        os._exit(3)
    if MODE == "dies-once":
        mark = Path(sys.argv[2] if len(sys.argv) > 2 else "died")
        if not mark.exists():
            mark.write_text("")
            os._exit(3)
    if MODE == "huge":
        raw(b"Content-Length: 999999999\r\n\r\n{")
        time.sleep(60)
    if MODE == "endless-header":
        raw(b"X" * 100_000)
        time.sleep(60)
    if MODE == "two-lengths":
        raw(b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}")
        time.sleep(60)
    if MODE == "not-json":
        raw(b"Content-Length: 4\r\n\r\n{{{{")
        time.sleep(60)
    if MODE == "deep":
        raw(b"Content-Length: 200000\r\n\r\n" + b"[" * 200_000)
        time.sleep(60)
    if MODE == "wrong-form":
        return [{"name": 1, "kind": "x"}]
    if MODE == "out-of-range":
        far = {"line": 10**9, "character": -5}
        return [
            {
                "name": "far",
                "kind": 999,
                "range": {"start": far, "end": far},
                "selectionRange": {"start": far, "end": far},
            }
        ]
    start = {"line": 0, "character": 0}
    return [
        {"name": f"pid{os.getpid()}", "kind": 12, "location": {"uri": uri, "range": {"start": start, "end": start}}}
    ]


def publish(uri: str) -> None:
    """Publish diagnostics: for a document that is not open, then an empty list, then two."""
    range = {"start": {"line": 2, "character": 0}, "end": {"line": 2, "character": 1}}
    send({"method": "textDocument/publishDiagnostics", "params": {"uri": "file:///other", "diagnostics": 1}})
    send({"method": "textDocument/publishDiagnostics", "params": {"uri": uri, "diagnostics": []}})
    found = [
        {"range": range, "message": "late\nword", "severity": 9},
        {"range": range, "message": "hint", "severity": 4},
    ]
    send({"method": "textDocument/publishDiagnostics", "params": {"uri": uri, "diagnostics": found}})


def rename(uri: str) -> Any:
    """Answer a request for a rename."""

    def edit(start: int, end: int) -> dict[str, Any]:
        range = {"start": {"line": 0, "character": start}, "end": {"line": 0, "character": end}}
        return {"range": range, "newText": "new"}

    if MODE == "outside":
        outside = Path.cwd().parent.joinpath("outside.py").as_uri()
        return {"changes": {uri: [edit(0, 1)], outside: [edit(0, 1)]}}
    if MODE == "deletes":
        return {"documentChanges": [{"kind": "delete", "uri": uri}]}
    if MODE == "overlaps":
        return {"changes": {uri: [edit(0, 3), edit(1, 4)]}}
    if MODE == "backwards":
        return {"changes": {uri: [edit(5, 1)]}}
    if MODE == "not-a-file":
        return {"changes": {"untitled:x": [edit(0, 1)]}}
    if MODE == "many":
        return {"changes": {uri: [edit(0, 0)] * 10_001}}
    return {"changes": []} if MODE == "odd-edit" else None


def main() -> None:
    if MODE == "never-starts":
        time.sleep(600)
    if MODE == "child":
        # The child stays in the process group and ignores the end of the input.
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    if MODE == "noisy":
        sys.stderr.write("x" * 1_000_000)
        sys.stderr.flush()
    while True:
        message = receive()
        method, id = message.get("method"), message.get("id")
        if method == "initialize":
            if MODE == "ignores-input":
                send({"id": id, "result": {"capabilities": {}}})
                time.sleep(600)
            send({"id": id, "result": {"capabilities": {"positionEncoding": "utf-7"}}})
            if MODE == "asks":
                # Unknown methods, strange parameters, answers to requests that were never made.
                send({"id": "a", "method": "workspace/configuration", "params": {"items": [{}, {}]}})
                send({"id": "b", "method": "unknown/method"})
                send({"id": "c", "method": "workspace/applyEdit", "params": 7})
                send({"id": 99, "result": {}})
                send({"id": None, "error": "odd"})
                send({"method": "window/logMessage", "params": []})
        elif method == "shutdown":
            send({"id": id, "result": None})
        elif method == "exit":
            sys.exit()
        elif method == "$/cancelRequest":
            Path("cancelled").write_text(str(message["params"]["id"]))
        elif method == "textDocument/documentSymbol":
            if (result := symbols(message["params"]["textDocument"]["uri"])) is not None:
                send({"id": id, "result": result})
        elif method == "textDocument/rename":
            send({"id": id, "result": rename(message["params"]["textDocument"]["uri"])})
        elif method == "textDocument/didOpen" and MODE == "publishes":
            publish(message["params"]["textDocument"]["uri"])
        elif method is None and MODE == "asks":
            with Path("answers").open("a") as file:
                file.write(json.dumps([message["id"], message.get("result"), "error" in message]) + "\n")


main()
