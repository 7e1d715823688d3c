"""The plugin ``rate_limit``: limits the requests of each caller per second, minute, hour, day and week.

Loaded if the configuration has ``[plugins.rate_limit]``, or passed to a server: ``Server(plugins=[RateLimit()])``. The
error for a refused request says when to retry. If the server shares its stores with other replicas, the counters are in
the stores; otherwise they are in memory: a restart clears them, and each worker has its own.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Any, Literal

from attrs import Attribute, field, frozen, validators

from mcptrio.abc import Principal
from mcptrio.capabilities.middleware import RequestView
from mcptrio.plugins.hooks import hookimpl
from mcptrio.plugins.middleware.accounts import WINDOWS, Account, Allowance
from mcptrio.plugins.middleware.shared_account import SharedAccount
from mcptrio.plugins.middleware.shared_quotas import SharedQuotas
from mcptrio.plugins.setup import PluginSetup

__all__ = ["RateLimit", "RateLimitConfig", "RateLimitOverride"]

_CALLERS = 10_000
"""The number of principals, and of anonymous sessions, that are counted. When full, the least recently seen one is
evicted, which clears its counters."""
_NAMES = 256
"""The number of tools, prompts and resources of one caller with their own counters. Further ones share one counter."""
ORDER = -100
"""Outside other middleware, because a refusal is cheaper than their work."""


def _check_quotas(_: Any, attribute: Attribute[Any], value: Mapping[str, int] | None) -> None:
    for window, most in (value or {}).items():
        if window not in WINDOWS:
            raise ValueError(f"{attribute.name}: expected {', '.join(WINDOWS)}, got {window!r}")
        if most < 1:
            raise ValueError(f"{attribute.name}: expected at least 1 a {window}, got {most}")


def _check_costs(_: Any, attribute: Attribute[Any], value: Mapping[str, int]) -> None:
    for glob, cost in value.items():
        if cost < 1:
            raise ValueError(f"{attribute.name}: expected at least 1 for {glob!r}, got {cost}")


@frozen(kw_only=True)
class RateLimitOverride:
    """Limits for some callers. ``None`` means the general limit.

    Args:
        per_second, burst, quotas: The limits of :class:`RateLimitConfig` with these names; ``quotas = {}`` means none.
    """

    per_second: float | None = field(default=None, validator=validators.optional(validators.gt(0)))
    burst: int | None = field(default=None, validator=validators.optional(validators.ge(1)))
    quotas: Mapping[str, int] | None = field(default=None, validator=_check_quotas)


@frozen(kw_only=True)
class RateLimitConfig:
    """The settings of ``rate_limit``.

    Args:
        per_second: Requests of one caller per second, on average.
        burst: Requests that may arrive at once.
        quotas: Requests of one caller in a ``minute``, an ``hour``, a ``day`` or a ``week``; a period begins with its
            first request. In shared stores a quota refills evenly over the period instead. Missing ones have no limit.
        costs: Globs of names of tools, prompts and resources, and the number of requests that one call counts as. The
            highest match applies; for the rate, at most ``burst``.
        subjects: Limits of the principals with these subjects.
        clients: Limits of the principals with these clients, by ``client_id``; a subject takes precedence.
        methods: The methods that are counted together; others are not limited.
        by: The requests that share a limit: those of one principal, or of one session if they are anonymous; of all
            principals with the same client; or all requests. Callers that cannot be distinguished count as one.
        each: Whether each tool, prompt and resource has its own limits.
    """

    per_second: float = field(default=10.0, validator=validators.gt(0))
    burst: int = field(default=20, validator=validators.ge(1))
    quotas: Mapping[str, int] = field(factory=dict, validator=_check_quotas)
    costs: Mapping[str, int] = field(factory=dict, validator=_check_costs)
    subjects: Mapping[str, RateLimitOverride] = field(factory=dict)
    clients: Mapping[str, RateLimitOverride] = field(factory=dict)
    methods: tuple[str, ...] = ("tools/call", "resources/read", "prompts/get", "completion/complete")
    by: Literal["caller", "client", "everybody"] = "caller"
    each: bool = False


class RateLimit:
    def __init__(self, config: RateLimitConfig | None = None) -> None:
        self._config = config or RateLimitConfig()
        self._everybody = self._allowance(RateLimitOverride())
        self._subjects = {name: self._allowance(each) for name, each in self._config.subjects.items()}
        self._clients = {name: self._allowance(each) for name, each in self._config.clients.items()}
        # Any client can open many sessions; they must not evict the counters of authenticated users.
        self._principals: OrderedDict[tuple[str, ...], dict[str | None, Account | SharedAccount]] = OrderedDict()
        self._others: OrderedDict[tuple[str, ...], dict[str | None, Account | SharedAccount]] = OrderedDict()
        self._quotas: SharedQuotas | None = None

    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        self._quotas = SharedQuotas(server)
        server.add_middleware(self.limit, order=ORDER)

    async def limit(self, request: RequestView, proceed: Callable[[], Awaitable[Any]]) -> Any:
        """Count a request: the middleware.

        Raises:
            RateLimited: There are too many requests. The error says when to retry.
        """
        # Notifications and lists are cheap, and refusing them would break clients.
        if request.method in self._config.methods:
            account, cost = self._account(request), self._cost(request)
            if isinstance(account, SharedAccount):
                await account.spend(cost)
            else:
                account.spend(cost)
        return await proceed()

    # Private

    def _allowance(self, override: RateLimitOverride) -> Allowance:
        config = self._config
        return Allowance(
            per_second=config.per_second if override.per_second is None else override.per_second,
            burst=config.burst if override.burst is None else override.burst,
            quotas=config.quotas if override.quotas is None else override.quotas,
        )

    def _cost(self, request: RequestView) -> int:
        costs = self._config.costs
        if not costs or request.name is None:
            return 1
        # The highest cost, so that a broad glob cannot make an expensive tool cheap.
        return max((cost for glob, cost in costs.items() if fnmatchcase(request.name, glob)), default=1)

    def _account(self, request: RequestView) -> Account | SharedAccount:
        """Return the account of the caller, or of the caller and the name with ``each``."""
        principal = request.principal
        allowance, which = self._allowed(principal)
        kept = self._others if principal is None else self._principals
        who: tuple[str, ...]
        if self._config.by == "everybody":
            who = (which,)
        elif self._config.by == "client" and principal is not None and principal.client_id is not None:
            who = (which, principal.issuer or "", principal.client_id)
        else:
            who = (which, request.caller)
        # Removed and added again, so that the least recently seen caller comes first.
        accounts = kept.pop(who, None) or {}
        kept[who] = accounts
        if len(kept) > _CALLERS:
            kept.popitem(last=False)
        name = f"{request.method} {request.name}" if self._config.each else None
        if name not in accounts and len(accounts) >= _NAMES:
            # Invented names must not give a caller further accounts.
            name = None
        account = accounts.get(name)
        if account is None:
            account = accounts[name] = self._new_account(allowance, who, name)
        return account

    def _new_account(self, allowance: Allowance, who: tuple[str, ...], name: str | None) -> Account | SharedAccount:
        if self._quotas is None or not self._quotas.exist:
            return Account(allowance)
        # A digest, because names are long, and principals must not be readable in the store.
        digest = sha256("\0".join((*who, name or "")).encode()).hexdigest()[:32]
        return SharedAccount(allowance, digest, self._quotas)

    def _allowed(self, principal: Principal | None) -> tuple[Allowance, str]:
        """Return the limits of a principal, and a name for them."""
        if principal is not None:
            if (allowance := self._subjects.get(principal.subject)) is not None:
                return allowance, f"subject {principal.subject}"
            if principal.client_id is not None and (allowance := self._clients.get(principal.client_id)) is not None:
                return allowance, f"client {principal.client_id}"
        return self._everybody, ""
