"""Finds the class of a plugin's settings: the annotation of its parameter ``config``.

A class has the parameter in ``__init__``, a module or an object in its hooks.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from mcptrio.plugins.checking import hooks_in

__all__ = ["settings_class", "takes_settings"]

_PLAIN_TABLE = (None, Any, dict, Mapping, inspect.Parameter.empty)
"""Annotations of plugins that take the table without a class."""


def settings_class(plugin: object) -> type | None:
    """Return the class of a plugin's settings; ``None`` if it has no settings or takes the plain table.

    Raises:
        TypeError: ``__init__`` needs other parameters, an annotation cannot be resolved, or two annotations differ.
    """
    classes: dict[type, str] = {}
    for function, name in _functions_with_config(plugin):
        annotation = _annotation(function, name)
        if (
            get_origin(annotation) in (Union, UnionType)
            and len(inner := [each for each in get_args(annotation) if each is not NoneType]) == 1
        ):
            (annotation,) = inner  # ``Config | None``
        if (get_origin(annotation) or annotation) not in _PLAIN_TABLE:
            classes.setdefault(annotation, name)
    if len(classes) > 1:
        names = ", ".join(f"{each.__name__} in {name}" for each, name in classes.items())
        raise TypeError(f"config: expected one class of settings, got {names}")
    return next(iter(classes), None)


def takes_settings(cls: type) -> bool:
    """Return whether ``__init__`` has the parameter ``config``."""
    return next(_functions_with_config(cls), None) is not None


def _functions_with_config(plugin: object) -> Iterator[tuple[Callable[..., Any], str]]:
    """Yield the functions with a parameter ``config``, with names for messages."""
    if not inspect.isclass(plugin):
        for name, _, _ in hooks_in(plugin):
            # The function below its decorators, whose wrappers have other parameters.
            function = inspect.unwrap(getattr(plugin, name))
            if "config" in inspect.signature(function).parameters:
                yield function, name
        return
    # A class without __init__ has no parameters.
    if plugin.__init__ is object.__init__:
        return
    name = f"{plugin.__name__}.__init__"
    _, *parameters = inspect.signature(plugin.__init__).parameters.values()
    for each in parameters:
        if each.name == "config" and each.kind is not each.KEYWORD_ONLY:
            yield plugin.__init__, name
        elif each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
            raise TypeError(
                f"{name}: expected no parameters but config, got {each.name}; "
                f"pass an object instead of the class, or give {each.name} a default"
            )


def _annotation(function: Any, name: str) -> Any:
    """Return the annotation of the parameter ``config``.

    Raises:
        TypeError: The annotation cannot be resolved.
    """
    function = getattr(function, "__func__", function)
    annotation = inspect.signature(function).parameters["config"].annotation
    if not isinstance(annotation, str):
        return annotation
    module = sys.modules.get(function.__module__)
    namespace = {**getattr(function, "__globals__", {}), **(vars(module) if module is not None else {})}
    try:
        # Not get_type_hints(), which would also resolve the function's other annotations, and may fail for them. The
        # text comes from the plugin's source, which has already been imported.
        return eval(annotation, namespace)
    except NameError as error:
        raise TypeError(
            f"{name}: config: expected an annotation that exists at run time, got {annotation!r}: {error}; "
            "import or define it at the top of the module, not under TYPE_CHECKING"
        ) from None
