"""The page ``/readyz``, which ``HTTPApp`` serves."""

from __future__ import annotations

from typing import Any

import orjson
from attrs import Attribute, asdict

from mcptrio.abc.status import Readiness

__all__ = ["readiness_page"]


def readiness_page(readiness: Readiness, *, ready: bool) -> bytes:
    """Return the body.

    Args:
        ready: True if the server accepts requests.
    """
    body: dict[str, object] = {"ready": ready, "plugins": dict(readiness.plugins)}
    if readiness.stores is not None:
        body["stores"] = asdict(readiness.stores, filter=_is_public)
    return orjson.dumps(body)


def _is_public(attribute: Attribute[Any], value: object) -> bool:
    # Anyone who can reach the server may read the page, and internal names are only for the operator.
    return attribute.name not in ("host", "process")
