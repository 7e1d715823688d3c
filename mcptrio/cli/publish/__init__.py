"""A server of plugins, described for those who install servers: the registry's ``server.json``, and MCPB bundles.

Used by ``mcptrio package``, and :mod:`mcptrio.cli.publish.start` by the bundles themselves; so nothing is imported
here.
The one rule: the same plugins give the same bytes.
"""

__all__: list[str] = []
