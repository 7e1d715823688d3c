"""Prompts, resources, and the completion of zone names."""

from __future__ import annotations

import json

import pytest

from mcptrio import MCPError


async def test_prompts_match_the_tool_results(client) -> None:
    now = await client.get_prompt("time_now", {"timezone": "Asia/Tokyo"})
    local = await client.get_prompt("time_now")
    converted = await client.get_prompt(
        "time_convert", {"time": "02:30", "source_timezone": "local", "target_timezone": "UTC", "date": "2026-10-25"}
    )

    assert now.messages[0].content.text == "It is 19:20 on Wednesday, 2026-07-15, in Asia/Tokyo (UTC+09:00)."
    assert "Europe/Berlin" in local.messages[0].content.text
    text = converted.messages[0].content.text
    assert text.startswith("02:30 on Sunday, 2026-10-25, in Europe/Berlin (UTC+02:00) is 00:30 on Sunday")
    assert "Note: 02:30 occurs twice" in text


async def test_resources_show_the_time(client) -> None:
    async def read(uri: str) -> dict[str, str]:
        contents = (await client.read_resource(uri)).contents[0]
        assert contents.mime_type == "application/json"
        return json.loads(contents.text)

    assert (await read("time://now"))["datetime"] == "2026-07-15T12:20:30+02:00"
    assert (await read("time://now/America/New_York"))["datetime"] == "2026-07-15T06:20:30-04:00"
    with pytest.raises(MCPError, match="not found"):
        await client.read_resource("time://now/IST")


@pytest.mark.parametrize(
    ("of", "name", "argument"),
    [
        ("prompt", "time_now", "timezone"),
        ("prompt", "time_convert", "source_timezone"),
        ("prompt", "time_convert", "target_timezone"),
        ("resource", "time://now/{+timezone}", "timezone"),
    ],
)
async def test_zone_names_are_completed(client, of: str, name: str, argument: str) -> None:
    assert (await client.complete(of, name, argument, "new_y")).values[0] == "America/New_York"
    assert "Europe/Berlin" in (await client.complete(of, name, argument, "berl")).values
    if of == "prompt":
        assert (await client.complete(of, name, argument, "")).values[0] == "Europe/Berlin"
        assert "Tokyo Standard Time" in (await client.complete(of, name, argument, "tokyo")).values
