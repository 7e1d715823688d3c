"""Percent-encoding and percent-decoding of parts of URIs.

URI templates use this for their literals, for matched URIs and for values. Encoded parts are not encoded again, and
values are decoded once.

Source: RFC 3986 sections 2.1 to 2.4; RFC 6570 section 3.2.3; RFC 3987.
"""

from __future__ import annotations

import re
import urllib.parse

__all__ = ["EXCLUDED", "TRIPLET", "decode", "encode"]

TRIPLET = re.compile(r"%[0-9A-Fa-f]{2}")
EXCLUDED = frozenset(map(chr, [*range(0x21), 0x7F])) | frozenset('"<>\\^`{|}')
"""Characters that RFC 3986 and RFC 3987 exclude from URIs: controls, the space, and delimiters of URIs in text."""

_SAFE = "-._~:/?#[]@!$&'()*+,;="
"""The unreserved and the reserved characters that are neither letters nor digits."""


def encode(text: str) -> str:
    """Encode the characters that a URI cannot contain."""
    encoded, position = "", 0
    # Existing triplets are not encoded again (RFC 6570, 3.2.3).
    for triplet in TRIPLET.finditer(text):
        encoded += urllib.parse.quote(text[position : triplet.start()], safe=_SAFE) + triplet[0]
        position = triplet.end()
    return encoded + urllib.parse.quote(text[position:], safe=_SAFE)


def decode(text: str) -> str | None:
    """Decode percent-encoding once; ``None`` if it is malformed or not UTF-8."""
    if "%" not in text:
        return text
    # A "%" that does not begin a triplet is an error, which urllib would ignore.
    if text.count("%") != len(TRIPLET.findall(text)):
        return None
    try:
        return urllib.parse.unquote(text, errors="strict")
    except UnicodeDecodeError:
        return None
