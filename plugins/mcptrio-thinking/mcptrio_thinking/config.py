"""The operator's settings: ``[plugins.thinking]`` in mcptrio.toml, and the environment.

mcptrio creates a Config when it loads the plugin. ``MCPTRIO_THINKING_<KEY>`` in the environment overrides the file.
Stored thoughts are limited in number, bytes and time.
"""

from __future__ import annotations

from attrs import field, frozen
from attrs.validators import and_, ge, le

__all__ = ["Config"]

_MIB = 1024 * 1024


@frozen(kw_only=True)
class Config:
    """The settings of the plugin. Sizes are bytes, times seconds."""

    max_thought_bytes: int = field(default=20_000, validator=and_(ge(100), le(_MIB)))
    """Maximum size of a thought; 100 to 1 MiB."""

    max_thoughts: int = field(default=500, validator=and_(ge(1), le(100_000)))
    """Maximum thoughts of one sequence; 1 to 100000. When there are more, the earliest are dropped."""

    max_branches: int = field(default=50, validator=and_(ge(1), le(1000)))
    """Maximum branches of one sequence; 1 to 1000. Further ones are refused."""

    max_sequences: int = field(default=50, validator=and_(ge(1), le(10_000)))
    """Maximum sequences of one caller; 1 to 10000. When there are more, the least recently used one is deleted."""

    max_bytes: int = field(default=2 * _MIB, validator=and_(ge(10_000), le(1024 * _MIB)))
    """Maximum size of all sequences of one caller; 10000 to 1 GiB. When a thought needs room, the least recently used
    sequences are deleted, then the earliest thoughts of its own sequence."""

    max_callers: int = field(default=100, validator=and_(ge(1), le(100_000)))
    """Maximum callers whose sequences are stored; 1 to 100000. When there are more, those of the caller that has not
    added a thought for longest are deleted."""

    ttl: float = field(default=86_400.0, validator=and_(ge(1), le(31_536_000)))
    """Seconds for which an unused sequence is stored; 1 to a year."""

    max_answer_thoughts: int = field(default=100, validator=and_(ge(1), le(10_000)))
    """Maximum thoughts in one result of get_sequence; 1 to 10000."""

    max_answer_bytes: int = field(default=32_000, validator=and_(ge(1000), le(10 * _MIB)))
    """Maximum size of the thoughts in one result of get_sequence, and in the transcript; 1000 to 10 MiB. A thought is
    never truncated, so a result with one thought may be larger."""
