"""The settings of the operator: ``[plugins.thinking]`` in mcptrio.toml, and the environment.

mcptrio makes it when the plugin is loaded. Everything that is kept has bounds in number, bytes and time.

Source: ``MCPTRIO_THINKING_<KEY>`` in the environment overrides the file.
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
    """The longest thought; 100 to 1 MiB."""

    max_thoughts: int = field(default=500, validator=and_(ge(1), le(100_000)))
    """Thoughts of one sequence that are kept; 1 to 100000. When there are more, the earliest are dropped."""

    max_branches: int = field(default=50, validator=and_(ge(1), le(1000)))
    """Branches of one sequence; 1 to 1000. Each result names them all; another one is refused."""

    max_sequences: int = field(default=50, validator=and_(ge(1), le(10_000)))
    """Sequences of one caller; 1 to 10000. When there are more, the one unused for longest is forgotten."""

    max_bytes: int = field(default=2 * _MIB, validator=and_(ge(10_000), le(1024 * _MIB)))
    """Bytes of all sequences of one caller, 10000 to 1 GiB. The caller's older sequences are dropped to make room for a
    thought, then the earliest thoughts of its own."""

    max_callers: int = field(default=100, validator=and_(ge(1), le(100_000)))
    """Callers whose sequences are kept; 1 to 100000. When there are more, the one unheard of for longest is
    forgotten."""

    ttl: float = field(default=86_400.0, validator=and_(ge(1), le(31_536_000)))
    """Seconds after its last use that a sequence is kept; 1 to a year."""

    max_answer_thoughts: int = field(default=100, validator=and_(ge(1), le(10_000)))
    """Thoughts in one answer of get_sequence; 1 to 10000."""

    max_answer_bytes: int = field(default=32_000, validator=and_(ge(1000), le(10 * _MIB)))
    """Bytes of thoughts in one answer of get_sequence, and in the transcript; 1000 to 10 MiB. The first thought of an
    answer is always whole."""
