"""Keys and results of ``ctx.once``. A replay must make the same key, and get the same result from JSON."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import orjson

__all__ = ["named_effect"]


def named_effect(
    effect: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], key: str | None
) -> tuple[str, Callable[[], Awaitable[Any]]]:
    """Return the key of an effect, and a function that runs it.

    Args:
        key: The key of the effect; by default, its name and its arguments.

    Raises:
        TypeError: An argument without a ``key`` is not a JSON value. The function raises it if the result is not one.
    """
    name = f"{getattr(effect, '__module__', '')}:{getattr(effect, '__qualname__', type(effect).__name__)}"
    if key is None:
        # Not repr(), which contains the address of most objects, and would differ in a replay.
        arguments: Any = [list(args), kwargs] if kwargs else list(args)
        key = name + json.dumps(_as_json(arguments, f"the arguments of {name}, or a key=..."), sort_keys=True)

    async def run() -> Any:
        done = effect(*args, **kwargs)
        value = await done if isinstance(done, Awaitable) else done
        result = _as_json(value, f"the result of {name}")
        # After a replay, a tuple would be a list, for example, so the result would not have the annotated type.
        if result != value:
            raise TypeError(
                f"ctx.once: expected JSON values as the result of {name} (lists for tuples, and text as keys),"
                f" got {type(value).__name__} with others"
            )
        return result

    return key, run


def _as_json(value: Any, what: str) -> Any:
    """Return the value as a replay would get it.

    Raises:
        TypeError: The value has no JSON form.
    """
    try:
        # json refuses NaN; orjson refuses integers of more than 64 bits and lone surrogates.
        return orjson.loads(orjson.dumps(json.loads(json.dumps(value, allow_nan=False))))
    except (TypeError, ValueError) as error:
        raise TypeError(f"ctx.once: expected JSON values as {what}, got {type(value).__name__}: {error}") from error
