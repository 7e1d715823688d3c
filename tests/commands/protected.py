"""A server that requires a login, with its authorization server in the same process, for the tests of ``mcptrio auth``.

It prints its URL, then a line of JSON for each request to the authorization server. A browser is redirected at once.
Tokens are ``token-1``, ``token-2``; only the last one is valid. It checks little; :mod:`mcptrio.auth` has tests for
that.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from urllib.parse import parse_qs, urlencode

import trio
from attrs import define

__all__ = ["Protected"]

TOOL = {"name": "secret", "inputSchema": {"type": "object"}}


@define
class Protected:
    base: str = ""
    tokens: int = 0
    revoked: bool = False

    async def connected(self, stream: trio.SocketStream) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            if not (more := await stream.receive_some(65536)):
                return
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        while len(body) < int(headers.get("content-length", "0")):
            body += await stream.receive_some(65536)
        method, target, _ = first.split(" ")
        status, more_headers, value = self.answer(method, target, headers, body)
        text = b"" if value is None else json.dumps(value).encode()
        lines = [f"HTTP/1.1 {status} Whatever", "Connection: close", f"Content-Length: {len(text)}", *more_headers]
        if value is not None:
            lines.append("Content-Type: application/json")
        await stream.send_all("\r\n".join([*lines, "", ""]).encode() + text)
        await stream.aclose()

    def answer(self, method: str, target: str, headers: dict[str, str], body: bytes) -> tuple[int, list[str], object]:
        path, _, query = target.partition("?")
        if path == "/mcp":
            return self.mcp(method, headers, body)
        form = {name: values[0] for name, values in parse_qs(query or body.decode()).items()}
        print(json.dumps({"path": path, **form}), flush=True)
        if path == "/.well-known/oauth-protected-resource/mcp":
            return 200, [], {"resource": f"{self.base}/mcp", "authorization_servers": [self.base]}
        if path == "/.well-known/oauth-authorization-server":
            paths = {name: f"{self.base}/{name}" for name in ("authorize", "token", "register", "revoke")}
            return (
                200,
                [],
                {
                    "issuer": self.base,
                    "authorization_endpoint": paths["authorize"],
                    "token_endpoint": paths["token"],
                    "registration_endpoint": paths["register"],
                    "revocation_endpoint": paths["revoke"],
                    "response_types_supported": ["code"],
                    "code_challenge_methods_supported": ["S256"],
                    "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
                },
            )
        if path == "/register":
            asked = json.loads(body)
            return 201, [], {"client_id": "registered", **asked}
        if path == "/authorize":
            back = urlencode({"code": "the-code", "state": form["state"], "iss": self.base})
            return 302, [f"Location: {form['redirect_uri']}?{back}"], None
        if path == "/token":
            self.tokens += 1
            granted = {"access_token": f"token-{self.tokens}", "token_type": "Bearer", "expires_in": 3600}
            return 200, [], {**granted, "refresh_token": f"refresh-{self.tokens}", "scope": form.get("scope", "use")}
        if path == "/revoke":
            return 200, [], {}
        return 404, [], {"error": "not_found"}

    def mcp(self, method: str, headers: dict[str, str], body: bytes) -> tuple[int, list[str], object]:
        if not self.tokens or headers.get("authorization") != f"Bearer token-{self.tokens}":
            where = f"{self.base}/.well-known/oauth-protected-resource/mcp"
            return 401, [f'WWW-Authenticate: Bearer resource_metadata="{where}", scope="use"'], {"error": "who?"}
        if method != "POST":
            return 405, [], None
        message = json.loads(body)
        if "id" not in message:
            return 202, [], None
        results = {
            "initialize": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "protected", "version": "1"},
            },
            "tools/list": {"tools": [TOOL]},
            "ping": {},
        }
        answer: dict[str, object] = {"jsonrpc": "2.0", "id": message["id"]}
        if message["method"] in results:
            return 200, [], {**answer, "result": results[message["method"]]}
        return 200, [], {**answer, "error": {"code": -32601, "message": "no such method"}}


async def main() -> None:
    server = Protected()
    async with trio.open_nursery() as nursery:
        [listener] = await nursery.start(partial(trio.serve_tcp, server.connected, 0, host="127.0.0.1"))
        server.base = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
        print(f"{server.base}/mcp", flush=True)
        await trio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
