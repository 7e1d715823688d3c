"""A guard for tests: a function from a request's headers to its principal."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import trio

from mcptrio.abc import Principal, RequestHead
from mcptrio.errors import AuthorizationError

__all__ = ["FunctionGuard"]


class FunctionGuard:
    """
    Args:
        judge: Takes the headers (names in lower case, the first of several values), and raises AuthorizationError.
        documents: Public documents by path.
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
        return 0.05

    async def recheck(self, request: RequestHead, principal: Principal) -> Principal:
        await trio.lowlevel.checkpoint()
        again = self._judge({name: values[0] for name, values in request.headers.items()})
        if again is None:
            raise AuthorizationError("expected the principal of before, got none")
        return again

    def insufficient_scope(
        self, request: RequestHead, principal: Principal, scopes: frozenset[str]
    ) -> AuthorizationError:
        wanted = " ".join(sorted(principal.scopes | scopes))
        return AuthorizationError(
            "more scopes are needed", status=403, challenge=f'Bearer error="insufficient_scope", scope="{wanted}"'
        )
