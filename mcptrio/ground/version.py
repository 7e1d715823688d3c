"""The version of mcptrio, for the modules that send it to a peer."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
