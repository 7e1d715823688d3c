"""Tools that are called from their page, plugins that are restarted, the log and the replicas."""

from __future__ import annotations

import html
import logging

import pytest
from mcptrio_console.log_records import LogRecords
from mcptrio_console.tool_forms import PREFIX, arguments_of, fields_of

from mcptrio.abc import ReplicaStatus, StoreStatus
from mcptrio.serving import ShownSetting

from .conftest import PIXEL, Site, failing_plugin, opened


async def called(site: Site, tool: str, **arguments: str) -> str:
    """Send the form of a tool; return the page."""
    fields = {f"{PREFIX}{name}": value for name, value in arguments.items()}
    page = await site.act("call", tool=tool, **fields)
    assert page.status_code == 200
    return html.unescape(page.text)


async def test_tool_is_called_from_its_form(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with opened() as site:
        await site.enter()
        form = (await site.get("tool", params={"name": "draw"})).text
        assert '<option value="&#34;small&#34;">' in form
        assert "The size of the picture." in form

        page = await called(site, "draw", size='"large"', note="<b>", colours='["red"]', beds="3")

        assert f'<img src="data:image/png;base64,{PIXEL}"' in page
        assert "large <b> ['red'] 3" in page
        # The form keeps its values.
        assert '<option value=""large"" selected>' in page
        assert "call (by the link, from 127.0.0.1): draw" in caplog.text
        assert '<th scope="row"><a href="/console/tool?name=draw">' in (await site.get("tools")).text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": '"large"', "beds": "many"}, "beds: expected a number, got many"),
        ({"size": '"large"', "colours": "[red"}, "colours: expected JSON, got [red"),
        ({"size": '"huge"'}, "The tool says that it has failed"),
        ({"size": '"large"', "note": "x" * 70_000}, "note: expected at most 65536 characters"),
    ],
)
async def test_argument_that_does_not_fit_is_explained(arguments: dict[str, str], message: str) -> None:
    async with opened() as site:
        await site.enter()

        assert message in await called(site, "draw", **arguments)


async def test_failed_call_is_shown() -> None:
    async with opened() as site:
        await site.enter()

        assert "The tool says that it has failed" in await called(site, "break_it")
        assert (await site.get("tool", params={"name": "nothing"})).status_code == 404


async def test_read_only_console_calls_no_tool() -> None:
    async with opened(read_only=True) as site:
        await site.enter()

        assert "actions/call" not in (await site.get("tool", params={"name": "draw"})).text
        assert (await site.act("call", tool="draw")).status_code == 403


@pytest.mark.parametrize(
    "schema", [{}, {"properties": []}, {"properties": {"a": True, "b": {"enum": 1}}, "required": 3}]
)
def test_unusual_schema_has_a_form(schema: dict[str, object]) -> None:
    fields = fields_of(schema, {f"{PREFIX}a": "{}"})

    assert all(field.kind == "json" for field in fields)
    assert arguments_of(fields) in ({}, {"a": {}})


async def test_plugin_is_restarted_and_withheld() -> None:
    async with opened(plugins=[failing_plugin("weather", "no key")]) as site:
        await site.enter()
        page = (await site.get("plugins")).text
        assert "failed, and left out" in page
        assert "RuntimeError: no key" in page

        assert await site.note("withhold", plugin="garden") == (
            "The plugin garden is withheld until it is started again."
        )
        assert (await site.get("tool", params={"name": "draw"})).status_code == 404
        assert await site.note("restart", plugin="garden") == "The plugin garden was restarted and is running."
        assert (await site.get("tool", params={"name": "draw"})).status_code == 200
        assert await site.note("restart", plugin="weather") == "The plugin weather was restarted and is quarantined."


async def test_settings_and_tokens_of_a_plugin_are_shown() -> None:
    settings = [ShownSetting(name="key", value="(not shown)", origin="mcptrio.toml:3", is_secret=True)]
    async with opened(settings_of=lambda _name: settings, tokens_of=lambda _name: {"draw": 40, "water": 30}) as site:
        await site.enter()

        page = (await site.get("plugins")).text

        assert "about 70 tokens" in page
        assert "<code>(not shown)</code>" in page
        assert "mcptrio.toml:3" in page


async def test_log_is_filtered() -> None:
    async with opened(request_of=lambda: (7, "garden")) as site:
        await site.enter()
        await called(site, "draw", size='"large"', note="<i>roses</i>")
        logging.getLogger("other").error("%s", ValueError("a fault"), exc_info=ValueError("a fault"))

        everything = (await site.get("log", params={"q": "roses"})).text
        assert "drawing &lt;i&gt;roses&lt;/i&gt;" in everything
        assert "session 7, garden" in everything
        assert "roses" not in (await site.get("log", params={"level": "error"})).text
        assert "drawing" not in (await site.get("log", params={"plugin": "weather"})).text
        assert "drawing" not in (await site.get("log", params={"session": "8"})).text
        assert "ValueError: a fault" in (await site.get("log", params={"session": "7", "level": "error"})).text
        assert "data-live" not in (await site.get("log", params={"follow": "0"})).text


def test_log_is_bounded_and_survives_a_record_without_a_text(caplog: pytest.LogCaptureFixture) -> None:
    records = LogRecords(lambda: (None, None))
    raises, logging.raiseExceptions = logging.raiseExceptions, False
    try:
        for number in range(1100):
            records.handle(logging.LogRecord("x", logging.INFO, "f", 1, f"{number} {'y' * 10_000}", (), None))
        records.handle(logging.LogRecord("x", logging.INFO, "f", 1, "%d", ("no number",), None))
    finally:
        logging.raiseExceptions = raises

    entries = list(records.newest())
    assert len(entries) == 1000
    assert entries[0].text.startswith("1099 y")
    assert all(len(entry.text) == 2000 for entry in entries)


async def test_replicas_are_shown_where_stores_are_shared() -> None:
    from jinja2 import Environment, PackageLoader
    from mcptrio_console.text import cut, duration

    live = (ReplicaStatus(id="r<1>", host="<b>a</b>", process=12, age=70.0, heartbeat=1.5),)
    stores = StoreStatus(kind="redis", is_reachable=False, failing_since=4.0, replicas=3, live=live)
    templates = Environment(loader=PackageLoader("mcptrio_console"), autoescape=True)
    templates.filters.update(cut=cut, duration=duration)

    page = templates.get_template("replicas_live.html").render(stores=stores)

    assert "not reachable for 4.0 s" in page
    assert "&lt;b&gt;a&lt;/b&gt;" in page
    assert "1.5 s ago" in page
    async with opened() as site:
        await site.enter()
        assert "shares nothing with other processes" in (await site.get("replicas")).text
