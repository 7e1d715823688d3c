"""Public signatures name public classes: a program can import the class of each parameter, result and attribute."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

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
    *("mcptrio.abc", "mcptrio.errors", "mcptrio.testing"),
)
CHECKED = ("mcptrio.types", "mcptrio.host", "mcptrio.errors")


def public(namespaces: tuple[str, ...]) -> dict[str, Any]:
    modules = [importlib.import_module(each) for each in namespaces]
    return {f"{module.__name__}.{name}": getattr(module, name) for module in modules for name in module.__all__}


def callables(cls: type) -> Iterator[Callable[..., Any]]:
    """The public methods and properties of a class, and what makes an instance."""
    for name, value in vars(cls).items():
        if name == "__init__" or not name.startswith("_"):
            found = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            if inspect.isfunction(found):
                yield inspect.unwrap(found)


def annotations(value: Any) -> Iterator[tuple[str, Any]]:
    """The module in which an annotation was written, and the annotation."""
    functions = list(callables(value)) if inspect.isclass(value) else [value] if inspect.isfunction(value) else []
    for function in functions:
        yield from ((function.__module__, each) for each in inspect.get_annotations(function).values())
    if inspect.isclass(value):
        fields = inspect.get_annotations(value).items()
        yield from ((value.__module__, each) for name, each in fields if not name.startswith("_"))


def resolved(module: ModuleType, name: str) -> Any:
    """What a name of an annotation stands for, also where only type checkers import it."""
    if hasattr(module, name):
        return getattr(module, name)
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ImportFrom) and name in {alias.asname or alias.name for alias in node.names}:
            return getattr(importlib.import_module(node.module or ""), name, None)
    return None


def classes(value: Any) -> Iterator[type]:
    """The classes of mcptrio in the signatures of a class or a function, and the bases of a class."""
    if inspect.isclass(value):
        yield from (base for base in value.__bases__ if not base.__name__.startswith("_"))
    for home, annotation in annotations(value):
        text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
        for node in ast.walk(ast.parse(text, mode="eval")):
            if isinstance(node, ast.Name) and inspect.isclass(
                found := resolved(importlib.import_module(home), node.id)
            ):
                yield found


def unnamed(value: Any, named: list[Any]) -> set[str]:
    """The classes of mcptrio in the signatures of a value that have no public name."""
    ours = (each for each in classes(value) if each.__module__.startswith("mcptrio"))
    return {f"{each.__module__}.{each.__name__}" for each in ours if not any(each is other for other in named)}


@pytest.mark.parametrize("namespace", CHECKED)
def test_classes_in_public_signatures_have_a_public_name(namespace: str) -> None:
    named = list(public(NAMESPACES).values())
    found = {name: unnamed(value, named) for name, value in public((namespace,)).items()}

    assert {name: missing for name, missing in found.items() if missing} == {}


def test_class_without_a_public_name_is_found() -> None:
    named = public(NAMESPACES)
    tool = named.pop("mcptrio.types.Tool")

    assert unnamed(named["mcptrio.host.HostTool"], list(named.values())) == {f"{tool.__module__}.Tool"}


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
