"""A URL a server wants a person to open: where it really leads, and what is odd about it. Looked at, never opened.

Used by :mod:`mcptrio.client.forms`. The one rule: the host shown is the host a browser would go to; where the two could
differ, the URL is not to be opened at all.

Browsers read URLs by the WHATWG standard, Python by RFC 3986. They differ over backslashes, white space and control
characters, which are therefore refused. A host beyond ASCII is brought to ASCII as a browser does it (NFKC, lower case,
Punycode), close enough for showing and not meant for looking up.

Source: MCP 2026-07-28, client/elicitation, "Safe URL Handling"; WHATWG URL, section 3; Unicode Technical Standard 39,
section 5.1 (mixed scripts); RFC 8252 section 8.3 and RFC 6761 section 6.3 (loopback).
"""

from __future__ import annotations

import re
import unicodedata
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TypeAlias
from urllib.parse import urlsplit

from attrs import frozen

from mcptrio.ground.quoting import printable, quote

__all__ = ["URLCheck"]

_SCHEMES = ("http", "https")
MAX_URL_CHARS = 2_000
"""Characters above which hardly anybody reads a URL to its end."""
MAX_HOST_CHARS = 253
_HOST = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?\Z")
_NUMBER = re.compile(r"(?:[0-9]+|0x[0-9a-f]*)\Z")
_NAMES = {" ": "a space", "\\": "a backslash"}
_DOTS = str.maketrans({"\N{IDEOGRAPHIC FULL STOP}": "."})
_COMPATIBLE_SCRIPTS = frozenset({"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO"})
"""First words of the names of letters that are written together, in Japanese, Korean and Chinese."""

_Address: TypeAlias = IPv4Address | IPv6Address


@frozen(kw_only=True)
class URLCheck:
    """What there is to say about a URL."""

    host: str
    """In ASCII and lower case, without port; a label beyond ASCII as Punycode. Empty where there is none."""
    is_punycode: bool
    """Whether the host is, or would be, written in Punycode, so that it may look like another."""
    refusals: tuple[str, ...]
    """Why it is not to be opened; empty where it may be."""
    warnings: tuple[str, ...]
    """What a person should know before it is opened."""

    @classmethod
    def of(cls, url: str) -> URLCheck:
        """Look at a URL, of any form. Takes time in proportion to its length."""
        refusals, warnings = _check_characters(url)
        try:
            parts = urlsplit(url)
            _ = parts.port  # raises where it is no number, or too large
        except ValueError as error:
            refusals.append(f"it is not a valid URL: {printable(str(error))[:200]}")
            return cls(host="", is_punycode=False, refusals=tuple(refusals), warnings=tuple(warnings))
        if parts.scheme not in _SCHEMES:
            refusals.append(f"expected the scheme https or http, got {quote(parts.scheme) if parts.scheme else 'none'}")
        if "@" in parts.netloc:
            warnings.append("it carries a user name in front of the host, which can pass for a host itself")
        host, is_foreign = _to_ascii(parts.hostname or "")
        address = _address(host)
        if not host and parts.scheme in _SCHEMES:
            refusals.append("it names no host")
        elif host and not _is_host(host, address):
            refusals.append(f"{quote(host)} is not the name of a host")
            host = ""
        elif host:
            warnings.extend(_check_host(host, address, is_foreign=is_foreign))
            if parts.scheme == "http" and not _is_loopback(host, address):
                warnings.append("it is not encrypted (http): others may read along, and change the page")
        return cls(
            host=host,
            is_punycode=_is_punycode(host),
            refusals=tuple(refusals),
            warnings=tuple(warnings),
        )


def _check_characters(url: str) -> tuple[list[str], list[str]]:
    refusals, warnings = [], []
    odd = {character for character in url if not character.isprintable() or character.isspace() or character == "\\"}
    if odd:
        shown = ", ".join(_NAMES.get(character) or printable(character) for character in sorted(odd)[:5])
        refusals.append(f"it contains what does not belong into a URL: {shown}")
    if any(unicodedata.bidirectional(character) in ("R", "AL") for character in url):
        warnings.append(
            "it contains letters that are written from right to left, which changes the order it is seen in"
        )
    if len(url) > MAX_URL_CHARS:
        warnings.append(f"it is {len(url)} characters long")
    return refusals, warnings


def _check_host(host: str, address: _Address | None, *, is_foreign: bool) -> list[str]:
    warnings = []
    if address is not None and not address.is_loopback:
        warnings.append(f"the host {host} is an address and not a name")
    if _is_punycode(host):
        shown = ".".join(_to_unicode(label) for label in host.split("."))
        warnings.append(f"the host {host} is shown by some programs as {printable(shown)}, and may look like another")
        mixed = [label for label in shown.split(".") if len(_scripts(label)) > 1]
        warnings.extend(
            f"{printable(label)} mixes letters of several scripts: {', '.join(sorted(_scripts(label)))}"
            for label in mixed
        )
    elif is_foreign:
        warnings.append(f"the host is written with other letters than it has: it is {host}")
    return warnings


def _to_ascii(host: str) -> tuple[str, bool]:
    """The host as it is looked up, and whether it was written otherwise."""
    if host.isascii():
        return host.lower(), False
    labels = unicodedata.normalize("NFKC", host).translate(_DOTS).lower()
    if len(labels) > MAX_HOST_CHARS:
        return labels, True  # Punycode takes time with the square of the length
    return ".".join(_label_to_ascii(label) for label in labels.split(".")), True


def _label_to_ascii(label: str) -> str:
    if label.isascii():
        return label
    try:
        return f"xn--{label.encode('punycode').decode('ascii')}"
    except UnicodeError:  # half a surrogate pair
        return label


def _to_unicode(label: str) -> str:
    if not label.startswith("xn--"):
        return label
    try:
        return label[4:].encode("ascii").decode("punycode")
    except UnicodeError:
        return label


def _is_punycode(host: str) -> bool:
    return any(label.startswith("xn--") for label in host.split("."))


def _scripts(label: str) -> set[str]:
    """The scripts of the letters, told from their names: Python does not know the property."""
    found = set()
    for character in label:
        if not character.isalpha():
            continue
        script = unicodedata.name(character, "UNNAMED").replace("-", " ").split(" ")[0]
        found.add("East Asian" if script in _COMPATIBLE_SCRIPTS else script.capitalize())
    return found


def _address(host: str) -> _Address | None:
    if "%" in host:  # a zone, which only means something on the machine it was written on
        return None
    try:
        return ip_address(host)
    except ValueError:
        return None


def _is_host(host: str, address: _Address | None) -> bool:
    """Whether a browser goes to this very host; one that ends with a number it takes for an address: 0x7f.1."""
    if address is not None:
        return True
    return (
        len(host) <= MAX_HOST_CHARS
        and bool(_HOST.match(host))
        and not _NUMBER.match(host.rstrip(".").rpartition(".")[2])
    )


def _is_loopback(host: str, address: _Address | None) -> bool:
    if address is not None:
        return address.is_loopback
    name = host.rstrip(".")
    return name == "localhost" or name.endswith(".localhost")
