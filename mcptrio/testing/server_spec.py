"""The description of a server under test, and its transfer to a child process.

The fixtures create a :class:`ServerSpec` from the declarations of a test, and :mod:`mcptrio.testing.child` opens it.
Modules, classes and functions are transferred by name, other objects as copies. An object that cannot be pickled is an
error in the process of the test.

Source: the Python library, pickle, "Persistence of External Objects".
"""

from __future__ import annotations

import importlib
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
from mcptrio.plugins.discovery import import_file
from mcptrio.plugins.manager import PluginManager
from mcptrio.server import Server

__all__ = ["ServerSpec", "open_spec", "pickle_spec"]


@frozen(kw_only=True)
class ServerSpec:
    """The description of a server under test.

    Args:
        plugins: Modules and objects; names of installed plugins; paths of files.
        config: Plugin settings by plugin name.
        options: Further arguments of :class:`mcptrio.Server`, and ``strict``: whether a plugin that fails is an error,
            by default True.
    """

    plugins: Sequence[Any] = ()
    config: Mapping[str, Mapping[str, Any]] = field(factory=dict)
    options: Mapping[str, Any] = field(factory=dict)

    def make(self) -> Server:
        """Create the server.

        Raises:
            PluginError: A plugin failed, and the server is strict.
            ConfigError: A plugin is not installed or is invalid, a file does not exist, or the configuration names an
                unknown plugin.
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
            # A string is the name of an installed plugin, which has been loaded above.
            elif not isinstance(each, str):
                try:
                    manager.register(each)
                except TypeError as error:
                    raise ConfigError(f"mcp_plugins: {error}") from error
        enabled = [name for name, plugin in manager.plugins.items() if plugin.state != "disabled"]
        for name in self.config:
            if name not in enabled:
                known = ", ".join(enabled) or "none"
                raise ConfigError(f"mcp_config: expected the name of a plugin ({known}), got {name!r}")
        return Server(plugins=manager, config=self.config, **options)


@contextmanager
def pickle_spec(spec: ServerSpec) -> Iterator[Path]:
    """Write a spec to a file that exists inside the context.

    Raises:
        ConfigError: A part cannot be transferred to another process.
    """
    buffer = io.BytesIO()
    packer = _Packer(buffer)
    by_fixture = {"mcp_plugins": spec.plugins, "mcp_config": spec.config, "mcp_server_options": spec.options}
    # Each part is pickled separately, so that the error names the fixture to change.
    for name, part in by_fixture.items():
        try:
            packer.dump(part)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ConfigError(
                f"{name}: over stdio the server is in another process, and this cannot be transferred to it: {error}; "
                "expected modules, names, paths, or objects that can be pickled"
            ) from error
    with tempfile.TemporaryDirectory(prefix="mcptrio-") as folder:
        file = Path(folder) / "spec"
        file.write_bytes(pickle.dumps((sys.path, packer.files, buffer.getvalue())))
        yield file


def open_spec(file: Path) -> ServerSpec:
    """Read a spec that :func:`pickle_spec` has written, and import its modules."""
    path, files, data = pickle.loads(file.read_bytes())
    # The child process imports from the same folders as the test, to which pytest may have added some.
    sys.path[:] = path
    unpacker = _Unpacker(io.BytesIO(data), files)
    return ServerSpec(plugins=unpacker.load(), config=unpacker.load(), options=unpacker.load())


class _Packer(pickle.Pickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.files: dict[str, str] = {}
        """The files of modules by name, because test modules often cannot be imported by name."""

    def persistent_id(self, obj: Any) -> str | None:
        if not isinstance(obj, ModuleType):
            return None
        self._note_file(obj.__name__)
        return obj.__name__

    def reducer_override(self, obj: Any) -> Any:
        module = getattr(obj, "__module__", None)
        if isinstance(module, str):
            self._note_file(module)
        # pickle itself packs the object.
        return NotImplemented

    def _note_file(self, name: str) -> None:
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
            # The module was found, but could not import another one.
            if name != missing and not name.startswith(missing + "."):
                raise
        return import_file(Path(self._files[name]), name)
