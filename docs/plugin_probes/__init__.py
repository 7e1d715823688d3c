"""What ``compare_plugins.py`` tries with each plugin and its reference server: a module for each."""

from __future__ import annotations

__all__: list[str] = []
