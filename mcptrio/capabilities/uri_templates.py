"""URI templates: RFC 6570 expansion, and matching that cannot be used to climb out.

Used for resource templates. Matching is by hand and in time linear in the URI for each expression, so no template and
no URI makes it slow. The one rule: what a variable holds after decoding is data within its place; a value that would
be structure there (a slash, ``..``, NUL) makes the URI not match, so a handler may join it to a path.

Where several splits are possible, earlier variables take as much as they can. Percent-encoding is taken off once.

Source: RFC 6570; RFC 3986 sections 2 and 5.2.4.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from attrs import Factory, field, frozen

__all__ = ["URITemplate", "Value"]

Value: TypeAlias = (
    "str | int | float | bool | Sequence[str | int | float | bool] | Mapping[str, str | int | float | bool] | None"
)
"""What a variable may hold when a template is expanded; ``None`` and empty lists are left out (RFC 6570, 2.3)."""

_LONGEST_TEMPLATE = 2_048
_LONGEST_URI = 8_192
_MOST_EXPRESSIONS = 32
_MOST_VARIABLES = 64

_VARIABLE = re.compile(
    r"(?P<name>(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:\.?(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*)(?P<modifier>.*)"
)
_PREFIX = re.compile(r":([1-9][0-9]{0,3})\Z")
_TRIPLET = re.compile(r"%[0-9A-Fa-f]{2}")
_UNRESERVED = "-._~"
_RESERVED = ":/?#[]@!$&'()*+,;="
# Never in a URI, encoded or not (RFC 3986 leaves them out, RFC 3987 too): controls, space, and what quotes a URI.
_NEVER = frozenset(map(chr, [*range(0x21), 0x7F])) | frozenset('"<>\\^`{|}')


@frozen
class _Operator:
    """A row of RFC 6570, appendix A."""

    first: str
    separator: str
    named: bool
    if_empty: str
    keeps_reserved: bool
    stops: str
    """Characters that end a match."""


_OPERATORS = {
    "": _Operator("", ",", False, "", False, "/?#"),
    "+": _Operator("", ",", False, "", True, ""),
    "#": _Operator("#", ",", False, "", True, ""),
    ".": _Operator(".", ".", False, "", False, "/?#"),
    "/": _Operator("/", "/", False, "", False, "?#"),
    ";": _Operator(";", ";", True, "", False, "/?#"),
    "?": _Operator("?", "&", True, "=", False, "#"),
    "&": _Operator("&", "&", True, "=", False, "#"),
}


@frozen
class _Variable:
    name: str
    longest: int | None
    """Characters of a prefix (``{var:3}``)."""
    explodes: bool


@frozen
class _Literal:
    text: str
    """Percent-encoded where it was not ASCII."""


@frozen
class _Expression:
    sign: str
    variables: tuple[_Variable, ...]
    stops: frozenset[str]
    """Characters that cannot be part of a match here."""
    follows_slash: bool

    @property
    def operator(self) -> _Operator:
        return _OPERATORS[self.sign]


@frozen
class URITemplate:
    """A parsed template.

    In a match, ``{var}``, ``{/var}`` and ``{.var}`` hold no slash and no ``..``; ``{+path}`` may hold slashes, but no
    segment ``..``, and no leading slash where the template has one before it. Queries and fragments are free text.

    Args:
        template: at most 2 048 characters, 32 expressions and 64 variables.
        unsafe: let variables hold ``..``, encoded slashes, backslashes and absolute paths too (NUL never).

    Raises:
        ValueError: the template is malformed; the message names the position.
    """

    template: str
    unsafe: bool = field(default=False, kw_only=True)
    _parts: tuple[_Literal | _Expression, ...] = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: _parse(self.template), takes_self=True)
    )

    def __str__(self) -> str:
        return self.template

    @property
    def variables(self) -> tuple[str, ...]:
        """The names, in the order of their first appearance."""
        return tuple(dict.fromkeys(variable.name for part in self._expressions() for variable in part.variables))

    @property
    def specificity(self) -> tuple[int, int, int]:
        """Higher is more specific: more literal text, then fewer variables that take slashes, then fewer variables."""
        literal = sum(len(part.text) for part in self._parts if isinstance(part, _Literal))
        expressions = list(self._expressions())
        wild = sum(part.sign in ("+", "#") or any(v.explodes for v in part.variables) for part in expressions)
        return literal, -wild, -sum(len(part.variables) for part in expressions)

    def match(self, uri: str) -> dict[str, str | list[str] | None] | None:
        """Find the variables' values in a URI.

        Returns:
            Name -> decoded value; a list for an exploded variable, ``None`` for an optional one that is absent.
            ``None`` where the URI does not match, is longer than 8 192 characters, or holds a value that is refused.
        """
        if len(uri) > _LONGEST_URI or not _NEVER.isdisjoint(uri):
            return None
        if not uri.isascii():
            try:
                uri = _encode(uri, keep_reserved=True)  # an IRI; the template's literals are in this form too
            except UnicodeEncodeError:  # half a surrogate pair
                return None
        spans = self._split(uri)
        if spans is None:
            return None
        found: dict[str, str | list[str] | None] = {}
        for part, (start, end) in zip(self._parts, spans, strict=True):
            if isinstance(part, _Literal):
                continue
            values = _read(part, uri[start:end])
            if values is None:
                return None
            for name, value in values.items():
                if value is not None and not self._admits(part, value):
                    return None
                if name in found and found[name] != value:
                    return None  # one name, two places, two values
                found[name] = value
        return found

    def expand(self, values: Mapping[str, Value]) -> str:
        """Make a URI; variables without a value are left out.

        Raises:
            TypeError: a value is nested, or a prefix is asked of a list.
        """
        return "".join(part.text if isinstance(part, _Literal) else _expand(part, values) for part in self._parts)

    def _expressions(self) -> Iterable[_Expression]:
        return (part for part in self._parts if isinstance(part, _Expression))

    def _split(self, uri: str) -> list[tuple[int, int]] | None:
        """Give each part its span of the URI: forward, which ends can be reached; backward, which starts led there."""
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

    def _admits(self, part: _Expression, value: str | list[str]) -> bool:
        items = [value] if isinstance(value, str) else value
        if any("\0" in item for item in items):
            return False
        if self.unsafe or part.sign in ("?", "&", "#", ";"):  # free text, not places in a path
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


# --- parsing


def _parse(template: str) -> tuple[_Literal | _Expression, ...]:
    if len(template) > _LONGEST_TEMPLATE:
        raise ValueError(f"URI template: expected at most {_LONGEST_TEMPLATE} characters, got {len(template)}")
    parts: list[_Literal | _Expression] = []
    position, count = 0, 0
    while position < len(template):
        if template[position] == "{":
            close = template.find("}", position)
            if close < 0:
                raise ValueError(f"URI template {template!r}: the expression at position {position} is not closed")
            before = template[:position]
            part = _parse_expression(template, position, close, follows_slash=before.endswith("/"))
            count += len(part.variables)
            parts.append(part)
            position = close + 1
        else:
            end = template.find("{", position)
            end = len(template) if end < 0 else end
            _check_literal(template, position, end)
            parts.append(_Literal(_encode(template[position:end], keep_reserved=True)))
            position = end
    if sum(isinstance(part, _Expression) for part in parts) > _MOST_EXPRESSIONS or count > _MOST_VARIABLES:
        raise ValueError(
            f"URI template: expected at most {_MOST_EXPRESSIONS} expressions with {_MOST_VARIABLES} variables in all"
        )
    return tuple(_bound(part, parts[index + 1 :]) for index, part in enumerate(parts))


def _check_literal(template: str, start: int, end: int) -> None:
    for position in range(start, end):
        character = template[position]
        if character in _NEVER or (character == "%" and not _TRIPLET.match(template, position)):
            raise ValueError(f"URI template {template!r}: {character!r} at position {position} cannot stand in a URI")


def _parse_expression(template: str, start: int, close: int, *, follows_slash: bool) -> _Expression:
    body, position = template[start + 1 : close], start + 1
    where = f"URI template {template!r}: "
    sign = body[:1] if body[:1] in _OPERATORS else ""
    if body[:1] and body[0] in "=,!@|":
        raise ValueError(f"{where}the operator {body[0]!r} at position {position} is reserved")
    variables: list[_Variable] = []
    position += len(sign)
    for text in body[len(sign) :].split(","):
        match = _VARIABLE.match(text)
        if match is None:
            raise ValueError(f"{where}expected a variable name at position {position}, got {text[:20]!r}")
        modifier = match["modifier"]
        prefix = _PREFIX.match(modifier)
        if modifier and modifier != "*" and prefix is None:
            at = position + match.end("name")
            raise ValueError(f"{where}expected '*' or ':' and 1 to 9999 at position {at}, got {modifier[:20]!r}")
        if any(match["name"] == other.name for other in variables):
            raise ValueError(f"{where}the variable {match['name']!r} at position {position} is repeated")
        variables.append(_Variable(match["name"], int(prefix[1]) if prefix else None, modifier == "*"))
        position += len(text) + 1
    return _Expression(sign, tuple(variables), frozenset(), follows_slash)


def _bound(part: _Literal | _Expression, later: Sequence[_Literal | _Expression]) -> _Literal | _Expression:
    """Fix the characters an expression cannot match, which depend on what follows it."""
    if isinstance(part, _Literal):
        return part
    stops = set(part.operator.stops)
    if part.operator.keeps_reserved:
        # A reserved expansion may hold a query or a fragment, unless the template has a place for those of its own.
        stops |= {
            mark
            for mark in "?#"
            if any(mark in other.text if isinstance(other, _Literal) else mark == other.sign for other in later)
        }
    if later and isinstance(later[0], _Expression) and later[0].sign in (";", "&"):
        stops.add(later[0].sign)
    stops -= {part.operator.separator, part.operator.first}
    return _Expression(part.sign, part.variables, frozenset(stops), part.follows_slash)


# --- matching


def _advance(part: _Literal | _Expression, uri: str, starts: bytearray) -> bytearray:
    """From the positions a part can start at, those it can end at."""
    ends = bytearray(len(uri) + 1)
    if isinstance(part, _Literal):
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


def _start_of(part: _Literal | _Expression, uri: str, starts: bytearray, end: int) -> int:
    """The start that leads to ``end``: the latest one, but an expression with a mark is there rather than absent."""
    if isinstance(part, _Literal):
        return end - len(part.text)
    mark, chosen = part.operator.first, end
    names = {variable.name for variable in part.variables}
    places = end if any(variable.explodes for variable in part.variables) else len(part.variables)
    for position in range(end - 1, -1, -1):
        if not mark and starts[position]:
            return position
        if mark and uri[position] == mark and starts[position]:
            # One piece for each variable that has room, or while the names are this expression's.
            piece = uri[position + 1 : end].partition(part.operator.separator)[0]
            if part.operator.named and piece.partition("=")[0] not in names:
                return chosen if starts[chosen] else position
            chosen, places = position, places - 1
            if places == 0 and not part.operator.named:
                return chosen
        if uri[position] in part.stops:
            break
    return chosen


def _read(part: _Expression, text: str) -> dict[str, str | list[str] | None] | None:
    """The values within an expression's span, decoded; ``None`` where it is not what the expression can make."""
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
            decoded = [_decode(piece) for piece in pieces[:count]]
            del pieces[:count]
            items = [item for item in decoded if item]
            if len(items) != len(decoded):
                return None
            found[variable.name] = items
        else:
            value = _decode(pieces.pop(0))
            if value is None or (not value and part.sign != "#"):
                return None
            if variable.longest is not None and len(value) > variable.longest:
                return None
            found[variable.name] = value
    return None if pieces else found


def _read_named(part: _Expression, text: str) -> dict[str, str | list[str] | None] | None:
    found: dict[str, str | list[str] | None] = {variable.name: None for variable in part.variables}
    known = {variable.name: variable for variable in part.variables}
    for piece in text.split(part.operator.separator):
        name, _, raw = piece.partition("=")
        value = _decode(raw)
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
            return None
    return found


def _decode(text: str) -> str | None:
    """Take percent-encoding off, once; ``None`` where it is malformed or not UTF-8."""
    if "%" not in text:
        return text
    if text.count("%") != len(_TRIPLET.findall(text)):
        return None
    try:
        return urllib.parse.unquote(text, errors="strict")
    except UnicodeDecodeError:
        return None


# --- expansion


def _encode(text: str, *, keep_reserved: bool) -> str:
    if not keep_reserved:
        return urllib.parse.quote(text, safe=_UNRESERVED)
    # Triplets that are there already stay as they are (RFC 6570, 3.2.3).
    safe = _UNRESERVED + _RESERVED
    encoded, position = "", 0
    for triplet in _TRIPLET.finditer(text):
        encoded += urllib.parse.quote(text[position : triplet.start()], safe=safe) + triplet[0]
        position = triplet.end()
    return encoded + urllib.parse.quote(text[position:], safe=safe)


def _expand(part: _Expression, values: Mapping[str, Value]) -> str:
    operator = part.operator
    pieces: list[str] = []
    for variable in part.variables:
        pieces.extend(_expand_variable(operator, variable, values.get(variable.name)))
    return operator.first + operator.separator.join(pieces) if pieces else ""


def _expand_variable(operator: _Operator, variable: _Variable, value: Value) -> list[str]:
    keep = operator.keeps_reserved
    if value is None:
        return []
    if isinstance(value, (str, int, float)):
        text = _text(variable.name, value)
        if variable.longest is not None:
            text = text[: variable.longest]
        return [_with_name(operator, variable.name, _encode(text, keep_reserved=keep))]
    if variable.longest is not None:
        raise TypeError(
            f"variable {variable.name!r}: a prefix can be taken of a string only, got {type(value).__name__}"
        )
    if isinstance(value, Mapping):
        pairs = [
            (_encode(key, keep_reserved=keep), _encode(_text(variable.name, item), keep_reserved=keep))
            for key, item in value.items()
        ]
        if not pairs:
            return []
        if variable.explodes:
            return [f"{key}={item}" for key, item in pairs]
        return [_with_name(operator, variable.name, ",".join(f"{key},{item}" for key, item in pairs))]
    items = [_encode(_text(variable.name, item), keep_reserved=keep) for item in value]
    if not items:
        return []
    if variable.explodes:
        return [_with_name(operator, variable.name, item) for item in items]
    return [_with_name(operator, variable.name, ",".join(items))]


def _with_name(operator: _Operator, name: str, text: str) -> str:
    if not operator.named:
        return text
    return f"{name}={text}" if text else f"{name}{operator.if_empty}"


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise TypeError(f"variable {name!r}: expected a string or number, got {type(value).__name__}")
