"""Access decisions of an isolated plugin, which are requested from its process and cached for two seconds.

The mount of an isolated plugin uses this if the plugin has authorizers. The authorizers decide about calls in their own
process. Lists, subscriptions and completions cannot wait for a decision, so it is cached here. Entries that are denied
or unknown are not shown.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import trio
from attrs import field, frozen

from mcptrio.abc import Principal
from mcptrio.capabilities.authorization import Component
from mcptrio.capabilities.catalog import Catalog
from mcptrio.capabilities.middleware import RequestView
from mcptrio.capabilities.owner import Owner
from mcptrio.client.client import Client
from mcptrio.errors import MCPTrioError
from mcptrio.mounting.access_method import ACCESS_METHOD
from mcptrio.mounting.upstream import Upstream
from mcptrio.runtime.callers import CALLER, encode_caller

__all__ = ["AccessReport", "RemoteAccess"]

_log = logging.getLogger("mcptrio.mounting.remote_access")

ORDER: Final = 1000
"""The order of the middleware. It runs after others, because a request that they refuse needs no decision."""
TTL_SECONDS: Final = 2.0
"""Seconds for which a decision is cached. The plugin's process decides about each call again."""
ANSWER_TIMEOUT: Final = 5.0
"""Seconds that a request waits for a decision."""
_MAX_PRINCIPALS: Final = 1000
"""Principals whose decisions are cached; when full, the least recently used one is evicted."""
_CHECKED_METHODS: Final = frozenset(
    {
        "tools/list",
        "tools/call",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "resources/subscribe",
        "prompts/list",
        "prompts/get",
        "completion/complete",
        "subscriptions/listen",
    }
)


@frozen(kw_only=True)
class AccessReport:
    """The scopes of the entries in the other process.

    Args:
        has_authorizers: True if the plugin has authorizers.
        scopes: Required scopes, by kind and name.
    """

    has_authorizers: bool = False
    scopes: dict[str, dict[str, list[str]]] = field(factory=dict)

    @classmethod
    async def of(cls, client: Client) -> AccessReport:
        """Request the report from the process of an isolated plugin.

        Raises:
            MCPTrioError: The process does not answer.
        """
        report = await client.request(ACCESS_METHOD)
        return cls(has_authorizers=bool(report["has_authorizers"]), scopes=report["scopes"])


@frozen
class _AccessDecision:
    allowed: dict[str, frozenset[str]]
    until: float


class RemoteAccess:
    """The cached decisions about one plugin's entries.

    Args:
        own_name: Returns an entry's name in the other process, from its kind and its name here.
    """

    def __init__(
        self, catalog: Catalog, name: str, upstream: Upstream, own_name: Callable[[str, str], str | None]
    ) -> None:
        self._catalog = catalog
        # A separate owner: if this code fails, only the plugin's entries are refused.
        self._owner = Owner(name=f"{name}, isolated")
        self._has_authorizers = False
        self._name = name
        self._upstream = upstream
        self._own_name = own_name
        self._decisions: OrderedDict[Principal | None, _AccessDecision] = OrderedDict()
        self._generation = 0

    def reset(self, access: AccessReport) -> None:
        """Discard all decisions, because the entries have changed."""
        self._generation += 1
        self._decisions.clear()
        if access.has_authorizers and not self._has_authorizers:
            # Added only now, so that a plugin without authorizers costs other requests nothing.
            self._has_authorizers = True
            # Removed first, so that a second list does not add the functions twice.
            self._catalog.authorizers.withdraw(self._owner)
            self._catalog.middleware.add(self.fetch_decision, self._owner, ORDER)
            self._catalog.authorizers.add(self.authorize, self._owner)

    def end(self) -> None:
        """Deny access to all entries, and remove the middleware. Call this after the entries were withdrawn."""
        self._generation += 1
        self._decisions.clear()
        if self._has_authorizers:
            self._catalog.middleware.withdraw(self._owner)

    async def fetch_decision(self, request: RequestView, proceed: Callable[[], Awaitable[Any]]) -> Any:
        """Fetch the decision about the principal before the request is handled. This is the middleware."""
        # A call of another plugin's tool needs no decision, and must not wait for the process.
        is_another = request.plugin is not None and request.plugin != self._name
        if request.method in _CHECKED_METHODS and not is_another:
            await self._fetch(request)
        return await proceed()

    def authorize(self, component: Component, principal: Principal | None) -> bool:
        """Return the cached decision about an entry of the plugin, and allow all others. This is the authorizer."""
        if component.plugin != self._name:
            return True
        decision = self._decisions.get(principal)
        own_name = self._own_name(component.kind, component.name)
        # Without a decision, the entry is denied. An entry that is missing for two seconds is better than a leak.
        return decision is not None and own_name in decision.allowed[component.kind]

    # Private

    async def _fetch(self, request: RequestView) -> None:
        principal, now = request.principal, trio.current_time()
        decision = self._decisions.get(principal)
        if decision is not None and decision.until > now:
            self._decisions.move_to_end(principal)
            return
        ask = partial(self._ask, {CALLER: encode_caller(principal, request.caller)})
        generation = self._generation
        try:
            with trio.fail_after(ANSWER_TIMEOUT):
                allowed = await self._upstream.ask(ask)
        except (MCPTrioError, trio.TooSlowError) as error:
            # While the process is disconnected, earlier decisions stay valid, because no call can reach it.
            _log.info("%s: access decision not received: %s", self._name, error or "no answer in time")
            return
        if generation != self._generation:
            # The entries have changed in the meantime, so the decision is valid for this request only.
            now -= TTL_SECONDS
        self._decisions[principal] = _AccessDecision(allowed, now + TTL_SECONDS)
        self._decisions.move_to_end(principal)
        if len(self._decisions) > _MAX_PRINCIPALS:
            self._decisions.popitem(last=False)

    @staticmethod
    async def _ask(meta: dict[str, Any], client: Client) -> dict[str, frozenset[str]]:
        report = await client.request(ACCESS_METHOD, {"_meta": meta})
        return {kind: frozenset(names) for kind, names in report["may"].items()}
