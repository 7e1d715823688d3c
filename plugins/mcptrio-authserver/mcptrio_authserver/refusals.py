"""What an OAuth endpoint answers where it does not do what it was asked.

Raised by the protocol logic, turned into a response by :mod:`.web`.
The one rule: a refusal is an answer, not a failure. What was written before it (a family that is revoked, an attempt
that is counted) is kept; see :meth:`.ledger.Store.transact`.

Source: RFC 6749 sections 4.1.2.1 and 5.2; RFC 7591 section 3.2.2; RFC 8707 section 2; RFC 9449 section 5.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["Refusal", "too_often"]


class Refusal(Exception):
    """
    Args:
        error: the code, as the RFCs name it.
        description: what was expected; read by developers, never with anything secret in it.
        status: of the HTTP response.
        headers: of the HTTP response beside the usual ones.
        is_alarming: whether the operator should read of it: somebody has what they should not have.
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
    """Of something that may be asked for only so often.

    Args:
        wait: seconds until the next time.
    """
    seconds = max(1, round(wait))
    return Refusal(
        "temporarily_unavailable",
        f"asked too often; try again in {seconds} seconds",
        status=429,
        headers={"Retry-After": str(seconds)},
    )
