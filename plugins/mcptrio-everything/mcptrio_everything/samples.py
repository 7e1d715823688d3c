"""The smallest files of their kinds, in base64 as content blocks carry them.

Used by the tools, resources and prompts that show binary content.
"""

from __future__ import annotations

__all__ = ["PNG", "WAV"]

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
"""One red pixel."""

WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQIAAAAAAA=="
"""One silent sample: 8 kHz, 16 bit, mono."""
