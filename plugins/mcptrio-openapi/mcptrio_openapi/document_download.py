"""Fetches documents over HTTP.

The plugin calls it when the server starts. Size, time and origins are limited. An error affects only its own document.
"""

from __future__ import annotations

import trio

from mcptrio.errors import ToolError

from .config import Api, Config
from .connections import Connections, user_agent
from .documents import Document, read_document
from .problems import DocumentError
from .redirects import MAX_REDIRECTS, RedirectRefused, is_redirect, next_url
from .response_stream import ACCEPTED_CODINGS

__all__ = ["fetch_document"]

_ACCEPT = "application/vnd.oai.openapi+json, application/json, application/yaml;q=0.9, */*;q=0.5"


async def fetch_document(api: Api, config: Config) -> Document:
    """Fetch and parse the document of an API.

    Raises:
        DocumentError: The document could not be fetched, or is invalid.
    """
    assert api.url is not None
    connections = Connections(
        max_connections=1, connect_timeout=api.connect_timeout, proxy=api.proxy, ca_file=api.ca_file
    )
    try:
        with trio.fail_after(config.document_timeout):
            data, url = await _download(connections, api, api.url, config.max_document_bytes)
    except (ToolError, RedirectRefused) as error:
        raise DocumentError("#", f"expected the document at its URL, got none: {error}") from error
    except trio.TooSlowError as error:
        text = f"expected the document within {config.document_timeout:g} s (document_timeout), got none"
        raise DocumentError("#", text) from error
    finally:
        await connections.aclose()
    # A large YAML document takes seconds to parse. max_document_bytes bounds this time.
    return await trio.to_thread.run_sync(lambda: read_document(data, url=url))


async def _download(connections: Connections, api: Api, url: str, max_bytes: int) -> tuple[bytes, str]:
    headers = [("Accept", _ACCEPT), ("Accept-Encoding", ACCEPTED_CODINGS), ("User-Agent", user_agent())]
    headers += [(name, value.reveal()) for name, value in api.url_headers.items()]
    for _ in range(MAX_REDIRECTS + 1):
        async with connections.send("GET", url, headers) as stream:
            location = stream.header("location")
            if location is not None and is_redirect(stream.status, location):
                url, _ = next_url(url, location)
                continue
            if stream.status != 200:
                raise ToolError(f"the status is {stream.status}")
            data = bytearray()
            while (piece := await stream.receive()) is not None:
                data += piece
                if len(data) > max_bytes:
                    raise ToolError(f"it has more than {max_bytes} bytes (max_document_bytes)")
            return bytes(data), url
    raise RedirectRefused(f"redirected more than {MAX_REDIRECTS} times")
