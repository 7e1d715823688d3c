"""The local zone: as configured, else as the machine has it, and never a crash at the start."""

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
"""A process of its own, for TZ is the whole process's."""

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
"""TZ to the name of the zone, ``None`` for that of the C library; and whether the log says that it is not one."""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no TZ")
async def test_whatever_tz_says_the_plugin_starts() -> None:
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
def test_the_operators_zone_wins(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert Clock(Config(local_timezone=name)).local.name == "Europe/Berlin"
    assert Clock(Config()).local.name == "Asia/Tokyo"


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"local_timezone": "EDT"}, "unknown time zone 'EDT' @ local_timezone; it is an abbreviation"),
        ({"local_timezone": "Europe/Berln"}, "did you mean Europe/Berlin"),
        ({"local_timezone": ""}, "expected a time zone"),
        ({"limit": 0}, "limit"),
        ({"limit": 700}, "expected a limit of at most max_limit, 600, got 700"),
    ],
)
def test_a_setting_that_does_not_fit_is_a_fault(settings: dict[str, Any], fault: str) -> None:
    with pytest.raises(PluginError, match=fault):
        Server(plugins=[mcptrio_time], config={"mcptrio_time": settings}, settings=ServerSettings(strict=True))


async def test_a_table_becomes_the_settings() -> None:
    server = Server(
        plugins=[mcptrio_time],
        config={"mcptrio_time": {"local_timezone": "Asia/Tokyo"}},
        settings=ServerSettings(strict=True),
    )
    async with server.open(), connect(server) as client:
        result = await client.call_tool("get_current_time")
    assert result.structured_content["timezone"] == "Asia/Tokyo"


def test_every_zone_and_every_windows_name_can_be_found() -> None:
    zones = Zones()
    for name in (*zones.names, *zones.all_windows_names):
        found = zones.get(name)
        assert found is not None, name
        assert found.name in zones.names
    assert len(zones.all_windows_names) > 130
