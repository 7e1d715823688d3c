"""The local zone: the configured one, otherwise that of the machine; the start never fails."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import mcptrio_time
import pytest
import trio
from mcptrio_time import Clock, Config
from mcptrio_time.zones import Zones

from mcptrio import Server, connect
from mcptrio.errors import PluginError
from mcptrio.serving import ServerSettings

START = """
import json, logging, os, sys, time
from mcptrio_time import Clock, Config

warned = []
handler = logging.Handler()
handler.emit = lambda record: warned.append(record.getMessage())
logging.getLogger().addHandler(handler)
for zone in json.loads(sys.argv[1]):
    os.environ.pop("TZ", None)
    if zone is not None:
        os.environ["TZ"] = zone
    time.tzset()
    warned.clear()
    clock = Clock(Config())
    offset = clock.now().astimezone(clock.local.info).strftime("%z")
    print(json.dumps([clock.local.name, offset, time.strftime("%z"), list(warned)]))
"""
"""A separate process, because TZ applies to the whole process."""

ZONES = {
    "Asia/Tokyo": ("Asia/Tokyo", False),
    ":Europe/Berlin": ("Europe/Berlin", False),
    "/usr/share/zoneinfo/Europe/Paris": ("Europe/Paris", False),
    "Eastern Standard Time": ("America/New_York", False),
    "EST5EDT": ("EST5EDT", False),
    "EDT": ("UTC", True),
    "WEST": ("UTC", True),
    "<+03>-3": ("UTC+03:00", True),
    "PST8PDT,M3.2.0,M11.1.0": (None, True),
    "Europe/Nowhere": ("UTC", True),
    "../../x": ("UTC", True),
    "": (None, False),
    None: (None, False),
}
"""TZ, the expected name of the zone (``None`` for that of the C library), and whether the log reports TZ as invalid."""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no TZ")
async def test_plugin_starts_with_any_tz_variable() -> None:
    with trio.fail_after(60):
        done = await trio.run_process(
            [sys.executable, "-W", "error", "-c", START, json.dumps(list(ZONES))], capture_stdout=True
        )

    lines = [json.loads(line) for line in done.stdout.splitlines()]
    for (zone, (name, warns)), (found, offset, of_process, warned) in zip(ZONES.items(), lines, strict=True):
        if name is None:
            assert offset == of_process, zone
        else:
            assert found == name, zone
        assert any("names no time zone" in message for message in warned) is warns, zone


@pytest.mark.parametrize("name", ["Europe/Berlin", "W. Europe Standard Time", "europe/berlin"])
def test_configured_zone_takes_precedence(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert Clock(Config(local_timezone=name)).local.name == "Europe/Berlin"
    assert Clock(Config()).local.name == "Asia/Tokyo"


@pytest.mark.parametrize(
    ("settings", "failure"),
    [
        ({"local_timezone": "EDT"}, "unknown time zone 'EDT' at `local_timezone`; it is an abbreviation"),
        ({"local_timezone": "Europe/Berln"}, "did you mean Europe/Berlin"),
        ({"local_timezone": ""}, "expected a time zone"),
        ({"max_limit": 0}, "max_limit"),
    ],
)
def test_invalid_setting_is_an_error(settings: dict[str, Any], failure: str) -> None:
    with pytest.raises(PluginError, match=failure):
        Server(plugins=[mcptrio_time], config={"mcptrio_time": settings}, settings=ServerSettings(strict=True))


async def test_table_is_converted_to_the_settings() -> None:
    server = Server(
        plugins=[mcptrio_time],
        config={"mcptrio_time": {"local_timezone": "Asia/Tokyo"}},
        settings=ServerSettings(strict=True),
    )
    async with server.open(), connect(server) as client:
        result = await client.call_tool("get_current_time")
    assert result.structured_content["timezone"] == "Asia/Tokyo"


def test_every_zone_and_windows_name_is_found() -> None:
    zones = Zones()
    for name in (*zones.names, *zones.all_windows_names):
        found = zones.get(name)
        assert found is not None, name
        assert found.name in zones.names
    assert len(zones.all_windows_names) > 130
