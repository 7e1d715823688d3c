"""So many requests a second for each caller: the plugin ``rate_limit``.

Loaded where the configuration has ``[plugins.rate_limit]``, or given to a server: ``Server(plugins=[RateLimit()])``.
The one rule: who asks too often is told when to ask again, and costs nobody else anything.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from attrs import field, frozen, validators

from mcptrio.capabilities.middleware import RequestView
from mcptrio.errors import Overloaded
from mcptrio.hookspecs import hookimpl
from mcptrio.runtime.rates import TokenBucket

__all__ = ["RateLimit", "RateLimitConfig", "configuration", "register_objects"]

_CALLERS = 10_000
"""Whose rate is remembered; the one heard of longest ago is forgotten, and begins anew."""
ORDER = -100
"""Outside of what else there is: refusing is cheaper than working."""


@frozen(kw_only=True)
class RateLimitConfig:
    """
    Args:
        per_second: requests of one caller, on average.
        burst: as many may come at once.
        methods: that count together; others are not limited.
        by: whose requests are counted together: the principal's, or where there is none the session's; or of
            everybody. Without a principal and a session, all count as one caller.
        each: whether each tool, prompt or resource has a rate of its own.
    """

    per_second: float = field(default=10.0, validator=validators.gt(0))
    burst: int = field(default=20, validator=validators.ge(1))
    methods: tuple[str, ...] = ("tools/call", "resources/read", "prompts/get", "completion/complete")
    by: Literal["caller", "everybody"] = "caller"
    each: bool = False


class RateLimit:
    def __init__(self, config: RateLimitConfig | None = None) -> None:
        self._config = config or RateLimitConfig()
        self._buckets: OrderedDict[tuple[str | None, ...], TokenBucket] = OrderedDict()

    @hookimpl
    def register_middleware(self, register: Callable[..., None]) -> None:
        register(self.limit, order=ORDER)

    async def limit(self, request: RequestView, proceed: Callable[[], Awaitable[Any]]) -> Any:
        """The middleware.

        Raises:
            Overloaded: too many requests; says when to try again.
        """
        config = self._config
        if request.method in config.methods and not self._bucket(request).take():
            raise Overloaded(
                f"too many requests: more than {config.per_second:g} a second", retry_after=1 / config.per_second
            )
        return await proceed()

    def _bucket(self, request: RequestView) -> TokenBucket:
        who: str | None = None
        if self._config.by == "caller":
            who = f"principal {request.principal.subject}" if request.principal is not None else request.session_id
        key = (who, request.method, request.name) if self._config.each else (who,)
        bucket = self._buckets.pop(key, None) or TokenBucket(self._config.per_second, self._config.burst)
        self._buckets[key] = bucket
        if len(self._buckets) > _CALLERS:
            self._buckets.popitem(last=False)
        return bucket


@hookimpl
def configuration() -> type[RateLimitConfig]:
    return RateLimitConfig


@hookimpl
def register_objects(register: Callable[[object], None], config: RateLimitConfig) -> None:
    register(RateLimit(config))
