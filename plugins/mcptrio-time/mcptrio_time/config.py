"""The operator's settings: ``[plugins.time]`` in mcptrio.toml.

mcptrio or an embedding program creates a Config. A configured zone must exist, so that no user gets the time of another
place; a zone that the machine configures may be unknown.
"""

from __future__ import annotations

from attrs import field, frozen
from attrs.validators import ge, le

__all__ = ["Config"]


@frozen(kw_only=True)
class Config:
    """The settings of the plugin."""

    local_timezone: str | None = None
    """The users' time zone: an IANA name such as Europe/Berlin, or a Windows name. By default, that of the machine."""

    max_limit: int = field(default=250, validator=[ge(1), le(1000)])
    """Maximum zones in one result, 1 to 1000."""

    def __attrs_post_init__(self) -> None:
        if self.local_timezone is not None and not self.local_timezone.strip():
            raise ValueError("expected a time zone such as Europe/Berlin as local_timezone, got nothing")
