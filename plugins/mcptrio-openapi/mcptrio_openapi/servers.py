"""Determines the base URL of an API: the configured one, or the one in its document.

It is called once for each document. A document that was fetched may set only its own origin; a document in a file may
set only public https origins. The operator must configure any other base URL.

Source: OpenAPI 3.1.1, 4.8.5 "Server Object", 4.8.6 "Server Variable Object".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin

from .config import Api
from .documents import Document, mapping
from .origins import check_base_url, is_public, origin_of
from .problems import DocumentError, join, name_kind

__all__ = ["base_url_of", "own_base_url"]

_VARIABLE = re.compile(r"\{([^{}]{1,200})\}")


def base_url_of(document: Document, api: Api) -> str:
    """Return the base URL of a document, without a slash at its end.

    Raises:
        DocumentError: The document has no allowed base URL; the message names the setting.
    """
    if api.base_url is not None:
        return api.base_url.rstrip("/")
    return _first(document, document.root, "#")


def own_base_url(document: Document, api: Api, base_url: str, holders: list[tuple[Mapping[str, Any], str]]) -> str:
    """Return the base URL of one operation. The operation and its path item may have their own servers.

    Args:
        holders: The path item and the operation, with their pointers.

    Raises:
        DocumentError: The operation has another origin than the API.
    """
    if api.base_url is not None:
        return base_url
    for holder, pointer in reversed(holders):
        if holder.get("servers"):
            own_url = _first(document, holder, pointer)
            if origin_of(own_url) != origin_of(base_url):
                raise DocumentError(
                    join(pointer, "servers"),
                    f"expected the origin of the whole API, {origin_of(base_url)}, got {origin_of(own_url)}; give it a "
                    "separate entry with this base_url",
                )
            return own_url
    return base_url


def _first(document: Document, holder: Mapping[str, Any], pointer: str) -> str:
    servers = holder.get("servers") or [{"url": "/"}]
    pointer = join(pointer, "servers")
    if not isinstance(servers, list):
        raise DocumentError(pointer, f"expected an array, got {name_kind(servers)}")
    pointer = join(pointer, 0)
    server = mapping(servers[0], pointer)
    url = server.get("url")
    if not isinstance(url, str):
        raise DocumentError(join(pointer, "url"), f"expected a URL, got {name_kind(url)}")
    pointer = join(pointer, "url")
    url = _fill_variables(url, server, pointer)
    if document.url is not None:
        url = urljoin(document.url, url)
    if "://" not in url:
        raise DocumentError(
            pointer, "expected an absolute URL, got a relative one in a document that is a file; set base_url"
        )
    url = url.rstrip("/")
    try:
        check_base_url(url, "servers")
    except ValueError as error:
        raise DocumentError(pointer, f"{error}; set base_url") from error
    if document.url is not None:
        if origin_of(url) != origin_of(document.url):
            raise DocumentError(
                pointer,
                f"expected the origin the document was fetched from, got {origin_of(url)}; if that is right, set "
                "base_url",
            )
    elif not is_public(url):
        raise DocumentError(pointer, f"expected public https, got {origin_of(url)}; if that is right, set base_url")
    return url


def _fill_variables(url: str, server: Mapping[str, Any], pointer: str) -> str:
    variables = server.get("variables", {})

    def fill(match: re.Match[str]) -> str:
        variable = variables.get(match[1]) if isinstance(variables, Mapping) else None
        default = variable.get("default") if isinstance(variable, Mapping) else None
        if not isinstance(default, str):
            raise DocumentError(pointer, f"expected a default for {match[0]}, got none; set base_url")
        return default

    return _VARIABLE.sub(fill, url)
