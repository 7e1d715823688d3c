"""The table ``[telemetry]``, and the variables of OpenTelemetry that switch telemetry on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import field, frozen

__all__ = ["TelemetryTable", "is_export_configured"]

_ENDPOINTS: Final = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
)


def _check_url(_table: object, _attribute: object, value: str | None) -> None:
    if value is not None and not value.startswith(("http://", "https://")):
        raise ValueError(f"endpoint: expected an http or https URL, got {value!r}")


@frozen(kw_only=True)
class TelemetryTable:
    """The table ``[telemetry]``.

    Args:
        endpoint: The URL of an OTLP collector, such as ``http://localhost:4318``, to which traces and metrics go.
        content: True to record arguments and results of tools in spans, without secrets.
        metrics_scope: The scope of ``[auth]`` that a token needs for ``/metrics`` on the HTTP port.
        details: True to make spans of store operations.
    """

    endpoint: str | None = field(default=None, validator=_check_url)
    content: bool = False
    details: bool = False
    metrics_scope: str = "metrics"


def is_export_configured(table: TelemetryTable, environ: Mapping[str, str]) -> bool:
    """Return whether the table or the environment asks for an exporter."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    return table.endpoint is not None or any(environ.get(name) for name in _ENDPOINTS)
