"""OAuth error responses, as exceptions.

The protocol logic raises them, :mod:`.web` converts them to responses. A transaction that raises one is committed, so a
counted attempt or an ended grant stays; see :meth:`.ledger.Store.transact`.

Source: RFC 6749 sections 4.1.2.1 and 5.2; RFC 7591 section 3.2.2; RFC 8707 section 2; RFC 9449 section 5.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["Refusal", "too_often"]


class Refusal(Exception):
    """An OAuth error response.

    Args:
        error: The error code of the RFCs.
        description: The expected value, for developers; contains no secrets.
        status: The HTTP status.
        headers: Additional HTTP headers.
        is_alarming: True if the operator should see it in the log: a secret has probably been copied.
    """

    def __init__(
        self,
        error: str,
        description: str,
        *,
        status: int = 400,
        headers: Mapping[str, str] | None = None,
        is_alarming: bool = False,
    ) -> None:
        super().__init__(f"{error}: {description}")
        self.error = error
        self.description = description
        self.status = status
        self.headers = dict(headers or {})
        self.is_alarming = is_alarming


def too_often(wait: float) -> Refusal:
    """Return the refusal of a request above a rate limit.

    Args:
        wait: Seconds until the next attempt.
    """
    seconds = max(1, round(wait))
    return Refusal(
        "temporarily_unavailable",
        f"too many requests; try again in {seconds} seconds",
        status=429,
        headers={"Retry-After": str(seconds)},
    )
