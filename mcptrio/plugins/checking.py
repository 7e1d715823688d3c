"""Checks whether an object can be a plugin or a part of one, before any of its functions is called."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from mcptrio.capabilities.decorators import marks_of
from mcptrio.ground.suggestions import did_you_mean
from mcptrio.plugins.hooks import HOOKS, Hooks

__all__ = ["check_kind", "check_plugin", "find_plugin", "hooks_in", "warnings_about"]

# Options of pluggy that change the order of hooks. They have no effect, because a server calls one plugin at a time.
_UNSUPPORTED_OPTIONS = ("wrapper", "hookwrapper", "tryfirst", "trylast")


def check_kind(plugin: object) -> None:
    """Check that an object is a module, class or instance, which can be a plugin.

    Raises:
        TypeError: It is a function, a text or a list, which cannot be a plugin.
    """
    if inspect.isroutine(plugin):
        name = getattr(plugin, "__name__", "function")
        raise TypeError(
            f"expected a module, class or object as a plugin, got the function {name}: pass its module, or call"
            f" server.add_tool({name})"
        )
    if isinstance(plugin, str):
        raise TypeError(
            f"expected a module, class or object as a plugin, got the string {plugin!r}: import the module and pass"
            " that"
        )
    if plugin is None or isinstance(plugin, bytes | int | float | list | tuple | dict | set):
        raise TypeError(f"expected a module, class or object as a plugin, got {type(plugin).__name__}")


def check_plugin(plugin: object) -> None:
    """Check that an object can be a plugin, and that its hooks are valid.

    Raises:
        TypeError: It cannot be a plugin, or a hook is not a plain function.
        ValueError: A hook is misspelled.
    """
    check_kind(plugin)
    for name, hook, options in hooks_in(plugin):
        if hook not in HOOKS:
            # pluggy ignores unknown hooks, so a misspelled hook would have no effect.
            hint = did_you_mean(hook, HOOKS)
            raise ValueError(f"expected one of the hooks {', '.join(HOOKS)}, got `{hook}`{hint}")
        value = _unwrap_method(inspect.getattr_static(plugin, name))
        if inspect.iscoroutinefunction(value) or (hook != "lifespan" and inspect.isasyncgenfunction(value)):
            # pluggy calls hooks synchronously, so a coroutine would never run.
            raise TypeError(f"hook `{name}`: expected a plain function, got an async one")
        _check_parameters(name, hook, value)
        if option := next((option for option in _UNSUPPORTED_OPTIONS if options[option]), None):
            raise TypeError(f"hook `{name}`: expected @hookimpl without {option}, got {option}={options[option]!r}")


def find_plugin(loaded: object) -> object:
    """Return the plugin in a loaded object: the object itself, or a module's only class with marks or hooks.

    Raises:
        ValueError: There is nothing to serve: no decorated function and no hook.
    """
    if _has_marks_or_hooks(loaded):
        return loaded
    classes = _classes(loaded) if inspect.ismodule(loaded) else []
    if len(classes) == 1:
        return classes[0]
    if classes:
        names = [each.__name__ for each in classes]
        raise ValueError(
            f"nothing to serve: expected one class with decorated methods, got {', '.join(names)}; "
            f"write a setup hook that calls server.add with each object, such as server.add({names[0]}())"
        )
    raise ValueError("nothing to serve: no function is decorated; write @tool, @resource or @prompt above one")


def warnings_about(plugin: object) -> Iterator[str]:
    """Yield a warning about classes of a module whose decorated methods are not served, and one about each function
    that looks like a hook without the decorator."""
    classes = _classes(plugin) if inspect.ismodule(plugin) and next(hooks_in(plugin), None) is None else []
    if classes:
        listed = "; ".join(
            f"class {each.__name__} has decorated methods ({', '.join(_methods(each))})" for each in classes
        )
        call = f"server.add({classes[0].__name__}())"
        yield f"{listed}, but no instance is registered: write a setup hook that calls {call}"
    marked = {function.__name__ for function, _ in marks_of(plugin)}
    for name in HOOKS:
        if name not in marked and _resembles_hook(name, _unwrap_method(inspect.getattr_static(plugin, name, None))):
            yield f"`{name}` is not called, because it has no decorator: write @hookimpl above it"


def hooks_in(plugin: object) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the functions of a plugin that are marked as hooks: name, hook, and pluggy's options."""
    for name in dir(plugin):
        # getattr_static(), because reading a property would run the plugin's code.
        options = getattr(_unwrap_method(inspect.getattr_static(plugin, name, None)), "mcptrio_impl", None)
        if isinstance(options, dict):
            yield name, options["specname"] or name, options


def _unwrap_method(value: Any) -> Any:
    """Return the function of a class method or static method, or any other value unchanged."""
    return getattr(value, "__func__", value)


def _resembles_hook(name: str, function: object) -> bool:
    """Return whether a function without a decorator takes only parameters of the hook with its name, and at least
    one."""
    if not inspect.isfunction(function) or hasattr(function, "mcptrio_impl"):
        return False
    parameters = [each for each in inspect.signature(function).parameters if each not in ("self", "cls")]
    return bool(parameters) and set(parameters) <= set(inspect.signature(getattr(Hooks, name)).parameters)


def _check_parameters(name: str, hook: str, function: Any) -> None:
    """Check that a hook has only parameters that the server passes.

    Raises:
        TypeError: The hook has a parameter that no server passes. pluggy's own error would be hard to understand.
    """
    passed = [each for each in inspect.signature(getattr(Hooks, hook)).parameters if each != "self"]
    for parameter in inspect.signature(function).parameters.values():
        is_needed = parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
        # `self` and `cls` are bound before the hook is called.
        if is_needed and parameter.name not in ("self", "cls", *passed):
            raise TypeError(f"hook `{name}`: expected parameters among {', '.join(passed)}, got `{parameter}`")


def _has_marks_or_hooks(plugin: object) -> bool:
    """Return whether an object has decorated functions or hooks."""
    return next(marks_of(plugin), None) is not None or next(hooks_in(plugin), None) is not None


def _classes(module: Any) -> list[type]:
    """Return the module's own classes that have marks or hooks."""
    classes = (each for each in list(vars(module).values()) if inspect.isclass(each))
    # Classes that the module only imports belong to other modules.
    return [each for each in classes if each.__module__ == module.__name__ and _has_marks_or_hooks(each)]


def _methods(cls: type) -> list[str]:
    """Return the names of the decorated methods of a class."""
    return list(dict.fromkeys(function.__name__ for function, _ in marks_of(cls)))
