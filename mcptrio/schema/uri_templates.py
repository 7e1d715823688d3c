"""URI templates: RFC 6570 expansion, and matching that prevents path traversal.

Resource templates use this. Matching takes time linear in the URI for each expression, so no template and no URI makes
it slow. A decoded value contains no structure (a slash, ``..``, NUL): the URI does not match then, so a handler may
join the value to a path.

If several splits are possible, earlier variables take as much as they can. Percent-encoding is decoded once.

Source: RFC 6570; RFC 3986 sections 2 and 5.2.4.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import Factory, field, frozen

from mcptrio.schema.uri_encoding import NEVER, decode, encode
from mcptrio.schema.uri_parts import Expression, Literal, Part, parse

__all__ = ["URITemplate"]

_MAX_URI_CHARS = 8_192


@frozen
class URITemplate:
    """A parsed template.

    In a match, ``{var}``, ``{/var}`` and ``{.var}`` contain no slash and no ``..``; ``{+path}`` may contain slashes,
    but no segment ``..``, and no leading slash where the template has one before it. Queries and fragments are free
    text.

    Args:
        template: A template of at most 2 048 characters, 32 expressions and 64 variables.

    Raises:
        ValueError: The template is malformed; the message names the position.
    """

    template: str
    _parts: tuple[Part, ...] = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: parse(self.template), takes_self=True)
    )

    @property
    def variables(self) -> tuple[str, ...]:
        """The names, in the order of their first appearance."""
        return tuple(dict.fromkeys(variable.name for part in self._expressions() for variable in part.variables))

    @property
    def specificity(self) -> tuple[int, int, int]:
        """Higher is more specific: more literal text, then fewer variables that take slashes, then fewer variables."""
        literal = sum(len(part.text) for part in self._parts if isinstance(part, Literal))
        expressions = list(self._expressions())
        wild = sum(part.sign in ("+", "#") or any(v.explodes for v in part.variables) for part in expressions)
        return literal, -wild, -sum(len(part.variables) for part in expressions)

    def match(self, uri: str) -> dict[str, str | list[str] | None] | None:
        """Find the variables' values in a URI.

        Returns:
            Name -> decoded value; a list for an exploded variable, ``None`` for an optional one that is absent.
            ``None`` if the URI does not match, is longer than 8 192 characters, or contains a refused value.
        """
        if len(uri) > _MAX_URI_CHARS or not NEVER.isdisjoint(uri):
            return None
        if not uri.isascii():
            try:
                uri = encode(uri)  # an IRI; the template's literals are in this form too
            except UnicodeEncodeError:  # half a surrogate pair
                return None
        spans = self._split(uri)
        if spans is None:
            return None
        found: dict[str, str | list[str] | None] = {}
        for part, (start, end) in zip(self._parts, spans, strict=True):
            if isinstance(part, Literal):
                continue
            values = _read(part, uri[start:end])
            if values is None:
                return None
            for name, value in values.items():
                if value is not None and not _admits(part, value):
                    return None
                if name in found and found[name] != value:
                    return None  # one name, two places, two values
                found[name] = value
        return found

    def _expressions(self) -> Iterable[Expression]:
        return (part for part in self._parts if isinstance(part, Expression))

    def _split(self, uri: str) -> list[tuple[int, int]] | None:
        """Return the span of each part: a forward pass finds the reachable ends, a backward pass the starts."""
        # One byte per position instead of a regular expression: the time is linear whatever the template is.
        reached: list[bytearray] = [bytearray(len(uri) + 1)]
        reached[0][0] = 1
        for part in self._parts:
            reached.append(_advance(part, uri, reached[-1]))
            if not any(reached[-1]):
                return None
        end = len(uri)
        if not reached[-1][end]:
            return None
        spans: list[tuple[int, int]] = []
        for part, starts in zip(reversed(self._parts), reversed(reached[:-1]), strict=True):
            start = _start_of(part, uri, starts, end)
            spans.append((start, end))
            end = start
        return spans[::-1]


def _admits(part: Expression, value: str | list[str]) -> bool:
    items = [value] if isinstance(value, str) else value
    # NUL ends a path in C.
    if any("\0" in item for item in items):
        return False
    if part.sign in ("?", "&", "#", ";"):  # free text, not places in a path
        return True
    if part.sign != "+":
        return not any("/" in item or "\\" in item or item == ".." for item in items)
    for index, item in enumerate(items):
        if "\\" in item or ".." in item.split("/"):
            return False
        if item.startswith("/") and (index or part.follows_slash or len(part.variables) > 1):
            return False
        if len(item) > 1 and item[1] == ":" and item[0].isalpha() and item[0].isascii():
            return False  # C:/..., which a join on Windows takes for absolute
    return True


def _advance(part: Part, uri: str, starts: bytearray) -> bytearray:
    """Return the positions where a part can end, given those where it can start."""
    ends = bytearray(len(uri) + 1)
    if isinstance(part, Literal):
        position = uri.find(part.text)
        while position >= 0:
            if starts[position]:
                ends[position + len(part.text)] = 1
            position = uri.find(part.text, position + 1)
        return ends
    mark = part.operator.first
    inside = False
    for position, character in enumerate(uri):
        if starts[position]:
            if mark:
                ends[position] = 1  # nothing at all: every variable is absent
                inside = inside or character == mark
            else:
                inside = True
        if inside and character in part.stops:
            inside = False
        if inside:
            ends[position + 1] = 1
    if mark and starts[len(uri)]:
        ends[len(uri)] = 1
    return ends


def _start_of(part: Part, uri: str, starts: bytearray, end: int) -> int:
    """Return the start that leads to ``end``: the latest one, but an expression with a mark is preferred to an absent
    one.
    """
    if isinstance(part, Literal):
        return end - len(part.text)
    mark, chosen = part.operator.first, end
    names = {variable.name for variable in part.variables}
    places = end if any(variable.explodes for variable in part.variables) else len(part.variables)
    for position in range(end - 1, -1, -1):
        if not mark and starts[position]:
            return position
        if mark and uri[position] == mark and starts[position]:
            # One piece for each variable, or as long as the names belong to this expression.
            piece = uri[position + 1 : end].partition(part.operator.separator)[0]
            if part.operator.named and piece.partition("=")[0] not in names:
                return chosen if starts[chosen] else position
            chosen, places = position, places - 1
            if places == 0 and not part.operator.named:
                return chosen
        if uri[position] in part.stops:
            break
    return chosen


def _read(part: Expression, text: str) -> dict[str, str | list[str] | None] | None:
    """Return the decoded values in an expression's span; ``None`` if the expression cannot produce the text."""
    operator, variables = part.operator, part.variables
    if operator.first:
        if not text:
            return {variable.name: None for variable in variables}
        text = text[1:]
    if operator.named:
        return _read_named(part, text)
    if len(variables) == 1 and not variables[0].explodes and part.sign != "/":
        pieces = [text]
    else:
        pieces = text.split(operator.separator)
    found: dict[str, str | list[str] | None] = {}
    for index, variable in enumerate(variables):
        if not pieces:
            found[variable.name] = None
            continue
        after = len(variables) - index - 1
        if variable.explodes:
            # An exploded variable takes all but one piece for each that follows.
            count = max(1, len(pieces) - after)
            decoded = [decode(piece) for piece in pieces[:count]]
            del pieces[:count]
            items = [item for item in decoded if item]
            if len(items) != len(decoded):
                return None
            found[variable.name] = items
        else:
            value = decode(pieces.pop(0))
            # An empty value would be another URI after expansion, except in a fragment.
            if value is None or (not value and part.sign != "#"):
                return None
            if variable.longest is not None and len(value) > variable.longest:
                return None
            found[variable.name] = value
    return None if pieces else found


def _read_named(part: Expression, text: str) -> dict[str, str | list[str] | None] | None:
    found: dict[str, str | list[str] | None] = {variable.name: None for variable in part.variables}
    known = {variable.name: variable for variable in part.variables}
    for piece in text.split(part.operator.separator):
        name, _, raw = piece.partition("=")
        value = decode(raw)
        variable = known.get(name)
        if variable is None or value is None:
            return None
        if variable.longest is not None and len(value) > variable.longest:
            return None
        earlier = found[name]
        if variable.explodes:
            found[name] = [*(earlier or ()), value]
        elif earlier is None:
            found[name] = value
        else:
            # `?a=1&a=2` for a variable that is not a list.
            return None
    return found
