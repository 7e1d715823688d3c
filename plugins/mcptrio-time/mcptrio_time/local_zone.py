"""The local zone: the configured one, or the machine's.

``Clock`` calls it when the plugin is registered. The machine's value may be anything (a Windows name, EDT, a POSIX
rule, nothing) and never prevents the start; the operator's value must be valid.

Source: POSIX, "Environment Variables", TZ; localtime(5); the package tzlocal.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from mcptrio.errors import ConfigError, ToolError

from .zones import Zone, Zones, fixed_zone

__all__ = ["find_local"]

logger = logging.getLogger(__name__)

_LOCALTIME = Path("/etc/localtime")


def find_local(zones: Zones, configured: str | None, environ: Mapping[str, str] | None = None) -> Zone:
    """Return the local zone.

    Args:
        configured: The operator's zone; without it, the machine's is used.
        environ: The environment; by default ``os.environ``.

    Raises:
        ConfigError: The operator's zone is unknown. The message has suggestions.
    """
    if configured is not None:
        try:
            return zones.find(configured, "local_timezone")
        except ToolError as error:
            raise ConfigError(str(error)) from error
    variable = (os.environ if environ is None else environ).get("TZ", "").strip()
    if variable:
        zone = zones.get(_zone_name_in(variable))
        if zone is None:
            zone = _process_zone()
            logger.warning(
                "TZ=%s names no time zone; its offset now, %s, is used; set local_timezone", variable, zone.name
            )
        return zone
    zone = _machine_zone(zones)
    if zone is None:
        zone = _process_zone()
        logger.warning(
            "no time zone is set on this machine; its offset now, %s, is used; set local_timezone", zone.name
        )
    return zone


def _zone_name_in(variable: str) -> str:
    """Return the zone name in a value of TZ, such as ``:Europe/Berlin`` or ``/usr/share/zoneinfo/Europe/Berlin``."""
    text = variable.removeprefix(":")
    if not os.path.isabs(text):
        return text
    # The target of a link such as /etc/localtime contains the name of the zone.
    for path in (text, os.path.realpath(text)):
        _, separator, name = path.partition("/zoneinfo/")
        if separator:
            return name
    return text


def _machine_zone(zones: Zones) -> Zone | None:
    import tzlocal

    try:
        name = tzlocal.get_localzone_name()
    except (LookupError, ValueError, OSError) as error:
        logger.warning("the time zone of this machine cannot be told: %s", error)
        return None
    zone = zones.get(name) if name else None
    return zone or _file_zone(_LOCALTIME)


def _file_zone(path: Path) -> Zone | None:
    """Return a zone without a name: the file may be a copy instead of a link."""
    from zoneinfo import ZoneInfo

    try:
        with path.open("rb") as file:
            return Zone("local", ZoneInfo.from_file(file, key="local"))
    except (OSError, ValueError):
        return None


def _process_zone() -> Zone:
    """Return a zone with the current offset of the C library. It ignores daylight saving time."""
    return fixed_zone(timedelta(seconds=time.localtime().tm_gmtoff))
