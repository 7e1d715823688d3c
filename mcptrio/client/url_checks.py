"""Checks a URL that a server asks the user to open: its host, and suspicious properties.

:mod:`mcptrio.client.forms` shows the findings to the user. This module opens nothing and resolves no name.

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
"""The length above which the user is warned, because few people read a longer URL to its end."""
MAX_HOST_CHARS = 253
_HOST = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?\Z")
_NUMBER = re.compile(r"(?:[0-9]+|0x[0-9a-f]*)\Z")
_NAMES = {" ": "a space", "\\": "a backslash"}
_DOTS = str.maketrans({"\N{IDEOGRAPHIC FULL STOP}": "."})
# Scripts that Japanese, Korean and Chinese mix in one word, by the first word of their characters' Unicode names.
_COMPATIBLE_SCRIPTS = frozenset({"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO"})

_Address: TypeAlias = IPv4Address | IPv6Address


@frozen(kw_only=True)
class URLCheck:
    """The findings about one URL."""

    host: str
    """The host in lower-case ASCII without port, other characters as Punycode. Empty if the URL has no valid host."""
    is_punycode: bool
    """True if the host has non-ASCII labels, so that a program may show it as a name that looks like another one."""
    refusals: tuple[str, ...]
    """Reasons why the URL must not be opened; empty if it may be."""
    warnings: tuple[str, ...]
    """Facts that the user should know before the URL is opened."""

    @classmethod
    def of(cls, url: str) -> URLCheck:
        """Check any string as a URL, in time linear in its length."""
        refusals, warnings = _check_characters(url)
        try:
            parts = urlsplit(url)
            # Raises ValueError for a port that is not a number or too large.
            _ = parts.port
        except ValueError as error:
            refusals.append(f"it is not a valid URL: {printable(str(error))[:200]}")
            return cls(host="", is_punycode=False, refusals=tuple(refusals), warnings=tuple(warnings))
        if parts.scheme not in _SCHEMES:
            refusals.append(f"expected the scheme https or http, got {quote(parts.scheme) if parts.scheme else 'none'}")
        if "@" in parts.netloc:
            warnings.append("it has a user name before the host, which can be mistaken for the host")
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
    # Browsers parse URLs by the WHATWG standard, urlsplit by RFC 3986. The two disagree on backslashes, white space and
    # control characters: a browser could go to a host other than the one shown.
    odd = {character for character in url if not character.isprintable() or character.isspace() or character == "\\"}
    if odd:
        names = ", ".join(_NAMES.get(character) or printable(character) for character in sorted(odd)[:5])
        refusals.append(f"it contains characters that a URL may not contain: {names}")
    # Right-to-left letters reorder the neighbouring parts on the screen, host and path included.
    if any(unicodedata.bidirectional(character) in ("R", "AL") for character in url):
        warnings.append("it contains right-to-left letters, which change the order in which its parts are displayed")
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
        warnings.append(f"the host is written with characters that stand for others: it is {host}")
    return warnings


def _to_ascii(host: str) -> tuple[str, bool]:
    """Return the host in ASCII, and whether it was written with other characters."""
    if host.isascii():
        return host.lower(), False
    # NFKC, lower case and Punycode are close enough to IDNA for display. The result is not resolved.
    labels = unicodedata.normalize("NFKC", host).translate(_DOTS).lower()
    if len(labels) > MAX_HOST_CHARS:
        # Punycode takes quadratic time.
        return labels, True
    return ".".join(_label_to_ascii(label) for label in labels.split(".")), True


def _label_to_ascii(label: str) -> str:
    if label.isascii():
        return label
    try:
        return f"xn--{label.encode('punycode').decode('ascii')}"
    except UnicodeError:  # a lone surrogate
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
    scripts = set()
    for character in label:
        if not character.isalpha():
            continue
        # The standard library has no Script property; the first word of the character's name is the script.
        script = unicodedata.name(character, "UNNAMED").replace("-", " ").split(" ")[0]
        scripts.add("East Asian" if script in _COMPATIBLE_SCRIPTS else script.capitalize())
    return scripts


def _address(host: str) -> _Address | None:
    # An IPv6 zone has a meaning only on the machine that wrote it.
    if "%" in host:
        return None
    try:
        return ip_address(host)
    except ValueError:
        return None


def _is_host(host: str, address: _Address | None) -> bool:
    """Return whether a browser would go to this very host."""
    if address is not None:
        return True
    return (
        len(host) <= MAX_HOST_CHARS
        and bool(_HOST.match(host))
        # WHATWG: a host whose last label is a number is parsed as an IPv4 address, for example 0x7f.1.
        and not _NUMBER.match(host.rstrip(".").rpartition(".")[2])
    )


def _is_loopback(host: str, address: _Address | None) -> bool:
    if address is not None:
        return address.is_loopback
    name = host.rstrip(".")
    return name == "localhost" or name.endswith(".localhost")
