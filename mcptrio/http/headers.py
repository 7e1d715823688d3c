"""The headers of one HTTP request.

The ASGI entry makes them from the scope, and the rules and the authenticator read them as a mapping. Names are in lower
case, values are stripped and decoded as latin-1. If a header that routes a message occurs twice, the request is
refused.

Source: RFC 9110 sections 5.3, 8.3, 12.4.2, 12.5.1; MCP 2026-07-28, basic/transports/streamable-http.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar, overload

from mcptrio.errors import HeaderMismatch, InvalidRequest

__all__ = ["EVENT_STREAM", "JSON", "Headers", "accepts", "is_json"]

_T = TypeVar("_T")

JSON: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"

_BOTH: Final = f"{JSON}, {EVENT_STREAM}"
"""The value that MCP clients must send in Accept, and nearly the only one that occurs."""
_SINGULAR: Final = frozenset({"authorization", "content-length", "content-type", "host", "last-event-id", "origin"})
"""Headers that RFC 9110 and the HTML standard allow once. A second one is used for request smuggling."""


class Headers(Mapping[str, str]):
    """Maps header names in lower case to values. The values of a repeated header are joined by ``", "``.

    Args:
        raw: pairs of bytes, as in an ASGI scope.
    """

    __slots__ = ("_raw", "_repeated", "_values")

    def __init__(self, raw: Sequence[tuple[bytes, bytes]]) -> None:
        self._raw = raw
        self._values = {str(name, "latin-1").lower(): str(value, "latin-1").strip(" \t") for name, value in raw}
        self._repeated: dict[str, list[str]] = {}
        if len(self._values) < len(raw):
            for name, value in raw:
                self._repeated.setdefault(str(name, "latin-1").lower(), []).append(str(value, "latin-1").strip(" \t"))
            for each, values in self._repeated.items():
                self._values[each] = ", ".join(values)

    @property
    def size(self) -> int:
        """Approximate number of bytes on the wire."""
        # 4 for the colon, the space and the line end, so that many empty headers count too.
        return sum([len(name) + len(value) + 4 for name, value in self._raw])

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    @overload
    def get(self, key: str, /) -> str | None: ...
    @overload
    def get(self, key: str, /, default: str) -> str: ...
    @overload
    def get(self, key: str, /, default: _T) -> str | _T: ...
    def get(self, key: str, /, default: Any = None) -> Any:
        # Mapping.get() raises and catches a KeyError for each missing header, a dozen times per request.
        return self._values.get(key, default)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def routing(self, name: str) -> str | None:
        """Return the value of a header that mirrors the body, or ``None``.

        Raises:
            HeaderMismatch: the header occurs more than once.
        """
        if self._repeated and len(self._repeated.get(name, ())) > 1:
            raise HeaderMismatch(f"expected one {name} header, got {len(self._repeated[name])}")
        return self._values.get(name)

    def every(self) -> Mapping[str, Sequence[str]]:
        """Return all values of each header, in order."""
        return {name: self._repeated.get(name) or (value,) for name, value in self._values.items()}

    def check_singular(self) -> None:
        """Check that headers that RFC 9110 allows once do not occur twice.

        Raises:
            InvalidRequest: one does.
        """
        for name, values in self._repeated.items():
            if len(values) > 1 and name in _SINGULAR:
                raise InvalidRequest(f"expected one {name} header, got {len(values)}")


def accepts(header: str | None, media_type: str) -> bool:
    """Return whether an ``Accept`` header allows a media type.

    Without the header, every type is allowed; otherwise the most specific range decides (RFC 9110 section 12.5.1).
    """
    if header is None or header == _BOTH:
        return True
    kind = media_type.partition("/")[0]
    ranks = {media_type: 3, f"{kind}/*": 2, "*/*": 1}
    best, allowed = 0, False
    for item in header.split(","):
        name, *parameters = (part.strip().lower() for part in item.split(";"))
        rank = ranks.get(name, 0)
        if rank and rank >= best:
            wanted = _weight(parameters) > 0
            allowed = wanted or (allowed and rank == best)
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
    """Return the ``q`` of one range. A malformed one counts as 1: refusing such a client would gain nothing."""
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 1.0
    return 1.0
