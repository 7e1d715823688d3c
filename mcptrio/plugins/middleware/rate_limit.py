"""The plugin ``rate_limit``: limits the requests of each caller per second, minute, hour, day and week.

It is loaded if the configuration has ``[plugins.rate_limit]``; a program can also pass it to a server:
``Server(plugins=[RateLimit()])``. The error for a refused request says when to retry.

If the server shares its stores with other replicas, the counters are in the stores. Otherwise they are in memory: each
worker has its own, and a restart clears them.
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

_MAX_CALLERS = 10_000
"""Maximum number of principals with counters, and separately of anonymous sessions with counters. Above it, the
counters of the least recently seen principal or session are dropped."""
_MAX_NAMES = 256
"""Tools, prompts and resources of one caller with counters of their own. Further ones share one counter."""
ORDER = -100
"""Outside of other middleware, because a refusal costs less than their work."""


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
            first request. In shared stores a quota refills evenly over the period instead. A period that is missing has
            no limit.
        costs: Globs of names of tools, prompts and resources, and the number of requests that one call counts as. The
            highest match applies; for the rate, at most ``burst``.
        subjects: Limits of the principals with these subjects.
        clients: Limits of the principals with these clients, by ``client_id``; a subject takes precedence.
        methods: The methods that are counted together; others are not limited.
        by: The requests that share a limit: with ``caller`` those of one principal, or of one session if they are
            anonymous; with ``client`` those of all principals with the same client; with ``everybody`` all requests.
            Callers that cannot be distinguished count as one.
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
    """The plugin: middleware that refuses requests beyond the limits.

    Args:
        config: The settings; by default those of :class:`RateLimitConfig`.
    """

    def __init__(self, config: RateLimitConfig | None = None) -> None:
        self._config = config or RateLimitConfig()
        self._default_allowance = self._allowance(RateLimitOverride())
        self._subjects = {name: self._allowance(each) for name, each in self._config.subjects.items()}
        self._clients = {name: self._allowance(each) for name, each in self._config.clients.items()}
        # Apart, because any client can open many sessions, which must not evict the counters of principals.
        self._principals: OrderedDict[tuple[str, ...], dict[str | None, Account | SharedAccount]] = OrderedDict()
        self._anonymous: OrderedDict[tuple[str, ...], dict[str | None, Account | SharedAccount]] = OrderedDict()
        self._quotas: SharedQuotas | None = None

    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        self._quotas = SharedQuotas(server)
        server.add_middleware(self.limit, order=ORDER)

    async def limit(self, request: RequestView, proceed: Callable[[], Awaitable[Any]]) -> Any:
        """Count a request. This is the middleware.

        Raises:
            RateLimited: There are too many requests. The error says when to retry.
        """
        # By default not notifications and lists, which cost little, and whose refusal would break clients.
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
        """Return the account of the caller or, with ``each``, of the caller and the name of the tool."""
        principal = request.principal
        allowance, source = self._allowance_of(principal)
        callers = self._anonymous if principal is None else self._principals
        key: tuple[str, ...]
        if self._config.by == "everybody":
            key = (source,)
        elif self._config.by == "client" and principal is not None and principal.client_id is not None:
            key = (source, principal.issuer or "", principal.client_id)
        else:
            key = (source, request.caller)
        # Removed and added again, so that the least recently seen caller comes first.
        accounts = callers.pop(key, None) or {}
        callers[key] = accounts
        if len(callers) > _MAX_CALLERS:
            callers.popitem(last=False)
        name = f"{request.method} {request.name}" if self._config.each else None
        if name not in accounts and len(accounts) >= _MAX_NAMES:
            # A caller must not get more accounts by inventing names.
            name = None
        account = accounts.get(name)
        if account is None:
            account = accounts[name] = self._new_account(allowance, key, name)
        return account

    def _new_account(self, allowance: Allowance, key: tuple[str, ...], name: str | None) -> Account | SharedAccount:
        if self._quotas is None or not self._quotas.exist:
            return Account(allowance)
        # A digest, because the key may be long, and the store must not reveal principals.
        digest = sha256("\0".join((*key, name or "")).encode()).hexdigest()[:32]
        return SharedAccount(allowance, digest, self._quotas)

    def _allowance_of(self, principal: Principal | None) -> tuple[Allowance, str]:
        """Return the limits of a principal, and the rule that they come from: a subject, a client, or none."""
        if principal is not None:
            if (allowance := self._subjects.get(principal.subject)) is not None:
                return allowance, f"subject {principal.subject}"
            if principal.client_id is not None and (allowance := self._clients.get(principal.client_id)) is not None:
                return allowance, f"client {principal.client_id}"
        return self._default_allowance, ""
