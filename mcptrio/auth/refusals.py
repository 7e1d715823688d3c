"""What a server's refusal says, whatever the schemes it says it with.

Read by whatever authorizes a client's requests.
The one rule: of what is said twice the first counts; schemes that are not ours say nothing.

Source: RFC 6750 section 3; RFC 9728 section 5.1; RFC 9449 sections 7.1 and 9.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from mcptrio.auth.challenges import Challenge, parse_challenges
from mcptrio.auth.scope_choice import read_scope

__all__ = ["Refusal"]

_OURS = ("bearer", "dpop")


@frozen(kw_only=True)
class Refusal:
    """
    Args:
        error: its code; empty where no credentials came.
        words: for people.
        scopes: that would suffice.
        metadata_url: where the server's metadata is.
        dpop: whether tokens may be bound to a key.
        only_dpop: whether they have to be.
    """

    error: str = ""
    words: str = ""
    scopes: tuple[str, ...] = ()
    metadata_url: str | None = None
    dpop: bool = False
    only_dpop: bool = False

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> Refusal:
        """
        Args:
            headers: of the answer, names in lower case.
        """
        ours = [
            challenge
            for challenge in parse_challenges(headers.get("www-authenticate", ""))
            if challenge.scheme in _OURS
        ]
        schemes = {challenge.scheme for challenge in ours}
        return cls(
            error=_first(ours, "error") or "",
            words=" ".join((_first(ours, "error_description") or "").split())[:200],
            scopes=read_scope(_first(ours, "scope")),
            metadata_url=_first(ours, "resource_metadata"),
            dpop="dpop" in schemes,
            only_dpop=schemes == {"dpop"},
        )


def _first(challenges: list[Challenge], name: str) -> str | None:
    return next((each.parameters[name] for each in challenges if name in each.parameters), None)
