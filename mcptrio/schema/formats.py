"""The formats of strings in forms.

:mod:`mcptrio.schema.form_fields` uses this. The checks are strict, so that an accepted value also passes the server's
validator.

- ``email``: ASCII letters, digits and the usual signs, ``@``, and a domain of letters, digits and hyphens; no quoted
  names, no address literals, at most 254 characters; a domain of other letters as Punycode.
- ``uri``: with a scheme, and only the characters of RFC 3986; so no spaces and no characters beyond ASCII.
- ``date``, ``date-time``: those of RFC 3339 that exist in a calendar; no leap seconds.

Source: MCP 2026-07-28, client/elicitation, "Requested Schema"; RFC 3339 section 5.6; RFC 3986 appendix A; RFC 5321
sections 4.1.2 and 4.5.3.1; RFC 5890 section 2.3.1 (hyphens).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from attrs import frozen

__all__ = ["FORMATS", "Format"]

_LOCAL = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*\Z")
_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\Z")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:(?://(?P<authority>[^/?#]*))?(?P<rest>.*)\Z", re.DOTALL)
_AUTHORITY = re.compile(
    r"(?:(?:[A-Za-z0-9\-._~!$&'()*+,;=:]|%[0-9A-Fa-f]{2})*@)?"
    r"(?:\[[0-9A-Fa-f:.]+\]|(?:[A-Za-z0-9\-._~!$&'()*+,;=]|%[0-9A-Fa-f]{2})*)(?::[0-9]*)?\Z"
)
_PATH_QUERY = r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/?]|%[0-9A-Fa-f]{2})*"
_REST = re.compile(rf"{_PATH_QUERY}(?:#{_PATH_QUERY})?\Z")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")
_DATE_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,30})?(?:Z|[+-][0-9]{2}:[0-5][0-9])\Z"
)


@frozen
class Format:
    """A format."""

    noun: str
    """For prompts and errors: ``a date (YYYY-MM-DD)``."""
    fits: Callable[[str], bool]


def _is_email(text: str) -> bool:
    local, at, domain = text.partition("@")
    # RFC 5321 sections 4.5.3.1.1 and 4.5.3.1.3: 64 octets for the local part, 256 for the path with its brackets.
    if not at or len(text) > 254 or len(local) > 64 or not _LOCAL.match(local):
        return False
    return all(_LABEL.match(label) and (label[2:4] != "--" or _is_encoded(label)) for label in domain.split("."))


def _is_encoded(label: str) -> bool:
    """Return whether a label with hyphens in third and fourth place is valid Punycode, their only permitted use."""
    try:
        # Decoding to plain ASCII would mean that the label did not need Punycode, which RFC 5891 forbids.
        return label.startswith("xn--") and not label.encode("ascii").decode("idna").isascii()
    except UnicodeError:
        return False


def _is_uri(text: str) -> bool:
    parts = _URI.match(text)
    if parts is None or not _REST.match(parts["rest"]) or not _AUTHORITY.match(parts["authority"] or ""):
        return False
    try:
        return urlsplit(text).scheme != ""
    except ValueError:  # an address in brackets that is none
        return False


def _is_date(text: str) -> bool:
    return _DATE.match(text) is not None and _reads(date.fromisoformat, text)


def _is_date_time(text: str) -> bool:
    # RFC 3339 section 5.6 allows "t" and "z" in lower case.
    text = text.upper()
    return _DATE_TIME.match(text) is not None and _reads(datetime.fromisoformat, text)


def _reads(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


FORMATS: Final[Mapping[str, Format]] = MappingProxyType(
    {
        "email": Format("an e-mail address", _is_email),
        "uri": Format("a URI with its scheme (https:...)", _is_uri),
        "date": Format("a date (YYYY-MM-DD)", _is_date),
        "date-time": Format("a date and time (YYYY-MM-DDThh:mm:ss, then Z or an offset such as +01:00)", _is_date_time),
    }
)
