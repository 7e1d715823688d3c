"""Access tokens of a trial: one in a file for all clients, and those of an issuer, which are bound to a key."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import trio
from attrs import field, frozen

from mcptrio.auth.jose import Key, KeySet, sign
from mcptrio.auth.server.static_tokens import PREFIX, StaticToken, tokens_text
from mcptrio.auth.server.verification_cache import hash_of

__all__ = ["RESOURCE", "TOKEN", "Issuer", "issuer_of_keys", "write_tokens"]

TOKEN: Final = f"{PREFIX}of-every-client"
RESOURCE: Final = "https://trial.example/mcp"
"""The endpoint as proofs name it, whatever port the proxy has."""
_SCOPE: Final = "mcp"
_VALID_SECONDS: Final = 86_400
_MAX_HEAD_BYTES: Final = 16 * 1024


def write_tokens(folder: Path) -> Mapping[str, str]:
    """Write the file with :data:`TOKEN`, and return the settings of replicas that accept it."""
    path = folder / "tokens.json"
    path.write_text(
        tokens_text([StaticToken(name="trial", hash=hash_of(TOKEN).hex(), subject="trial", scopes=(_SCOPE,))])
    )
    # Others may not write it, whatever the umask.
    path.chmod(0o600)
    return {
        "MCPTRIO_AUTH_TOKENS": str(path),
        "MCPTRIO_AUTH_RESOURCE": RESOURCE,
        "MCPTRIO_AUTH_SCOPES": _SCOPE,
        # All clients have one address, and each proof that is sent twice is a failure.
        "MCPTRIO_AUTH_LIMITS_FAILURES_PER_MINUTE": "0",
    }


@frozen
class Issuer:
    """An authorization server that serves its keys, and no more.

    Args:
        port: Where replicas fetch the keys.
    """

    port: int
    _key: Key = field(factory=Key.generate)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def settings(self) -> Mapping[str, str]:
        """Environment variables of replicas that accept the tokens."""
        return {
            "MCPTRIO_AUTH_ISSUERS": self.url,
            "MCPTRIO_AUTH_JWKS": f"{self.url}/keys",
            # On a slow machine a fetch may fail, and a replica may not refuse all proofs for long.
            "MCPTRIO_AUTH_LIMITS_KEYS_REFETCH_AFTER": "0.5",
        }

    def token(self, subject: str, thumbprint: str) -> str:
        """Return a token that is bound to a key."""
        now = int(time.time())
        claims = {"iss": self.url, "aud": RESOURCE, "sub": subject, "scope": _SCOPE, "client_id": "trial"}
        times = {"iat": now, "exp": now + _VALID_SECONDS}
        return sign({**claims, **times, "cnf": {"jkt": thumbprint}}, self._key, typ="at+jwt")

    async def serve(self, stream: trio.SocketStream) -> None:
        """Answer any request with the keys."""
        head = b""
        async with stream:
            try:
                while b"\r\n\r\n" not in head and len(head) < _MAX_HEAD_BYTES:
                    data = await stream.receive_some()
                    if not data:
                        return
                    head += data
                body = json.dumps(KeySet([self._key]).document).encode()
                lines = ["HTTP/1.1 200 OK", "Content-Type: application/json", f"Content-Length: {len(body)}"]
                await stream.send_all("\r\n".join([*lines, "Connection: close", "", ""]).encode() + body)
            except trio.BrokenResourceError:
                pass  # the replica was killed; its next process asks again


@asynccontextmanager
async def issuer_of_keys() -> AsyncIterator[Issuer]:
    """Run an issuer."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    issuer = Issuer(listeners[0].socket.getsockname()[1])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, issuer.serve, listeners)
        yield issuer
        nursery.cancel_scope.cancel()
