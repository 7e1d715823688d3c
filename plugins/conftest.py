"""Fixtures for the tests of every first-party plugin."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from tests.leaks import adopt_orphans, nothing_left

__all__ = ["nothing_left"]

adopt_orphans()

# An example that a busy machine takes long for is no failure.
settings.register_profile("patient", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
