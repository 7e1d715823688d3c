"""The classes of the protocol, found in all modules of the model."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from mcptrio.protocol import model

MODULES = [import_module(f"{model.__name__}.{each.name}") for each in pkgutil.iter_modules(model.__path__)]
CLASSES: list[type] = sorted(
    {value for module in MODULES for value in vars(module).values() if hasattr(value, "__history__")},
    key=lambda cls: cls.__name__,
)
