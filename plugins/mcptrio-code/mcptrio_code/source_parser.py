"""Finds the definitions in a file that has no language server, with tree-sitter.

The tool ``outline`` uses it. Each file is parsed in a separate process, ``parsing_child.py``.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import trio
from attrs import field, frozen

from mcptrio import ToolError

from .folders import SourceText
from .grammars import Grammar
from .messages import TextPosition
from .symbols import SourceSymbol

__all__ = ["SourceParser"]

_CHILD: Final = str(Path(__file__).with_name("parsing_child.py"))
_MAX_PROCESSES: Final = 2
_MAX_SYMBOLS: Final = 100_000
_MAX_OUTPUT_BYTES: Final = 64 * 1024 * 1024
"""Enough for the maximum of symbols with names of 100 characters, which JSON escapes to six bytes each."""
_MEMORY_BYTES: Final = 2 * 1024 * 1024 * 1024
"""Parsing a text of 2 MiB takes about 200 MiB."""
_INHERITED_VARIABLES: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PATH", "LANG", "LC_ALL")
_TIMEOUT_EXIT_CODES: Final = (-getattr(signal, "SIGXCPU", signal.SIGTERM), -getattr(signal, "SIGKILL", signal.SIGTERM))


class _Result(msgspec.Struct):
    symbols: list[tuple[str, str, int, int, int, int]] = []
    error: str = ""


@frozen(eq=False)
class SourceParser:
    """Parses files, each in its own process.

    Attributes:
        timeout: Seconds for one file.
    """

    timeout: float
    _processes: trio.CapacityLimiter = field(init=False, factory=lambda: trio.CapacityLimiter(_MAX_PROCESSES))

    async def symbols(self, source: SourceText, grammar: Grammar, *, shown: str) -> list[SourceSymbol]:
        """Return the symbols of a text in order.

        Args:
            shown: The name of the file in messages.

        Raises:
            ToolError: Parsing exceeds the limits, or fails.
        """
        request = {
            "package": grammar.package,
            "function": grammar.function,
            "query": grammar.query,
            "max_symbols": _MAX_SYMBOLS,
            "memory": _MEMORY_BYTES,
            "seconds": math.ceil(self.timeout),
        }
        async with self._processes:
            with trio.move_on_after(self.timeout):
                result = await self._run(msgspec.json.encode(request) + b"\n" + source.text.encode(), shown)
                if result.error:
                    raise ToolError(f"{shown}: {result.error}")
                return _symbols_from(result)
        raise self._timeout_error(shown)

    async def _run(self, data: bytes, shown: str) -> _Result:
        environment = {name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ}
        # Relative entries of sys.path would be relative to another folder in the child.
        command = (sys.executable, "-I", _CHILD, *filter(os.path.isabs, sys.path))
        output = bytearray()
        async with trio.open_nursery() as nursery:
            process = await nursery.start(
                partial(
                    trio.run_process,
                    command,
                    stdin=data,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    check=False,
                    deliver_cancel=_kill,
                    env=environment,
                    cwd="/",
                )
            )
            async for chunk in process.stdout:
                output += chunk
                if len(output) > _MAX_OUTPUT_BYTES:
                    nursery.cancel_scope.cancel()
                    break
        if len(output) > _MAX_OUTPUT_BYTES:
            raise ToolError(f"{shown}: expected at most {_MAX_OUTPUT_BYTES} bytes of symbols, got more")
        if process.returncode in _TIMEOUT_EXIT_CODES:
            raise self._timeout_error(shown)
        if process.returncode != 0:
            raise ToolError(f"{shown}: tree-sitter ended with code {process.returncode}; does it need more memory?")
        return msgspec.json.decode(output, type=_Result)

    def _timeout_error(self, shown: str) -> ToolError:
        return ToolError(f"{shown}: parsing the file took longer than {self.timeout:g} seconds (request_timeout)")


async def _kill(process: trio.Process) -> None:
    process.kill()


def _symbols_from(result: _Result) -> list[SourceSymbol]:
    symbols: list[SourceSymbol] = []
    outer: list[tuple[str, str]] = []
    for kind, name, first, last, name_line, depth in result.symbols:
        del outer[depth:]
        symbols.append(
            SourceSymbol(
                names=(*(each for each, _ in outer), name),
                kind=kind.replace("_", " "),
                outer_kinds=tuple(each for _, each in outer),
                line=first,
                end_line=last,
                position=TextPosition(name_line, 0),
            )
        )
        outer.append((name, symbols[-1].kind))
    return symbols
