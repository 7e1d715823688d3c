"""What a server is made of, and how it gets into a child process.

Made by the fixtures from what a test says; opened by :mod:`mcptrio.testing.child`.
The one rule: modules, classes and functions travel by name, everything else as a copy; what cannot travel is refused in
the test's own process, by name.

Source: the Python library, pickle, "Persistence of External Objects".
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import pickle
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from attrs import field, frozen

from mcptrio.errors import ConfigError
from mcptrio.plugins.manager import PluginManager
from mcptrio.server import Server

__all__ = ["ServerSpec", "open_spec", "pickle_spec"]


@frozen(kw_only=True)
class ServerSpec:
    """
    Args:
        plugins: modules and objects; the names of installed plugins; paths of files.
        config: tables by plugin name.
        options: what else :class:`mcptrio.Server` takes, and ``strict``: whether a plugin that fails is an error; by
            default it is.
    """

    plugins: Sequence[Any] = ()
    config: Mapping[str, Mapping[str, Any]] = field(factory=dict)
    options: Mapping[str, Any] = field(factory=dict)

    def make(self) -> Server:
        """
        Raises:
            PluginError: a plugin fails, where the server is strict.
            ConfigError: a plugin is not installed or cannot be one, a file is not there, or the configuration is for
                none of them.
        """
        options = dict(self.options)
        manager = PluginManager(strict=options.pop("strict", True))
        if names := [each for each in self.plugins if isinstance(each, str)]:
            manager.load_installed(only=names)
        for each in self.plugins:
            if isinstance(each, Path):
                if not each.is_file():
                    raise ConfigError(f"mcp_plugins: no such file: {each}")
                manager.load_file(each)
            elif not isinstance(each, str):
                try:
                    manager.register(each)
                except TypeError as error:
                    raise ConfigError(f"mcp_plugins: {error}") from error
        there = [name for name, plugin in manager.plugins.items() if plugin.state != "disabled"]
        for name in self.config:
            if name not in there:
                known = ", ".join(there) or "none"
                raise ConfigError(f"mcp_config: expected the name of a plugin ({known}), got {name!r}")
        return Server(plugins=manager, config=self.config, **options)


@contextmanager
def pickle_spec(parts: ServerSpec) -> Iterator[Path]:
    """The parts in a file, which lasts as long as the context.

    Raises:
        ConfigError: a part cannot be taken to another process.
    """
    buffer = io.BytesIO()
    packer = _Packer(buffer)
    named = {"mcp_plugins": parts.plugins, "mcp_config": parts.config, "mcp_server_options": parts.options}
    for name, part in named.items():
        try:
            packer.dump(part)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ConfigError(
                f"{name}: over stdio the server is in another process, and this cannot be taken there: {error}; "
                "expected modules, names, paths, or objects that can be pickled"
            ) from error
    with tempfile.TemporaryDirectory(prefix="mcptrio-") as folder:
        file = Path(folder) / "parts"
        file.write_bytes(pickle.dumps((sys.path, packer.files, buffer.getvalue())))
        yield file


def open_spec(file: Path) -> ServerSpec:
    """The parts in a file that :func:`pickle_spec` has written. Imports what they need, from where it was."""
    path, files, data = pickle.loads(file.read_bytes())
    sys.path[:] = path
    unpacker = _Unpacker(io.BytesIO(data), files)
    return ServerSpec(plugins=unpacker.load(), config=unpacker.load(), options=unpacker.load())


class _Packer(pickle.Pickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.files: dict[str, str] = {}
        """The files of modules by name: those of tests often cannot be imported by it."""

    def persistent_id(self, obj: Any) -> str | None:
        if not isinstance(obj, ModuleType):
            return None
        self._note(obj.__name__)
        return obj.__name__

    def reducer_override(self, obj: Any) -> Any:
        module = getattr(obj, "__module__", None)
        if isinstance(module, str):
            self._note(module)
        return NotImplemented

    def _note(self, name: str) -> None:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is not None:
            self.files[name] = file


class _Unpacker(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, files: Mapping[str, str]) -> None:
        super().__init__(file)
        self._files = files

    def persistent_load(self, pid: str) -> ModuleType:
        return self._module(pid)

    def find_class(self, module_name: str, global_name: str) -> Any:
        self._module(module_name)
        return super().find_class(module_name, global_name)

    def _module(self, name: str) -> ModuleType:
        if name in sys.modules:
            return sys.modules[name]
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            missing = error.name or ""
            if name != missing and not name.startswith(missing + "."):
                raise
        return _load(name, self._files[name])


def _load(name: str, file: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"expected a Python file, got {file}", name=name)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
