"""Fetches a document over HTTP, once, when the server starts.

Bytes, seconds and origins are bounded. An error is a misfit of this document and affects no other.
"""

from __future__ import annotations

import trio

from mcptrio.errors import ToolError

from .config import Api, Config
from .connections import Connections, user_agent
from .documents import Document, read_document
from .incoming import ACCEPTED_CODINGS
from .problems import DocumentError
from .redirects import HOPS, RedirectRefused, is_redirect, next_url

__all__ = ["fetch_document"]

_ACCEPT = "application/vnd.oai.openapi+json, application/json, application/yaml;q=0.9, */*;q=0.5"


async def fetch_document(api: Api, config: Config) -> Document:
    """Fetch and parse the document of an API.

    Raises:
        Misfit: it could not be had, or is none.
    """
    assert api.url is not None
    connections = Connections(most=1, connect_timeout=api.connect_timeout, proxy=api.proxy, ca_file=api.ca_file)
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
    # A large YAML document takes seconds to parse; how many, its size bounds.
    return await trio.to_thread.run_sync(lambda: read_document(data, url=url))


async def _download(connections: Connections, api: Api, url: str, most: int) -> tuple[bytes, str]:
    headers = [("Accept", _ACCEPT), ("Accept-Encoding", ACCEPTED_CODINGS), ("User-Agent", user_agent())]
    headers += [(name, value.reveal()) for name, value in api.url_headers.items()]
    for _ in range(HOPS + 1):
        async with connections.send("GET", url, headers) as incoming:
            location = incoming.header("location")
            if location is not None and is_redirect(incoming.status, location):
                url, _ = next_url(url, location)
                continue
            if incoming.status != 200:
                raise ToolError(f"the status is {incoming.status}")
            data = bytearray()
            while (piece := await incoming.receive()) is not None:
                data += piece
                if len(data) > most:
                    raise ToolError(f"it has more than {most} bytes (max_document_bytes)")
            return bytes(data), url
    raise RedirectRefused(f"redirected more than {HOPS} times")
