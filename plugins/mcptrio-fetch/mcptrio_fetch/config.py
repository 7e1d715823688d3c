"""The settings of the operator: ``[plugins.fetch]`` in mcptrio.toml, and the environment.

The server makes it when the plugin is registered. Invalid values are refused here, so other modules need no checks.
"""

from __future__ import annotations

import math
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from attrs import Attribute, field, frozen
from attrs.validators import ge, le

from mcptrio import Secret

from .hosts import check_names, check_places

__all__ = ["Config"]

_KIB = 1024
_MIB = 1024 * 1024
_PROXIES = ("http", "https", "socks5", "socks5h", "socks")


def _names(_: Config, attribute: Attribute[tuple[str, ...]], value: tuple[str, ...]) -> None:
    check_names(attribute.name, value)


def _places(_: Config, attribute: Attribute[tuple[str, ...]], value: tuple[str, ...]) -> None:
    check_places(attribute.name, value)


def _finite(_: Config, attribute: Attribute[float], value: float) -> None:
    if not math.isfinite(value):
        raise ValueError(f"expected a finite number for {attribute.name}, got {value}")


def _header(_: Config, attribute: Attribute[str | None], value: str | None) -> None:
    if value is not None and not (value.strip() and value.isascii() and value.isprintable()):
        raise ValueError(f"expected printable ASCII for {attribute.name}, got {value!r}")


def _proxy(_: Config, attribute: Attribute[Secret | None], value: Secret | None) -> None:
    if value is None:
        return
    scheme = _scheme_of(value.reveal())
    if scheme is None:
        raise ValueError(f"expected a URL of {', '.join(_PROXIES)} with a host for {attribute.name}, got another text")
    if scheme.startswith("socks") and find_spec("socksio") is None:
        raise ValueError(
            f"expected socksio to be installed for a SOCKS proxy in {attribute.name}: mcptrio-fetch[socks]"
        )


def _scheme_of(url: str) -> str | None:
    """The scheme of a proxy's URL; ``None`` if it is not one."""
    try:
        parts = urlsplit(url)
        return parts.scheme if parts.scheme in _PROXIES and parts.hostname and parts.port != 0 else None
    except ValueError:
        return None


def _file(_: Config, attribute: Attribute[Path | None], value: Path | None) -> None:
    if value is not None and not value.expanduser().is_file():
        raise ValueError(f"expected a file for {attribute.name}, got {str(value)!r}")


@frozen(kw_only=True)
class Config:
    """The settings of the plugin. Sizes are bytes, times seconds."""

    allow_hosts: tuple[str, ...] = field(default=(), validator=_names)
    """Hosts that may be fetched from, such as ``example.com`` or ``*.example.com``; if empty, every host."""

    deny_hosts: tuple[str, ...] = field(default=(), validator=_places)
    """Hosts, addresses and networks that are never fetched from, whatever else is allowed."""

    allow_private: bool = False
    """Let every private, loopback and link-local address be fetched from. Only for a machine without secrets."""

    private_hosts: tuple[str, ...] = field(default=(), validator=_places)
    """Hosts, addresses and networks that may be fetched from although they are private, such as ``wiki.corp``."""

    robots: bool = True
    """Ask the robots.txt of each site before the tools and resources fetch from it. The prompt never does."""

    user_agent: str | None = field(default=None, validator=_header)
    """The User-Agent; by default the name of this plugin, and whether a user or a model has asked."""

    proxy: Secret | None = field(default=None, validator=_proxy)
    """URL of a proxy for every request: ``http``, ``https`` or ``socks5``, with a password if need be."""

    ca_file: Path | None = field(default=None, validator=_file)
    """A file of certificates (PEM) to trust; the system's by default."""

    max_bytes: int = field(default=5 * _MIB, validator=[ge(_KIB), le(512 * _MIB)])
    """Maximum bytes of a page, decompressed; the rest is not read, and the result says so."""

    max_media_bytes: int = field(default=3 * _MIB, validator=[ge(_KIB), le(64 * _MIB)])
    """The largest image, sound or PDF that is answered; a larger one is an error."""

    max_document_bytes: int = field(default=16 * _MIB, validator=[ge(_KIB), le(512 * _MIB)])
    """The largest document that is turned into Markdown; a larger one is an error."""

    max_html_bytes: int = field(default=2 * _MIB, validator=[ge(_KIB), le(64 * _MIB)])
    """The most HTML, in characters, that is turned into Markdown."""

    max_chars: int = field(default=36_000, validator=[ge(1), le(999_999)])
    """The most characters in one answer, whatever ``limit`` asks for. The default is about 9,000 tokens."""

    max_links: int = field(default=500, validator=[ge(1), le(10_000)])
    """The most links in one answer."""

    max_redirects: int = field(default=5, validator=[ge(0), le(50)])
    """How many redirects are followed, for a page or a robots.txt."""

    request_timeout: float = field(default=30.0, validator=[_finite, ge(0.1), le(3600.0)])
    """Seconds for all requests of one call together, redirects and robots.txt included."""

    connect_timeout: float = field(default=10.0, validator=[_finite, ge(0.1), le(3600.0)])
    """Seconds to resolve a name and connect."""

    convert_timeout: float = field(default=15.0, validator=[_finite, ge(0.1), le(3600.0)])
    """Seconds to turn one page or document into Markdown."""

    max_downloads: int = field(default=16, validator=[ge(1), le(1000)])
    """Calls that may be on the network at once; more wait, within ``request_timeout``."""

    host_concurrency: int = field(default=4, validator=[ge(1), le(1000)])
    """Requests to one host at once; more wait."""

    requests_per_second: float = field(default=5.0, validator=[_finite, ge(0.0), le(10_000.0)])
    """Requests to one host, on average, after a burst of ten; 0 for no such limit."""

    cache_bytes: int = field(default=32 * _MIB, validator=[ge(0), le(4096 * _MIB)])
    """Memory for pages that were read, so that going on in one does not download it again; 0 keeps none."""

    cache_seconds: float = field(default=300.0, validator=[_finite, ge(0.0), le(86_400.0)])
    """Seconds for which a page is reused without a request; a shorter time of the site takes precedence."""

    robots_seconds: float = field(default=3600.0, validator=[_finite, ge(0.0), le(86_400.0)])
    """How long a robots.txt is used again; a day at most (RFC 9309, 2.4)."""
