"""Minimal image and audio files in base64, as in content blocks.

The tools, resources and prompts with binary content use them.
"""

from __future__ import annotations

__all__ = ["PNG", "WAV"]

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
"""One red pixel."""

WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQIAAAAAAA=="
"""One silent sample: 8 kHz, 16 bit, mono."""
