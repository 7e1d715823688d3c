"""The URIs of graphs and nodes: their templates, and the graph or entity that a URI names.

The resources and the notifications use them. Different spellings of a URI have the same target, so a subscriber is
notified for each spelling.

Source: RFC 3986; the reference memory server has ``memory://knowledge-graph``.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qs, unquote

from attrs import frozen

__all__ = ["EXPORT", "EXPORT_OF", "GRAPH", "GRAPH_OF", "NODE", "NODE_OF", "SCHEME", "Target", "target_of"]

SCHEME: Final = "memory://"
GRAPH: Final = "memory://knowledge-graph"
GRAPH_OF: Final = "memory://knowledge-graph{?namespace}"
EXPORT: Final = "memory://export"
EXPORT_OF: Final = "memory://export{?namespace}"
NODE: Final = "memory://node/{name}"
NODE_OF: Final = "memory://node{?name,namespace}"
"""The template for names with a slash, and for other namespaces."""


@frozen
class Target:
    """The graph or entity that a URI names."""

    namespace: str
    name: str | None
    """The name of an entity; ``None`` for the whole graph."""


def target_of(uri: str, namespace: str) -> Target | None:
    """Return the target of a URI; ``None`` for a URI of another plugin.

    Args:
        namespace: The graph of a URI without a namespace.
    """
    path, _, query = uri.partition("#")[0].removeprefix(SCHEME).partition("?")
    try:
        fields = parse_qs(query, keep_blank_values=True, max_num_fields=10, errors="strict")
        namespace = fields.get("namespace", [namespace])[0]
        if path in ("knowledge-graph", "export"):
            return Target(namespace, None)
        if path == "node":
            return Target(namespace, fields["name"][0]) if "name" in fields else None
        if path.startswith("node/"):
            return Target(namespace, unquote(path.removeprefix("node/"), errors="strict"))
    except ValueError:  # bytes that are not UTF-8, or more than ten fields
        return None
    return None
