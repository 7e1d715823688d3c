"""The URI of a skill's file.

The catalogue uses it. A path consists of names, relative to an allowed folder, and slashes. Its URI is the path with
all other characters percent-encoded, so each path has one URI.

Source: SEP-2640, "Resource Mapping"; RFC 3986, 3.2.2 (the first segment is a reg-name) and 3.3.
"""

from __future__ import annotations

from urllib.parse import quote

__all__ = ["MANIFEST", "SCHEME", "TEMPLATE", "uri_of"]

SCHEME = "skill://"
TEMPLATE = "skill://{+path}"
MANIFEST = "SKILL.md"

_UNRESERVED = "-._~!$&'()*+,;="


def uri_of(path: str) -> str:
    """Return the URI of a file or folder."""
    first, slash, rest = path.partition("/")
    return f"{SCHEME}{quote(first, safe=_UNRESERVED)}{slash}{quote(rest, safe=f'{_UNRESERVED}:@/')}"
