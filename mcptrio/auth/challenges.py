"""The ``WWW-Authenticate`` header: parse and build challenges.

The client parses the challenges of one header, or of several headers that were joined. The resource server builds the
header.

Source: RFC 9110 sections 5.6 and 11; RFC 6750 section 3; RFC 9728 section 5.1; RFC 9449 sections 7.1 and 9.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from attrs import field, frozen

from mcptrio.auth.scopes import read_scope

__all__ = ["TOKEN_ADVICE", "Challenge", "ChallengeResponse", "build_challenge", "parse_challenges"]

TOKEN_ADVICE: Final = (
    "ask its operator for a token and pass it with --header 'Authorization=Bearer TOKEN', "
    "or as a header of the server's entry in the configuration"
)
"""Advice for servers that require a token but name no authorization server."""

# Characters of a header that are parsed; the rest is ignored.
_MAX_HEADER_CHARS: Final = 16 * 1024
# Challenges of a header, and parameters of a challenge, that are kept.
_MAX_CHALLENGES: Final = 32

_TOKEN: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_SCHEME: Final = re.compile(rf"[ \t,]*({_TOKEN})(?=[ \t,]|\Z)")
_TOKEN68: Final = re.compile(r"[ \t]+([A-Za-z0-9._~+/-]+=*)[ \t]*(?=,|\Z)")
_PARAMETER: Final = re.compile(
    rf'[ \t,]*({_TOKEN})[ \t]*=[ \t]*(?:({_TOKEN})|"((?:[^"\\]|\\.)*)")[ \t]*(?=,|\Z)', re.DOTALL
)
_END: Final = re.compile(r"[ \t]*(?:,|\Z)")
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
# RFC 9110 section 5.5: other bytes are opaque to the recipient, so only ASCII is certain to be understood.
_HEADER_TEXT: Final = re.compile(r"[\t\x20-\x7e]*")


@frozen(kw_only=True)
class Challenge:
    """One challenge of a header.

    Args:
        scheme: The authentication scheme in lower case, for example ``bearer``.
        parameters: The parameters by their names in lower case. If a name is repeated, the first value counts.
        token68: The credentials-like token that some schemes use instead of parameters.
    """

    scheme: str
    parameters: Mapping[str, str] = field(factory=dict)
    token68: str = ""


def parse_challenges(value: str) -> tuple[Challenge, ...]:
    """Return the challenges of a header in order. The list ends at the first part that cannot be parsed."""
    return tuple(_challenges(value[:_MAX_HEADER_CHARS]))


def build_challenge(scheme: str, parameters: Mapping[str, str]) -> str:
    """Return one challenge with quoted parameters.

    Raises:
        ValueError: The scheme or a name is not a token, or a value contains characters that a header cannot carry.
    """
    for name in (scheme, *parameters):
        if not re.fullmatch(_TOKEN, name):
            raise ValueError(f"expected a token, got {name!r}")
    quoted = ", ".join(f"{name}={_quote(value)}" for name, value in parameters.items())
    return f"{scheme} {quoted}" if quoted else scheme


def _challenges(value: str) -> Iterator[Challenge]:
    position = 0
    for _ in range(_MAX_CHALLENGES):
        match = _SCHEME.match(value, position)
        if match is None:
            return
        position = match.end()
        parameters: dict[str, str] = {}
        token68 = ""
        # RFC 9110 section 11.2: "abc" and "abc=" are token68, "abc=x" is a parameter.
        if (single := _TOKEN68.match(value, position)) and not _PARAMETER.match(value, position):
            token68, position = single[1], single.end()
        else:
            # RFC 9110 section 11.6.1: a space precedes the first parameter, commas the others. A name without "=" after
            # it is the scheme of the next challenge, so the loop ends there.
            while (parameter := _PARAMETER.match(value, position)) is not None:
                position = parameter.end()
                name = parameter[1].lower()
                if name not in parameters and len(parameters) < _MAX_CHALLENGES:
                    parameters[name] = parameter[2] or _ESCAPED.sub(r"\1", parameter[3] or "")
        yield Challenge(scheme=match[1].lower(), parameters=parameters, token68=token68)
        if not _END.match(value, position):
            return


def _quote(value: str) -> str:
    if not _HEADER_TEXT.fullmatch(value):
        raise ValueError("expected a value of visible ASCII characters, blanks and tabs")
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


_SCHEMES = ("bearer", "dpop")


@frozen(kw_only=True)
class ChallengeResponse:
    """The bearer and DPoP challenges of a 401 or 403 response, combined.

    If a parameter is repeated, the first value counts.

    Args:
        error: The error code; empty if the request had no credentials.
        description: The description for users, on one line.
        scopes: The scopes that would suffice.
        metadata_url: The URL of the resource metadata.
        dpop: True if the server accepts DPoP-bound tokens.
        only_dpop: True if the server accepts no bearer tokens.
    """

    error: str = ""
    description: str = ""
    scopes: tuple[str, ...] = ()
    metadata_url: str | None = None
    dpop: bool = False
    only_dpop: bool = False

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> ChallengeResponse:
        """Read the challenges of a response.

        Args:
            headers: The response headers, with names in lower case.
        """
        # Challenges of other schemes, such as Basic, may have parameters with the same names.
        ours = [
            challenge
            for challenge in parse_challenges(headers.get("www-authenticate", ""))
            if challenge.scheme in _SCHEMES
        ]
        schemes = {challenge.scheme for challenge in ours}
        return cls(
            error=_first_value(ours, "error") or "",
            # Foreign text for an error message: one line, at most 200 characters.
            description=" ".join((_first_value(ours, "error_description") or "").split())[:200],
            scopes=read_scope(_first_value(ours, "scope")),
            metadata_url=_first_value(ours, "resource_metadata"),
            dpop="dpop" in schemes,
            only_dpop=schemes == {"dpop"},
        )


def _first_value(challenges: list[Challenge], name: str) -> str | None:
    return next((each.parameters[name] for each in challenges if name in each.parameters), None)
