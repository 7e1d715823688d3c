"""The reasons that clients get for a mounted server's errors.

The relay and the status of a mount use this. The log has the full reason.
"""

from __future__ import annotations

from mcptrio.ground.last_words import without_last_words

__all__ = ["describe_reason"]

_SERVER = "the server "


def describe_reason(reason: str, *, is_own: bool) -> str:
    """Return a reason for clients: without standard error, where the program may have written secrets.

    Args:
        is_own: whether the mounted server is the process of one of our isolated plugins, and is called that.
    """
    text = without_last_words(reason)
    if not is_own:
        # A process of ours is a detail of isolation; for a client, the plugin has failed.
        return text
    # Python's own message is empty, and an operator has to know that max_memory_mb was reached.
    hint = " (out of memory)" if "MemoryError" in reason else ""
    return text.replace(_SERVER, "the plugin's process ", 1) + hint
