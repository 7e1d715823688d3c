"""``WWW-Authenticate``: what a server asks for, read and written.

The client reads one header, or several that were joined, with one or more challenges. The resource server writes it.
Reading never fails: the list ends at the first part that cannot be parsed.

Source: RFC 9110 sections 5.6 and 11; RFC 6750 section 3; RFC 9728 section 5.1; RFC 9449 sections 7.1 and 9.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from attrs import field, frozen

from mcptrio.auth.scopes import read_scope

__all__ = ["PASS_A_TOKEN", "Challenge", "ChallengeResponse", "build_challenge", "parse_challenges"]

PASS_A_TOKEN: Final = (
    "ask its operator for a token and pass it with --header 'Authorization=Bearer TOKEN', "
    "or as a header of the server's entry in the configuration"
)
"""What to do where a server wants a token and has no place to log in."""

_MAX_HEADER_CHARS: Final = 16 * 1024
"""Characters that are read; the rest is dropped."""
_MAX_CHALLENGES: Final = 32
"""Challenges, and parameters of one, that are kept."""

_TOKEN: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_SCHEME: Final = re.compile(rf"[ \t,]*({_TOKEN})(?=[ \t,]|\Z)")
_TOKEN68: Final = re.compile(r"[ \t]+([A-Za-z0-9._~+/-]+=*)[ \t]*(?=,|\Z)")
_PARAMETER: Final = re.compile(
    rf'[ \t,]*({_TOKEN})[ \t]*=[ \t]*(?:({_TOKEN})|"((?:[^"\\]|\\.)*)")[ \t]*(?=,|\Z)', re.DOTALL
)
_END: Final = re.compile(r"[ \t]*(?:,|\Z)")
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_SAYABLE: Final = re.compile(r"[\t\x20-\x7e]*")


@frozen(kw_only=True)
class Challenge:
    """One of them.

    Args:
        scheme: in lower case: ``bearer``.
        parameters: by name in lower case; of those that came twice the first.
        token68: what came instead of parameters.
    """

    scheme: str
    parameters: Mapping[str, str] = field(factory=dict)
    token68: str = ""


def parse_challenges(value: str) -> tuple[Challenge, ...]:
    """The challenges of a header, in their order."""
    return tuple(_challenges(value[:_MAX_HEADER_CHARS]))


def build_challenge(scheme: str, parameters: Mapping[str, str]) -> str:
    """One challenge, its parameters quoted.

    Raises:
        ValueError: the scheme or a name is no token, or a value is nothing a header can say.
    """
    for name in (scheme, *parameters):
        if not re.fullmatch(_TOKEN, name):
            raise ValueError(f"expected a token, got {name!r}")
    quoted = ", ".join(f"{name}={_quote(value)}" for name, value in parameters.items())
    return f"{scheme} {quoted}" if quoted else scheme


def _challenges(value: str) -> Iterator[Challenge]:
    place = 0
    for _ in range(_MAX_CHALLENGES):
        found = _SCHEME.match(value, place)
        if found is None:
            return
        place = found.end()
        parameters: dict[str, str] = {}
        token68 = ""
        if (single := _TOKEN68.match(value, place)) and not _PARAMETER.match(value, place):
            token68, place = single[1], single.end()
        else:
            # The first parameter follows a blank, each other one a comma; a name that no "=" follows is a scheme.
            while (parameter := _PARAMETER.match(value, place)) is not None:
                place = parameter.end()
                name = parameter[1].lower()
                if name not in parameters and len(parameters) < _MAX_CHALLENGES:
                    parameters[name] = parameter[2] or _ESCAPED.sub(r"\1", parameter[3] or "")
        yield Challenge(scheme=found[1].lower(), parameters=parameters, token68=token68)
        if not _END.match(value, place):
            return


def _quote(value: str) -> str:
    if not _SAYABLE.fullmatch(value):
        raise ValueError("expected a value of visible ASCII characters, blanks and tabs")
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


_SCHEMES = ("bearer", "dpop")


@frozen(kw_only=True)
class ChallengeResponse:
    """The meaning of a server's challenges. If a parameter comes twice, the first counts.

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
    def read(cls, headers: Mapping[str, str]) -> ChallengeResponse:
        """
        Args:
            headers: of the answer, names in lower case.
        """
        ours = [
            challenge
            for challenge in parse_challenges(headers.get("www-authenticate", ""))
            if challenge.scheme in _SCHEMES
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
