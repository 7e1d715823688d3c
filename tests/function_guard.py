"""A guard that asks a function of the test for the principal of each request.

The tests of HTTP, mounting and the runtime use it to serve requests of several principals without tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import trio

from mcptrio.abc import Principal, RequestHead
from mcptrio.errors import AuthorizationError

__all__ = ["FunctionGuard"]


class FunctionGuard:
    """A guard that finds principals with a function.

    Args:
        judge: Returns the principal of a request with these headers, or raises AuthorizationError. Names of headers are
            in lower case; a repeated header has its first value.
        documents: Public documents by path, which need no principal.
    """

    def __init__(
        self, judge: Callable[[Mapping[str, str]], Principal | None], documents: Mapping[str, bytes] | None = None
    ) -> None:
        self._judge = judge
        self.documents: Mapping[str, bytes] = documents or {}
        self.seen: list[RequestHead] = []

    async def admit(self, request: RequestHead) -> Principal | None:
        await trio.lowlevel.checkpoint()
        self.seen.append(request)
        return self._judge({name: values[0] for name, values in request.headers.items()})

    def recheck_after(self, principal: Principal) -> float:
        return 0.05  # seconds; tests of rechecks wait for it

    async def recheck(self, request: RequestHead, principal: Principal) -> Principal:
        await trio.lowlevel.checkpoint()
        principal_now = self._judge({name: values[0] for name, values in request.headers.items()})
        if principal_now is None:
            raise AuthorizationError("expected the principal of before, got none")
        return principal_now

    def insufficient_scope(
        self, request: RequestHead, principal: Principal, scopes: frozenset[str]
    ) -> AuthorizationError:
        required = " ".join(sorted(principal.scopes | scopes))
        return AuthorizationError(
            "more scopes are needed", status=403, challenge=f'Bearer error="insufficient_scope", scope="{required}"'
        )
