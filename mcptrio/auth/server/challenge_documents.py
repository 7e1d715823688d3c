"""Challenges for rejected requests, and the resource metadata to which they link.

The resource server uses them. Challenges name where to obtain a token and with which scopes; they repeat nothing of the
rejected token.

Source: RFC 6750 section 3; RFC 9728 sections 2, 3 and 5; RFC 9449 section 7.1; MCP 2026-07-28, basic/authorization.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final
from urllib.parse import urlsplit

from attrs import frozen

from mcptrio.abc import RequestHead
from mcptrio.auth.challenges import build_challenge
from mcptrio.auth.jose import ALGORITHMS
from mcptrio.auth.metadata import ResourceMetadata
from mcptrio.auth.scopes import check_scope
from mcptrio.auth.server.request_credentials import CredentialsRefused
from mcptrio.auth.server.resource_options import ResourceServerOptions
from mcptrio.auth.urls import resource_metadata_urls

__all__ = ["NEVER_REQUESTED_SCOPES", "ChallengeDocuments", "path_of"]

NEVER_REQUESTED_SCOPES: Final = frozenset({"offline_access"})
"""Scopes that servers should not request (MCP 2026-07-28, basic/authorization, "Refresh Tokens")."""

# Longest scope parameter in characters; beyond it, the challenge names only the needed scopes.
_MAX_SCOPE_CHARS: Final = 4096
# Characters that error_description may not contain (RFC 6750 section 3).
_NOT_IN_HEADERS: Final = re.compile(r"[^\x20\x21\x23-\x5b\x5d-\x7e]")
# Longest error_description in characters.
_MAX_DESCRIPTION_CHARS: Final = 300


@frozen(kw_only=True)
class ChallengeDocuments:
    """The challenges and metadata documents of a resource server.

    Args:
        resources: URLs of the endpoint; may be empty if there are no issuers.
        issuers: Issuers of accepted tokens; without any, no metadata is published.
        scopes: The scopes that every request needs, reduced to the fewest.
    """

    resources: Sequence[str]
    issuers: Sequence[str]
    scopes: frozenset[str]
    options: ResourceServerOptions

    def documents(self) -> Iterator[tuple[str, bytes]]:
        """Yield path and JSON of the metadata of each resource, and of the first resource at the root too."""
        if not self.issuers:
            return
        # The caller builds a dict, so the last document for the root path remains: that of the first resource.
        for resource in reversed(self.resources):
            document = self._metadata(resource).write()
            for url in reversed(resource_metadata_urls(resource)):
                yield urlsplit(url).path, document

    def challenge(self, request: RequestHead, refused: CredentialsRefused) -> str:
        """Return the ``WWW-Authenticate`` header: a challenge for each accepted scheme, that of the request first."""
        common: dict[str, str] = {}
        # RFC 6750 section 3.1: a malformed request (400) needs no other scope.
        if (scope := refused.scope or self.scope_text(self.scopes)) and refused.status != 400:
            common["scope"] = scope
        if self.issuers:
            common["resource_metadata"] = resource_metadata_urls(self.resource_of(request))[0]
        error = {}
        if refused.error is not None:
            error = {"error": refused.error, "error_description": _header_text(refused.reason)}
        schemes = self._schemes()
        # Clients that parse only the first challenge find their own scheme.
        schemes.sort(key=lambda scheme: scheme != refused.scheme)
        if refused.status != 401:
            # 400 and 403: another scheme would not help.
            del schemes[1:]
        return ", ".join(
            build_challenge(
                scheme,
                {
                    **(error if scheme == schemes[0] else {}),
                    **common,
                    **({"algs": " ".join(sorted(ALGORITHMS))} if scheme == "DPoP" else {}),
                },
            )
            for scheme in schemes
        )

    def scope_text(self, scopes: Iterable[str], *, needed: Iterable[str] = ()) -> str:
        """Return the scopes as a challenge contains them.

        Args:
            scopes: All scopes. Some may come from tokens, with names that a header cannot carry, or too many for one.
            needed: The scopes without which the request fails; used alone if all are too long.
        """
        text = self._scope_list(scopes)
        return self._scope_list(needed) if len(text) > _MAX_SCOPE_CHARS else text

    def resource_of(self, request: RequestHead) -> str:
        """Return the resource of a request: the one with the same path, or the first."""
        path = path_of(request).rstrip("/")
        return next((each for each in self.resources if urlsplit(each).path.rstrip("/") == path), self.resources[0])

    # Private

    def _schemes(self) -> list[str]:
        use = self.options.dpop.use if self.resources else "off"
        return {"off": ["Bearer"], "accepted": ["Bearer", "DPoP"], "required": ["DPoP"]}[use]

    def _scope_list(self, scopes: Iterable[str]) -> str:
        names = (f"{self.options.scope_prefix}{each}" for each in {*scopes} - NEVER_REQUESTED_SCOPES)
        return " ".join(sorted(filter(_is_scope, names)))

    def _metadata(self, resource: str) -> ResourceMetadata:
        options = self.options
        supported = self.scopes if options.scopes_supported is None else options.scopes_supported
        return ResourceMetadata(
            resource=resource,
            authorization_servers=tuple(self.issuers),
            scopes_supported=tuple(self._scope_list(supported).split()) or None,
            bearer_methods_supported=("header",),
            resource_name=options.name,
            resource_documentation=options.documentation,
            dpop_signing_alg_values_supported=tuple(sorted(ALGORITHMS)) if "DPoP" in self._schemes() else None,
            dpop_bound_access_tokens_required=options.dpop.use == "required",
        )


def path_of(request: RequestHead) -> str:
    """Return the path of a request, independent of its host."""
    _, slash, path = request.url.partition("://")[2].partition("/")
    return f"{slash}{path}"


def _header_text(text: str) -> str:
    return _NOT_IN_HEADERS.sub("?", text.replace('"', "'"))[:_MAX_DESCRIPTION_CHARS]


def _is_scope(scope: str) -> bool:
    try:
        check_scope(scope)
    except ValueError:
        return False
    return True
