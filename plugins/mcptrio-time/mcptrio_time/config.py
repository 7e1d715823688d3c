"""The settings of the operator: ``[plugins.time]`` in mcptrio.toml.

The loader or an embedding program makes it. A configured zone must exist, so that no user gets the time of another
place; a zone that was found on the machine may be unknown.
"""

from __future__ import annotations

from attrs import field, frozen
from attrs.validators import ge, le

__all__ = ["Config"]


@frozen(kw_only=True)
class Config:
    """The settings of the plugin."""

    local_timezone: str | None = None
    """The zone of the people who ask: an IANA name such as Europe/Berlin, or one of Windows. Unset: the machine's."""

    max_limit: int = field(default=250, validator=[ge(1), le(1000)])
    """The most zones that a call may ask for, 1 to 1000."""

    def __attrs_post_init__(self) -> None:
        if self.local_timezone is not None and not self.local_timezone.strip():
            raise ValueError("expected a time zone such as Europe/Berlin as local_timezone, got nothing")
