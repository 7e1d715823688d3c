"""The headers of one HTTP request.

``HTTPApp`` makes them from the scope, and the rules and the authenticator read them as a mapping. Names are in lower
case, values are stripped and decoded as latin-1. If a header that routes a message occurs twice, the request is
refused.

Source: RFC 9110 sections 5.3, 8.3, 12.4.2, 12.5.1; MCP 2026-07-28, basic/transports/streamable-http.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from mcptrio.errors import HeaderMismatch, InvalidRequest

__all__ = ["EVENT_STREAM", "JSON", "JSON_AND_EVENTS", "Headers", "accepts", "is_json"]

JSON: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"

JSON_AND_EVENTS: Final = f"{JSON}, {EVENT_STREAM}"
"""The value of Accept that MCP requires of clients. Almost every request has exactly this value."""
_SINGULAR: Final = frozenset({"authorization", "content-length", "content-type", "host", "last-event-id", "origin"})
"""Headers that RFC 9110 and the HTML standard allow once. A second one is used for request smuggling."""


class Headers(dict[str, str]):
    """Maps header names in lower case to values. The values of a repeated header are joined by ``", "``."""

    repeated: Mapping[str, Sequence[str]] = MappingProxyType({})
    """All values of each header, by name; empty if no header occurs more than once."""

    @classmethod
    def of(cls, raw: Iterable[tuple[bytes, bytes]]) -> Headers:
        """Return the headers from pairs of a name and a value in bytes, as in an ASGI scope."""
        values: dict[str, list[str]] = {}
        for name, value in raw:
            values.setdefault(str(name, "latin-1").lower(), []).append(str(value, "latin-1").strip(" \t"))
        headers = cls({name: ", ".join(each) for name, each in values.items()})
        if any(len(each) > 1 for each in values.values()):
            headers.repeated = values
        return headers

    def single(self, name: str) -> str | None:
        """Return the value of a header that may occur once, or ``None`` if it is missing.

        Intermediaries route by these headers, which repeat values of the body.

        Raises:
            HeaderMismatch: The header occurs more than once.
        """
        if self.repeated and len(self.repeated.get(name, ())) > 1:
            raise HeaderMismatch(f"expected one {name} header, got {len(self.repeated[name])}")
        return self.get(name)

    def all_values(self) -> Mapping[str, Sequence[str]]:
        """Return all values of each header, in order."""
        return {name: self.repeated.get(name) or (value,) for name, value in self.items()}

    def check_singular(self) -> None:
        """Check that no header that RFC 9110 allows once occurs more than once.

        Raises:
            InvalidRequest: A header does.
        """
        for name, values in self.repeated.items():
            if len(values) > 1 and name in _SINGULAR:
                raise InvalidRequest(f"expected one {name} header, got {len(values)}")


def accepts(header: str | None, media_type: str) -> bool:
    """Return whether an ``Accept`` header allows a media type.

    Without the header, every type is allowed; otherwise the most specific range decides (RFC 9110 section 12.5.1).
    """
    if header is None or header == JSON_AND_EVENTS:
        return True
    kind = media_type.partition("/")[0]
    ranks = {media_type: 3, f"{kind}/*": 2, "*/*": 1}
    best, allowed = 0, False
    for item in header.split(","):
        name, *parameters = (part.strip().lower() for part in item.split(";"))
        rank = ranks.get(name, 0)
        if rank and rank >= best:
            is_accepted = _weight(parameters) > 0
            allowed = is_accepted or (allowed and rank == best)
            best = rank
    return allowed


def is_json(content_type: str | None) -> bool:
    """Return whether a ``Content-Type`` is JSON in UTF-8, its only encoding between systems (RFC 8259 section 8.1)."""
    if content_type is None or content_type == JSON:
        return content_type is not None
    name, *parameters = (part.strip().lower() for part in content_type.split(";"))
    if name != JSON:
        return False
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "charset" and value.strip().strip('"') not in {"utf-8", "utf8"}:
            return False
    return True


def _weight(parameters: Iterable[str]) -> float:
    """Return the ``q`` of one range. A malformed value counts as 1: refusing such a client would gain nothing."""
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 1.0
    return 1.0
