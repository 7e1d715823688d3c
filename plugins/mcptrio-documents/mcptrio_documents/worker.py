"""The process that converts one document: it reads an order, limits itself, reads the file, and writes the result.

``DocumentConverter`` starts it. It runs libraries on files that may be malicious. The kernel ends the process if it
takes too much memory or time, and it can neither write files nor read the server's environment.

Source: setrlimit(2).
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable

import msgspec

from .document import ConversionOrder, PagedDocument, UnreadableDocument
from .kinds import kind_of

# Windows does not have this module.
if sys.platform != "win32":
    import resource

__all__ = ["main"]

_MIB = 1024 * 1024
# Importing a library takes a tenth of a second or more, so only the one for the document is imported.
_READERS = {
    "pdf": ("pdf", "read_pdf"),
    "docx": ("office", "read_docx"),
    "pptx": ("office", "read_pptx"),
    "xlsx": ("office", "read_xlsx"),
    "odt": ("books", "read_odt"),
    "epub": ("books", "read_epub"),
    "html": ("plain", "read_html"),
    "csv": ("plain", "read_csv"),
}


def main() -> None:
    """Convert standard input, and write ``{"document": …}`` or ``{"error": …}`` to standard output."""
    output = sys.stdout.buffer
    # Text that a library prints must not become part of the result.
    sys.stdout = sys.stderr
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=ConversionOrder)
    _limit(order)
    data = sys.stdin.buffer.read()
    try:
        result: dict[str, object] = {"document": _read(data, order)}
    except UnreadableDocument as error:
        result = {"error": str(error)}
    except MemoryError:
        result = {"error": f"reading the document took more than {order.process_memory_mb} MiB of memory"}
    except RecursionError:
        result = {"error": "the document is nested too deeply"}
    except Exception as error:
        # Libraries raise errors of any kind on damaged files.
        result = {"error": f"the file is damaged: {type(error).__name__}: {str(error)[:200]}"}
    output.write(msgspec.json.encode(result))
    output.flush()


def _read(data: bytes, order: ConversionOrder) -> PagedDocument:
    module, name = _READERS[kind_of(data, order.name)]
    read: Callable[[bytes, ConversionOrder], PagedDocument]
    read = getattr(importlib.import_module(f"{__package__}.{module}"), name)
    return read(data, order)


def _limit(order: ConversionOrder) -> None:
    """Limit this process, with hard limits that it cannot raise again."""
    if sys.platform == "win32":
        return
    size = order.process_memory_mb * _MIB
    limits = [
        (resource.RLIMIT_AS, size),
        (resource.RLIMIT_CPU, order.max_cpu_seconds),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ]
    for kind, limit in limits:
        resource.setrlimit(kind, (limit, limit))
