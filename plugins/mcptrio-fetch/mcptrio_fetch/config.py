"""The operator's settings: ``[plugins.fetch]`` in mcptrio.toml, and the environment.

mcptrio creates a Config when the plugin is registered. Config refuses invalid values, so other modules need no checks.
"""

from __future__ import annotations

import math
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from attrs import Attribute, field, frozen
from attrs.validators import ge, le

from mcptrio import Secret

from .hosts import check_hosts_and_networks, check_names

__all__ = ["Config"]

_KIB = 1024
_MIB = 1024 * 1024
_PROXIES = ("http", "https", "socks5", "socks5h", "socks")


def _check_names(_: Config, attribute: Attribute[tuple[str, ...]], value: tuple[str, ...]) -> None:
    check_names(attribute.name, value)


def _check_hosts(_: Config, attribute: Attribute[tuple[str, ...]], value: tuple[str, ...]) -> None:
    check_hosts_and_networks(attribute.name, value)


def _check_finite(_: Config, attribute: Attribute[float], value: float) -> None:
    if not math.isfinite(value):
        raise ValueError(f"expected a finite number for {attribute.name}, got {value}")


def _check_header(_: Config, attribute: Attribute[str | None], value: str | None) -> None:
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
    """Return the scheme of a proxy's URL; ``None`` if the text is not such a URL."""
    try:
        parts = urlsplit(url)
        return parts.scheme if parts.scheme in _PROXIES and parts.hostname and parts.port != 0 else None
    except ValueError:
        return None


def _check_file(_: Config, attribute: Attribute[Path | None], value: Path | None) -> None:
    if value is not None and not value.expanduser().is_file():
        raise ValueError(f"expected a file for {attribute.name}, got {str(value)!r}")


@frozen(kw_only=True)
class Config:
    """The settings of the plugin. Sizes are bytes, times seconds."""

    allow_hosts: tuple[str, ...] = field(default=(), validator=_check_names)
    """Allowed hosts, such as ``example.com`` or ``*.example.com``; if empty, all hosts are allowed."""

    deny_hosts: tuple[str, ...] = field(default=(), validator=_check_hosts)
    """Hosts, addresses and networks that are never fetched from. Takes precedence over the other lists."""

    allow_private: bool = False
    """Allow all private, loopback and link-local addresses. Only for a machine without secrets."""

    private_hosts: tuple[str, ...] = field(default=(), validator=_check_hosts)
    """Private hosts, addresses and networks that are allowed, such as ``wiki.corp``."""

    robots: bool = True
    """Obey the robots.txt of each site in the tools and resources. The prompt ignores it."""

    user_agent: str | None = field(default=None, validator=_check_header)
    """The User-Agent; by default the name of this plugin, and whether a user or a model made the request."""

    proxy: Secret | None = field(default=None, validator=_proxy)
    """URL of a proxy for all requests: ``http``, ``https`` or ``socks5``. It may contain a user name and password."""

    ca_file: Path | None = field(default=None, validator=_check_file)
    """File with trusted certificates (PEM); by default, the system's certificates are trusted."""

    max_bytes: int = field(default=5 * _MIB, validator=[ge(_KIB), le(512 * _MIB)])
    """Maximum size of a decompressed page. The rest of a larger page is not read, and the result says so."""

    max_media_bytes: int = field(default=3 * _MIB, validator=[ge(_KIB), le(64 * _MIB)])
    """Maximum size of an image, sound or PDF file that is returned unchanged; a larger one is an error."""

    max_document_bytes: int = field(default=16 * _MIB, validator=[ge(_KIB), le(512 * _MIB)])
    """Maximum size of a document that is converted to Markdown; a larger one is an error."""

    max_html_bytes: int = field(default=2 * _MIB, validator=[ge(_KIB), le(64 * _MIB)])
    """Maximum characters of HTML that are converted to Markdown."""

    max_chars: int = field(default=36_000, validator=[ge(1), le(999_999)])
    """Maximum characters in one result, even if ``limit`` is higher. The default is about 9,000 tokens."""

    max_links: int = field(default=500, validator=[ge(1), le(10_000)])
    """Maximum links in one result."""

    max_redirects: int = field(default=5, validator=[ge(0), le(50)])
    """Maximum redirects that are followed for a page or a robots.txt."""

    request_timeout: float = field(default=30.0, validator=[_check_finite, ge(0.1), le(3600.0)])
    """Seconds for all requests of one call, including redirects and robots.txt."""

    connect_timeout: float = field(default=10.0, validator=[_check_finite, ge(0.1), le(3600.0)])
    """Seconds to resolve a name and connect."""

    convert_timeout: float = field(default=15.0, validator=[_check_finite, ge(0.1), le(3600.0)])
    """Seconds to convert one page or document to Markdown."""

    max_downloads: int = field(default=16, validator=[ge(1), le(1000)])
    """Maximum concurrent downloads. Further calls wait; the wait counts towards ``request_timeout``."""

    host_concurrency: int = field(default=4, validator=[ge(1), le(1000)])
    """Maximum concurrent requests to one host; further ones wait."""

    requests_per_second: float = field(default=5.0, validator=[_check_finite, ge(0.0), le(10_000.0)])
    """Average requests per second to one host, after a burst of ten; 0 for no limit."""

    cache_bytes: int = field(default=32 * _MIB, validator=[ge(0), le(4096 * _MIB)])
    """Memory for cached pages, so that reading the next piece does not download the page again; 0 for no cache."""

    cache_seconds: float = field(default=300.0, validator=[_check_finite, ge(0.0), le(86_400.0)])
    """Seconds for which a page is reused without a request; a shorter time of the site takes precedence."""

    robots_seconds: float = field(default=3600.0, validator=[_check_finite, ge(0.0), le(86_400.0)])
    """Seconds for which a robots.txt is reused; at most a day (RFC 9309, 2.4)."""
