"""URI templates of RFC 6570: matching that prevents path traversal.

Resource templates use this. For each expression, matching takes time linear in the length of the URI. A URI with
a decoded value that contains a slash, ``..`` or NUL does not match, so a handler may join a value to a path.

If a URI can be split in several ways, earlier variables take as much as they can. Percent-encoding is decoded once.

Source: RFC 6570; RFC 3986 sections 2 and 5.2.4.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import Factory, field, frozen

from mcptrio.schema.uri_encoding import EXCLUDED, decode, encode
from mcptrio.schema.uri_parts import Expression, Literal, Part, parse

__all__ = ["URITemplate"]

_MAX_URI_CHARS = 8_192


@frozen
class URITemplate:
    """A parsed template.

    In a match, ``{var}``, ``{/var}`` and ``{.var}`` contain no slash and are not ``..``. ``{+path}`` may contain
    slashes, but no segment ``..``, and no leading slash if the template has a slash before it. Queries and fragments
    may contain any text.

    Args:
        template: A template of at most 2,048 characters, 32 expressions and 64 variables.

    Raises:
        ValueError: The template is malformed; the message names the position.
    """

    template: str
    _parts: tuple[Part, ...] = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: parse(self.template), takes_self=True)
    )

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables, in the order of their first appearance."""
        return tuple(dict.fromkeys(variable.name for part in self._expressions() for variable in part.variables))

    @property
    def specificity(self) -> tuple[int, int, int]:
        """A key for comparing templates, higher for a more specific one.

        It compares the length of literal text, then the number of variables that may contain slashes, then the number
        of variables.
        """
        literal = sum(len(part.text) for part in self._parts if isinstance(part, Literal))
        expressions = list(self._expressions())
        wild = sum(part.sign in ("+", "#") or any(v.explodes for v in part.variables) for part in expressions)
        return literal, -wild, -sum(len(part.variables) for part in expressions)

    def match(self, uri: str) -> dict[str, str | list[str] | None] | None:
        """Return the values of the variables in a URI.

        Returns:
            The decoded values by name: a list for an exploded variable, ``None`` for an absent optional variable. If
            the URI does not match, is longer than 8,192 characters, or has an unsafe value, the result is ``None``.
        """
        if len(uri) > _MAX_URI_CHARS or not EXCLUDED.isdisjoint(uri):
            return None
        if not uri.isascii():
            try:
                uri = encode(uri)  # an IRI; the literals of the template are encoded too
            except UnicodeEncodeError:  # a lone surrogate
                return None
        spans = self._part_spans(uri)
        if spans is None:
            return None
        values_by_name: dict[str, str | list[str] | None] = {}
        for part, (start, end) in zip(self._parts, spans, strict=True):
            if isinstance(part, Literal):
                continue
            values = _read(part, uri[start:end])
            if values is None:
                return None
            for name, value in values.items():
                if value is not None and not _is_safe(part, value):
                    return None
                if name in values_by_name and values_by_name[name] != value:
                    return None  # the variable occurs twice, with different values
                values_by_name[name] = value
        return values_by_name

    def _expressions(self) -> Iterable[Expression]:
        return (part for part in self._parts if isinstance(part, Expression))

    def _part_spans(self, uri: str) -> list[tuple[int, int]] | None:
        """Return the span of each part; ``None`` if the URI does not match.

        A forward pass finds the positions at which each part can end, and a backward pass the starts of the parts.
        """
        # A byte for each position, because a regular expression could take more than linear time.
        reached: list[bytearray] = [bytearray(len(uri) + 1)]
        reached[0][0] = 1
        for part in self._parts:
            reached.append(_reachable_ends(part, uri, reached[-1]))
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


def _is_safe(part: Expression, value: str | list[str]) -> bool:
    items = [value] if isinstance(value, str) else value
    # For the C functions of the system, NUL ends a path.
    if any("\0" in item for item in items):
        return False
    if part.sign in ("?", "&", "#", ";"):  # any text, because the value is no part of a path
        return True
    if part.sign != "+":
        return not any("/" in item or "\\" in item or item == ".." for item in items)
    for index, item in enumerate(items):
        if "\\" in item or ".." in item.split("/"):
            return False
        if item.startswith("/") and (index or part.follows_slash or len(part.variables) > 1):
            return False
        if len(item) > 1 and item[1] == ":" and item[0].isalpha() and item[0].isascii():
            return False  # C:/..., which is an absolute path on Windows
    return True


def _reachable_ends(part: Part, uri: str, starts: bytearray) -> bytearray:
    """Return the positions at which a part can end, given the positions at which it can start."""
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
                ends[position] = 1  # an empty match: every variable is absent
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
    """Return the start of the match of a part that ends at ``end``.

    It is the latest possible start. An expression with an operator matches an empty text only if nothing else is
    possible.
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
            # Without names, there is one piece for each variable. With names, every piece whose name is in this
            # expression belongs to it.
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
    """Return the decoded values in the text of an expression; ``None`` if its expansion cannot be this text."""
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
    values: dict[str, str | list[str] | None] = {}
    for index, variable in enumerate(variables):
        if not pieces:
            values[variable.name] = None
            continue
        after = len(variables) - index - 1
        if variable.explodes:
            # An exploded variable takes all pieces, except one for each variable after it.
            count = max(1, len(pieces) - after)
            decoded = [decode(piece) for piece in pieces[:count]]
            del pieces[:count]
            items = [item for item in decoded if item]
            if len(items) != len(decoded):
                return None
            values[variable.name] = items
        else:
            value = decode(pieces.pop(0))
            # Except in a fragment, the expansion of an empty value would be another URI.
            if value is None or (not value and part.sign != "#"):
                return None
            if variable.max_length is not None and len(value) > variable.max_length:
                return None
            values[variable.name] = value
    return None if pieces else values


def _read_named(part: Expression, text: str) -> dict[str, str | list[str] | None] | None:
    values: dict[str, str | list[str] | None] = {variable.name: None for variable in part.variables}
    known = {variable.name: variable for variable in part.variables}
    for piece in text.split(part.operator.separator):
        name, _, raw = piece.partition("=")
        value = decode(raw)
        variable = known.get(name)
        if variable is None or value is None:
            return None
        if variable.max_length is not None and len(value) > variable.max_length:
            return None
        earlier = values[name]
        if variable.explodes:
            values[name] = [*(earlier or ()), value]
        elif earlier is None:
            values[name] = value
        else:
            # `?a=1&a=2`, but the variable is no list.
            return None
    return values
