"""Public signatures name public types: a program can import the type of each parameter, result and attribute."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from typing import Any, ParamSpec, TypeVar, get_args

import pytest

from mcptrio.types import (
    CreateMessageParams,
    Params,
    PromptsCapability,
    ResourcesCapability,
    SamplingMessage,
    ServerCapabilities,
    TextContent,
    ToolsCapability,
)

__all__: list[str] = []

NAMESPACES = (
    *("mcptrio", "mcptrio.types", "mcptrio.serving", "mcptrio.client", "mcptrio.host", "mcptrio.auth"),
    *("mcptrio.auth.jose", "mcptrio.auth.urls", "mcptrio.abc", "mcptrio.errors", "mcptrio.net", "mcptrio.schema"),
    *("mcptrio.stores", "mcptrio.telemetry"),
    *("mcptrio.testing", "mcptrio.plugins.middleware"),
)
"""The modules that programs import from."""


def public(namespace: str) -> dict[str, Any]:
    module = importlib.import_module(namespace)
    return {f"{namespace}.{name}": getattr(module, name) for name in module.__all__}


def callables(cls: type) -> Iterator[Callable[..., Any]]:
    """The public methods and properties of a class, and its constructor unless its docstring says ``Made by``."""
    for name, value in vars(cls).items():
        if (name == "__init__" and "Made by" not in (cls.__doc__ or "")) or not name.startswith("_"):
            found = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            found = found.func if isinstance(found, cached_property) else found
            if inspect.isfunction(found):
                yield inspect.unwrap(found)


def annotations(value: Any) -> Iterator[tuple[str, Any]]:
    """The module in which an annotation was written, and the annotation."""
    functions = list(callables(value)) if inspect.isclass(value) else [value] if inspect.isfunction(value) else []
    for function in map(inspect.unwrap, functions):
        yield from ((function.__module__, each) for each in inspect.get_annotations(function).values())
    if inspect.isclass(value):
        fields = inspect.get_annotations(value).items()
        yield from ((value.__module__, each) for name, each in fields if not name.startswith("_"))


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(importlib.import_module(module)))


@cache
def definition(module: str, name: str) -> str | None:
    """The module of mcptrio that defines a name of a module, and the name there; ``None`` for a name of others."""
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if name == (alias.asname or alias.name):
                    home = node.module or ""
                    return definition(home, alias.name) if home.split(".")[0] == "mcptrio" else None
        elif isinstance(node, ast.Import) and name in {alias.asname or alias.name for alias in node.names}:
            return None
    return f"{module}.{name}" if name in vars(importlib.import_module(module)) else None


def names(value: Any) -> Iterator[str]:
    """The classes and aliases of mcptrio in the signatures of a value, in an alias, and the bases of a class."""
    if inspect.isclass(value):
        bases = [each for base in value.__bases__ for each in (base.__bases__ if implements(base) else (base,))]
        yield from (f"{base.__module__}.{base.__name__}" for base in bases if base.__name__[0] != "_")
    else:
        yield from (f"{each.__module__}.{each.__name__}" for each in parts(value))
    for home, annotation in annotations(value):
        text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
        for node in ast.walk(ast.parse(text, mode="eval")):
            found = definition(home, node.id) if isinstance(node, ast.Name) else None
            if found is not None and not is_variable(found):
                yield found


def implements(base: type) -> bool:
    """Whether a class only implements what its own base declares, so that a reader needs the base alone."""
    public = {name for name in vars(base) if not name.startswith("_")}
    return any(public and inspect.isabstract(each) and public <= set(dir(each)) for each in base.__bases__)


def parts(alias: Any) -> Iterator[type]:
    """The classes in an alias of types."""
    for part in get_args(alias):
        for each in part if isinstance(part, list) else (part,):
            if inspect.isclass(each):
                yield each
            yield from parts(each)


def is_variable(name: str) -> bool:
    module, _, own = name.rpartition(".")
    return isinstance(getattr(importlib.import_module(module), own), TypeVar | ParamSpec)


def unnamed(value: Any, named: set[str]) -> set[str]:
    """The classes and aliases of mcptrio in the signatures of a value that have no public name."""
    return {each for each in names(value) if each.split(".")[0] == "mcptrio"} - named


@cache
def everything() -> set[str]:
    """The definition of each public name."""
    return {definition(module, name) or "" for module in NAMESPACES for name in importlib.import_module(module).__all__}


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_types_in_public_signatures_have_a_public_name(namespace: str) -> None:
    found = {name: unnamed(value, everything()) for name, value in public(namespace).items()}

    assert {name: missing for name, missing in found.items() if missing} == {}


@pytest.mark.parametrize(
    ("user", "type"),
    [
        ("mcptrio.host.HostTool", "mcptrio.protocol.model.tools.Tool"),
        ("mcptrio.host.ApprovalRequest", "mcptrio.host.approval.ApprovalKind"),
        ("mcptrio.types.ContentBlock", "mcptrio.protocol.model.content.TextContent"),
        ("mcptrio.connect", "mcptrio.connecting.targets.Target"),
    ],
)
def test_type_without_a_public_name_is_found(user: str, type: str) -> None:
    value = public(user.rpartition(".")[0])[user]

    assert type in everything()
    assert unnamed(value, everything() - {type}) == {type}


def test_nested_values_are_made_with_public_names() -> None:
    offered = ServerCapabilities(
        tools=ToolsCapability(list_changed=True),
        prompts=PromptsCapability(),
        resources=ResourcesCapability(subscribe=True),
    )
    asked = CreateMessageParams(
        messages=(SamplingMessage(role="user", content=(TextContent(text="Hi"),)),), max_tokens=10
    )

    assert offered.tools == ToolsCapability(list_changed=True)
    assert isinstance(asked, Params)
