"""Parses a URI template into its parts: literal text, and expressions with their variables.

:class:`mcptrio.schema.uri_templates.URITemplate` uses this. A template that is invalid in RFC 6570 is refused, with the
position of the error.

Source: RFC 6570, sections 2 and 3, appendix A.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

from attrs import frozen

from mcptrio.schema.uri_encoding import EXCLUDED, TRIPLET, encode

__all__ = ["Expression", "Literal", "Operator", "Part", "Variable", "parse"]

_MAX_TEMPLATE_CHARS = 2_048
_MAX_EXPRESSIONS = 32
_MAX_VARIABLES = 64

_VARIABLE = re.compile(
    r"(?P<name>(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:\.?(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*)(?P<modifier>.*)"
)
_PREFIX = re.compile(r":([1-9][0-9]{0,3})\Z")


@frozen
class Operator:
    """An operator of expressions: a column of the table in RFC 6570, appendix A.

    Args:
        first: The character before the first value.
        separator: The character between values.
        named: Whether values have names (``?a=1``).
        keeps_reserved: Whether reserved characters are not encoded.
        stops: Characters that end a match of the expression.
    """

    first: str
    separator: str
    named: bool
    keeps_reserved: bool
    stops: str


_OPERATORS = {
    "": Operator("", ",", False, False, "/?#"),
    "+": Operator("", ",", False, True, ""),
    "#": Operator("#", ",", False, True, ""),
    ".": Operator(".", ".", False, False, "/?#"),
    "/": Operator("/", "/", False, False, "?#"),
    ";": Operator(";", ";", True, False, "/?#"),
    "?": Operator("?", "&", True, False, "#"),
    "&": Operator("&", "&", True, False, "#"),
}


@frozen
class Variable:
    """A variable of an expression."""

    name: str
    max_length: int | None
    """The length of a prefix (``{var:3}``)."""
    explodes: bool
    """Whether it is a list (``{var*}``)."""


@frozen
class Literal:
    """Literal text."""

    text: str
    """The text, with characters outside of ASCII percent-encoded."""


@frozen
class Expression:
    """An expression in braces."""

    sign: str
    """The character of the operator; empty for a simple expression."""
    variables: tuple[Variable, ...]
    stops: frozenset[str]
    """Characters that end a match of this expression."""
    follows_slash: bool
    """Whether the text before it ends with a slash."""

    @property
    def operator(self) -> Operator:
        return _OPERATORS[self.sign]


Part: TypeAlias = Literal | Expression


def parse(template: str) -> tuple[Part, ...]:
    """Parse a URI template into its parts.

    Raises:
        ValueError: The template is malformed; the message names the position.
    """
    if len(template) > _MAX_TEMPLATE_CHARS:
        raise ValueError(f"URI template: expected at most {_MAX_TEMPLATE_CHARS} characters, got {len(template)}")
    parts: list[Part] = []
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
            parts.append(Literal(encode(template[position:end])))
            position = end
    if sum(isinstance(part, Expression) for part in parts) > _MAX_EXPRESSIONS or count > _MAX_VARIABLES:
        raise ValueError(
            f"URI template: expected at most {_MAX_EXPRESSIONS} expressions and {_MAX_VARIABLES} variables, got more"
        )
    return tuple(_with_stops(part, parts[index + 1 :]) for index, part in enumerate(parts))


def _check_literal(template: str, start: int, end: int) -> None:
    for position in range(start, end):
        character = template[position]
        if character in EXCLUDED or (character == "%" and not TRIPLET.match(template, position)):
            raise ValueError(f"URI template {template!r}: {character!r} at position {position} is not allowed in a URI")


def _parse_expression(template: str, start: int, close: int, *, follows_slash: bool) -> Expression:
    body, position = template[start + 1 : close], start + 1
    where = f"URI template {template!r}: "
    sign = body[:1] if body[:1] in _OPERATORS else ""
    # RFC 6570 section 2.2 reserves these operators for extensions.
    if body[:1] and body[0] in "=,!@|":
        raise ValueError(f"{where}the operator {body[0]!r} at position {position} is reserved")
    variables: list[Variable] = []
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
        # Within one expression. In two expressions, the same variable must have the same value.
        if any(match["name"] == other.name for other in variables):
            raise ValueError(f"{where}the variable {match['name']!r} at position {position} is repeated")
        variables.append(Variable(match["name"], int(prefix[1]) if prefix else None, modifier == "*"))
        position += len(text) + 1
    return Expression(sign, tuple(variables), frozenset(), follows_slash)


def _with_stops(part: Part, later: Sequence[Part]) -> Part:
    """Return an expression with the characters that end its match, which depend on the parts after it."""
    if isinstance(part, Literal):
        return part
    stops = set(part.operator.stops)
    if part.operator.keeps_reserved:
        # The value may contain a query or a fragment, unless a later part of the template matches them.
        stops |= {
            mark
            for mark in "?#"
            if any(mark in other.text if isinstance(other, Literal) else mark == other.sign for other in later)
        }
    # The next expression begins with its operator, so this one must stop there.
    if later and isinstance(later[0], Expression) and later[0].sign in (";", "&"):
        stops.add(later[0].sign)
    stops -= {part.operator.separator, part.operator.first}
    return Expression(part.sign, part.variables, frozenset(stops), part.follows_slash)
