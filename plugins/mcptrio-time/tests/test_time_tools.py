"""The tools, called by a client."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

HINTS = ("read_only_hint", "destructive_hint", "idempotent_hint", "open_world_hint")


def four(result: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of the reference server."""
    return {name: result[name] for name in ("timezone", "datetime", "day_of_week", "is_dst")}


async def test_tools_of_the_reference_are_listed_with_the_local_zone(client) -> None:
    tools = {tool.name: tool async for tool in client.tools()}

    assert set(tools) == {
        *("get_current_time", "convert_time"),
        *("list_timezones", "parse_date", "time_difference", "add_duration"),
    }
    for tool in tools.values():
        assert tool.title
        assert tool.output_schema["type"] == "object"
        assert [getattr(tool.annotations, hint) for hint in HINTS] == [True, False, True, False]
    assert "The local time zone is Europe/Berlin." in tools["get_current_time"].description
    assert tools["convert_time"].input_schema["required"] == ["source_timezone", "time", "target_timezone"]


@pytest.mark.parametrize(
    ("timezone", "expected"),
    [
        (None, ("Europe/Berlin", "2026-07-15T12:20:30+02:00", "Wednesday", True)),
        ("local", ("Europe/Berlin", "2026-07-15T12:20:30+02:00", "Wednesday", True)),
        ("Asia/Tokyo", ("Asia/Tokyo", "2026-07-15T19:20:30+09:00", "Wednesday", False)),
        ("america/new york", ("America/New_York", "2026-07-15T06:20:30-04:00", "Wednesday", True)),
        ("Eastern Standard Time", ("America/New_York", "2026-07-15T06:20:30-04:00", "Wednesday", True)),
        ("India Standard Time", ("Asia/Kolkata", "2026-07-15T15:50:30+05:30", "Wednesday", False)),
        ("utc", ("UTC", "2026-07-15T10:20:30+00:00", "Wednesday", False)),
        ("Z", ("UTC", "2026-07-15T10:20:30+00:00", "Wednesday", False)),
        ("GMT-3", ("UTC-03:00", "2026-07-15T07:20:30-03:00", "Wednesday", False)),
        ("+14", ("UTC+14:00", "2026-07-16T00:20:30+14:00", "Thursday", False)),
        ("Etc/GMT+5", ("Etc/GMT+5", "2026-07-15T05:20:30-05:00", "Wednesday", False)),
    ],
)
async def test_current_time_is_returned_for_a_zone(call, timezone: str | None, expected: tuple[Any, ...]) -> None:
    result = await call("get_current_time", **({"timezone": timezone} if timezone else {}))

    assert tuple(four(result).values()) == expected
    assert result["epoch"] == 1784110830
    assert result["utc_offset"] == result["datetime"][-6:]


@pytest.mark.parametrize(
    ("timezone", "expected"),
    [
        ("IST", "used in Asia/Kolkata, Asia/Jerusalem, Europe/Dublin and maybe elsewhere"),
        ("EDT", "used in America/New_York"),
        ("west", "used in Europe/Lisbon"),
        ("Tokyo", "did you mean Asia/Tokyo?"),
        ("Switzerland", "did you mean Europe/Zurich?"),
        ("Europe/Berln", "did you mean Europe/Berlin"),
        ("America/San_Francisco", "expected an IANA name"),
        ("../../etc/passwd", "expected an IANA name"),
        ("/etc/localtime", "expected an IANA name"),
        ("a\0b", "expected an IANA name"),
        ("Europe", "expected an IANA name"),
        ("+19:00", "expected an IANA name"),
        (" ", "got nothing"),
    ],
)
async def test_unknown_timezone_error_suggests_alternatives(refusal, timezone: str, expected: str) -> None:
    message = await refusal("get_current_time", timezone=timezone)
    assert expected in message
    assert "at `timezone`" in message


@pytest.mark.parametrize(
    ("arguments", "source", "target", "difference"),
    [
        (
            ("Europe/Berlin", "9:05", "Asia/Tokyo"),
            ("2026-07-15T09:05:00+02:00", "Wednesday", True),
            ("2026-07-15T16:05:00+09:00", "Wednesday", False),
            "+7.0h",
        ),
        (
            ("Asia/Tokyo", "02:00", "Asia/Kathmandu"),
            ("2026-07-15T02:00:00+09:00", "Wednesday", False),
            ("2026-07-14T22:45:00+05:45", "Tuesday", False),
            "-3.25h",
        ),
        (
            # In the source time zone it is already the next day, and the time is taken as that day's.
            ("+14:00", "08:00:30", "UTC"),
            ("2026-07-16T08:00:30+14:00", "Thursday", False),
            ("2026-07-15T18:00:30+00:00", "Wednesday", False),
            "-14.0h",
        ),
        (
            ("Asia/Kolkata", "12:00", "local"),
            ("2026-07-15T12:00:00+05:30", "Wednesday", False),
            ("2026-07-15T08:30:00+02:00", "Wednesday", True),
            "-3.5h",
        ),
    ],
)
async def test_convert_time_matches_the_reference(call, arguments, source, target, difference: str) -> None:
    names = ("source_timezone", "time", "target_timezone")
    result = await call("convert_time", **dict(zip(names, arguments, strict=True)))

    assert tuple(four(result["source"]).values())[1:] == source
    assert tuple(four(result["target"]).values())[1:] == target
    assert result["time_difference"] == difference
    assert (result["ambiguous"], result["note"]) == (False, None)


async def test_convert_time_accepts_another_day(call) -> None:
    winter = await call(
        "convert_time", source_timezone="Europe/Berlin", time="12:00", target_timezone="UTC", date="2026-12-24"
    )
    whole = await call(
        "convert_time", source_timezone="Europe/Berlin", time="2026-12-24T11:00:00Z", target_timezone="Asia/Tokyo"
    )

    assert winter["target"]["datetime"] == "2026-12-24T11:00:00+00:00"
    assert whole["source"]["datetime"] == "2026-12-24T12:00:00+01:00"
    assert whole["target"]["datetime"] == "2026-12-24T20:00:00+09:00"


@pytest.mark.parametrize(
    ("zone", "date", "time", "instead"),
    [
        ("Europe/Berlin", "2026-03-29", "02:30", "03:30"),
        ("America/New_York", "2026-03-08", "02:00", "03:00"),
        ("Australia/Lord_Howe", "2026-10-04", "02:15", "02:45"),
        ("Pacific/Apia", "2011-12-30", "12:00", "12:00"),
    ],
)
async def test_skipped_local_time_is_refused(refusal, zone: str, date: str, time: str, instead: str) -> None:
    message = await refusal("convert_time", source_timezone=zone, time=time, target_timezone="UTC", date=date)
    assert message == (
        f"Invalid time: {time} does not exist in {zone} on {date} (skipped by a clock change) at `time`; "
        f"without the change it would be {instead}"
    )


async def test_repeated_time_is_reported_and_selectable(call) -> None:
    arguments = {"source_timezone": "Europe/Berlin", "target_timezone": "UTC", "time": "02:30", "date": "2026-10-25"}
    first = await call("convert_time", **arguments)
    second = await call("convert_time", **arguments, occurrence="second")

    assert first["target"]["datetime"] == "2026-10-25T00:30:00+00:00"
    assert second["target"]["datetime"] == "2026-10-25T01:30:00+00:00"
    assert first["ambiguous"] is second["ambiguous"] is True
    assert "this is the first, 2026-10-25T02:30:00+02:00, the other is 2026-10-25T02:30:00+01:00" in first["note"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"time": "25:00"}, "Invalid time format. Expected HH:MM [24-hour format] at `time`, got '25:00'"),
        ({"time": "noon"}, "Invalid time format"),
        ({"time": "٠٩:٠٠"}, "Invalid time format"),
        ({"date": "29.3.2026"}, "expected a date such as 2026-03-29 at `date`, got '29.3.2026'"),
        ({"source_timezone": "CEST"}, "at `source_timezone`; it is an abbreviation, used in Europe/Berlin"),
        ({"target_timezone": "Mars"}, "unknown time zone 'Mars' at `target_timezone`"),
        ({"date": "0001-01-01", "source_timezone": "Asia/Tokyo"}, "in the years 1 to 9999 at `time`"),
    ],
)
async def test_convert_time_error_names_the_invalid_argument(refusal, arguments: dict[str, str], message: str) -> None:
    given = {"source_timezone": "Europe/Berlin", "time": "00:00", "target_timezone": "UTC", **arguments}
    assert message in await refusal("convert_time", **given)


@pytest.mark.parametrize(
    ("query", "first", "also"),
    [
        ("india", "Asia/Kolkata", "America/Indiana/Knox"),
        ("IST", "Asia/Jerusalem", "Europe/Dublin"),
        ("+05:45", "Asia/Kathmandu", "Asia/Katmandu"),
        ("UTC-9:30", "Pacific/Marquesas", "Pacific/Marquesas"),
        ("new york", "America/New_York", "America/New_York"),
        ("america los angeles", "America/Los_Angeles", "America/Los_Angeles"),
        ("United States denver", "America/Denver", "America/Denver"),
        ("europe/ber", "Europe/Berlin", "Europe/Berlin"),
    ],
)
async def test_list_timezones_searches_all_names_of_a_zone(call, query: str, first: str, also: str) -> None:
    result = await call("list_timezones", query=query, limit=600)
    names = [zone["name"] for zone in result["timezones"]]

    assert names[0] == first
    assert also in names
    assert result["total"] == len(names)
    assert result["local_timezone"] == "Europe/Berlin"


async def test_list_timezones_is_paginated(call, refusal) -> None:
    names: list[str] = []
    arguments: dict[str, Any] = {}
    while True:
        page = await call("list_timezones", limit=250, **arguments)
        names += [zone["name"] for zone in page["timezones"]]
        if not page["truncated"]:
            break
        arguments = {"cursor": page["next_cursor"]}

    assert len(names) == len(set(names)) == page["total"] > 500
    assert page["next_cursor"] is None
    assert len((await call("list_timezones"))["timezones"]) == 50
    assert (await call("list_timezones", query="nowhere"))["timezones"] == []
    assert "at `cursor`" in await refusal("list_timezones", cursor="x")


async def test_listed_timezone_shows_its_aliases(call) -> None:
    zone = (await call("list_timezones", query="asia/kolkata"))["timezones"][0]
    assert zone == {
        "name": "Asia/Kolkata",
        "utc_offset": "+05:30",
        "abbreviation": "IST",
        "is_dst": False,
        "countries": ["India"],
        "windows_names": ["India Standard Time"],
    }


@pytest.mark.parametrize(
    ("text", "datetime", "read_as"),
    [
        ("2026-03-29T01:30:00Z", "2026-03-29T01:30:00+00:00", "ISO 8601"),
        ("2026-03-29t01:30:00.5z", "2026-03-29T01:30:00.500000+00:00", "ISO 8601"),
        ("2026-03-29 01:30:00-07:00", "2026-03-29T01:30:00-07:00", "ISO 8601"),
        ("2026-07-15 08:00", "2026-07-15T08:00:00+02:00", "ISO 8601 without an offset, taken in Europe/Berlin"),
        ("2026-07-15", "2026-07-15T00:00:00+02:00", "ISO 8601 without an offset, taken in Europe/Berlin"),
        ("20260715", "2026-07-15T00:00:00+02:00", "ISO 8601 without an offset, taken in Europe/Berlin"),
        ("Sun, 29 Mar 2026 01:30:00 +0530", "2026-03-29T01:30:00+05:30", "RFC 5322"),
        ("Sun, 29 Mar 2026 01:30:00 GMT", "2026-03-29T01:30:00+00:00", "RFC 5322"),
        ("1784110830", "2026-07-15T12:20:30+02:00", "seconds since 1970"),
        ("1784110830.25", "2026-07-15T12:20:30.250000+02:00", "seconds since 1970"),
        ("1784110830123", "2026-07-15T12:20:30.123000+02:00", "milliseconds since 1970"),
        ("1784110830123456", "2026-07-15T12:20:30.123456+02:00", "microseconds since 1970"),
        ("1784110830123456789", "2026-07-15T12:20:30.123456+02:00", "nanoseconds since 1970"),
        ("-1784110830", "1913-06-19T14:39:30+01:00", "seconds since 1970"),
        ("@0", "1970-01-01T01:00:00+01:00", "seconds since 1970"),
        ("now", "2026-07-15T12:20:30+02:00", "now"),
    ],
)
async def test_date_formats_are_parsed(call, text: str, datetime: str, read_as: str) -> None:
    result = await call("parse_date", text=text)
    assert (result["time"]["datetime"], result["read_as"]) == (datetime, read_as)


async def test_relative_date_is_parsed_with_another_clock(call) -> None:
    result = await call("parse_date", text="2026-01-01T03:00:00Z", timezone="America/New_York")
    naive = await call("parse_date", text="2026-01-01 03:00", timezone="America/New_York")

    assert result["time"]["datetime"] == "2025-12-31T22:00:00-05:00"
    assert (result["iso_week"], result["day_of_year"], result["utc"]) == ("2026-W01", 365, "2026-01-01T03:00:00Z")
    assert naive["utc"] == "2026-01-01T08:00:00Z"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("next tuesday", "expected a time such as"),
        ("", "expected a time such as"),
        ("12", "write @12 for seconds since 1970"),
        ("2026-13-01", "(month must be in 1..12)"),
        ("2026-02-30", "at `text`"),
        ("9" * 30, "in the years 1 to 9999 at `text`"),
        ("9999-12-31T23:59:59-05:00", "in the years 1 to 9999 at `text`"),
        ("2026-03-29 02:30", "does not exist in Europe/Berlin"),
    ],
)
async def test_parse_date_error_names_the_problem(refusal, text: str, message: str) -> None:
    assert message in await refusal("parse_date", text=text)


async def test_time_difference_accounts_for_clock_changes(call) -> None:
    result = await call("time_difference", start="2026-03-28 12:00", end="2026-03-29 12:00")
    back = await call("time_difference", start="2026-03-29T12:00:00Z", end="2026-03-28T10:59:58.5Z")
    since = await call("time_difference", start="2026-07-15T10:20:00Z", timezone="Asia/Tokyo")

    assert (result["seconds"], result["duration"], result["text"]) == (82800, "PT23H", "23 hours")
    assert result["calendar_days"] == 1
    assert (back["seconds"], back["duration"]) == (-90001.5, "-P1DT1H1.5S")
    assert back["text"] == "minus 1 day 1 hour 1.5 seconds"
    assert (since["text"], since["start"]["timezone"]) == ("30 seconds", "Asia/Tokyo")


@pytest.mark.parametrize(
    ("duration", "start", "result", "note"),
    [
        ("P1D", "2026-03-28 12:00", "2026-03-29T12:00:00+02:00", None),
        ("PT24H", "2026-03-28 12:00", "2026-03-29T13:00:00+02:00", None),
        ("P1D", "2026-03-28 02:30", "2026-03-29T03:30:00+02:00", "03:30 was taken"),
        ("1 day", "2026-10-24 02:30", "2026-10-25T02:30:00+02:00", "the first was taken"),
        ("1 month", "2026-01-31 08:00", "2026-02-28T08:00:00+01:00", "2026-02 has no day 31"),
        ("-P1M", "2024-03-30T08:00:00+00:00", "2024-02-29T08:00:00+00:00", "2024-02 has no day 30"),
        ("1 year, 2 months and 3 days", "2026-01-01", "2027-03-04T00:00:00+01:00", None),
        ("2 weeks ago", "2026-07-15", "2026-07-01T00:00:00+02:00", None),
        ("1h30m", "2026-07-15", "2026-07-15T01:30:00+02:00", None),
        ("-90 minutes", "2026-07-15", "2026-07-14T22:30:00+02:00", None),
        ("1.5 days", "2026-03-28 12:00", "2026-03-30T00:00:00+02:00", None),
        ("PT0.5S", "@1000", "1970-01-01T01:16:40.500000+01:00", None),
        ("P2W", "2026-07-15T00:00:00Z", "2026-07-29T00:00:00+00:00", None),
    ],
)
async def test_duration_is_added(call, duration: str, start: str, result: str, note: str | None) -> None:
    answer = await call("add_duration", duration=duration, start=start)
    assert answer["result"]["datetime"] == result
    assert (note is None and answer["note"] is None) or note in answer["note"]


@pytest.mark.parametrize(
    ("duration", "message"),
    [
        ("soon", "expected a duration such as P1DT2H30M"),
        ("", "expected a duration"),
        ("P", "expected a duration"),
        ("P1DT", "expected a duration"),
        ("1 fortnight", "expected a duration"),
        ("1.5 months", "expected whole years and months"),
        ("P9999Y", "in the years 1 to 9999 at `duration`"),
        ("-P3000Y", "in the years 1 to 9999 at `duration`"),
        ("999999999999 days", "expected less than 10000 years"),
        ("999999999999 hours", "at `duration`"),
    ],
)
async def test_add_duration_error_names_the_problem(refusal, duration: str, message: str) -> None:
    assert message in await refusal("add_duration", duration=duration)


async def test_clock_is_read_at_each_call(call, installed) -> None:
    installed.seconds = datetime.fromisoformat("2027-01-01T00:00:00Z").timestamp()
    assert (await call("get_current_time"))["datetime"] == "2027-01-01T01:00:00+01:00"


@pytest.mark.parametrize("timezone", ["A05", "x05:30", "505", "UTC505", "UTC,05"])
async def test_invalid_offset_is_refused(client, timezone: str) -> None:
    result = await client.call_tool("get_current_time", {"timezone": timezone})

    assert result.is_error
    assert "unknown time zone" in result.content[0].text


async def test_typographic_minus_is_accepted_as_a_sign(call) -> None:
    assert (await call("get_current_time", timezone="UTC\u221205"))["utc_offset"] == "-05:00"


async def test_texts_are_lines_for_a_model(client) -> None:
    async def text(name: str, **arguments: Any) -> str:
        return (await client.call_tool(name, arguments)).content[0].text

    assert await text("get_current_time") == "2026-07-15T12:20:30+02:00 Wednesday Europe/Berlin (CEST)"
    assert await text("convert_time", source_timezone="UTC", time="10:00", target_timezone="+05:30") == (
        "2026-07-15T10:00:00+00:00 Wednesday UTC\n= 2026-07-15T15:30:00+05:30 Wednesday UTC+05:30, +5.5h"
    )
    first, second, note = (await text("parse_date", text="2026-10-25 02:30")).split("\n")
    assert first == "2026-10-25T02:30:00+02:00 Sunday Europe/Berlin (CEST)"
    assert second.startswith("2026-10-25T00:30:00Z, 2026-W43, read as ISO 8601")
    assert note.startswith("note: 02:30 occurs twice in Europe/Berlin")
    assert await text("time_difference", start="2026-07-14", end="2026-07-15") == "1 day (86400 s, 1 calendar days)"
    added = await text("add_duration", duration="1 month", start="2026-01-31")
    assert added.startswith("2026-02-28T00:00:00+01:00 Saturday Europe/Berlin (CET)\nnote: ")
    zones = (await text("list_timezones")).split("\n")
    assert zones[0] == "Africa/Abidjan +00:00 GMT Côte d’Ivoire"
    assert zones[-1].endswith("zones; more follow: pass cursor=50]")
    assert await text("list_timezones", query="nowhere at all") == "no such zone"


async def test_definitions_take_few_tokens(client, check_tokens) -> None:
    await check_tokens(client, 490)
