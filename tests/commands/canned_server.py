"""A server with the responses of a file, valid or not: ``python canned_server.py answers.json``.

The file maps methods to results. ``initialize`` is always answered, for 2025-11-25, with the file's additions; methods
that the file does not contain are refused.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

__all__: list[str] = []


def main() -> None:
    answers = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    for line in sys.stdin:
        message = json.loads(line)
        method = message["method"]
        if "id" not in message:
            continue
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        if method == "initialize":
            answer["result"] = {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "serverInfo": {"name": "odd", "version": "1"},
                **answers.get("initialize", {}),
            }
        elif method in answers:
            answer["result"] = answers[method]
        else:
            answer["error"] = {"code": -32601, "message": f"no such method: {method}"}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
