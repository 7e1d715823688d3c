"""Probes of the time: names of zones, times that do not exist, days other than today."""

from __future__ import annotations

from typing import Any

from mcptrio import MCPTrioError
from plugin_probes.trial import WAIT_TIMEOUT, Answer, Probes, Trial, counted

__all__ = ["CLOCKS"]


def command(trial: Trial) -> tuple[str, ...]:
    if trial.references is not None:
        return trial.references.of_python("mcp_server_time", "--local-timezone", "Europe/Berlin")
    return trial.ours({"local_timezone": "Europe/Berlin"})


CLOCKS = Probes(
    "time",
    "`mcp-server-time` 2026.10.19",
    command,
    {},
    (
        "The reference converts only times of today, so the rows about other days show how it treats an argument that "
        "it does not have. According to its source, it also refuses times of today that do not exist; this was not "
        "tried.",
    ),
    [],
)


async def convert(trial: Trial, source: str, time: str, target: str, **more: Any) -> Answer:
    async with trial.talk(command(trial)) as talk:
        return await talk.call("convert_time", source_timezone=source, time=time, target_timezone=target, **more)


@CLOCKS("02:30 on 28 March 2027 in Berlin, which the clock change skips")
async def skipped(trial: Trial) -> str:
    answer = await convert(trial, "Europe/Berlin", "02:30", "UTC", date="2027-03-28")
    if not answer.is_error and "2027-03-28" not in answer.text:
        return "accepts no date, and converts today's 02:30"
    return str(answer)


@CLOCKS("02:30 on 31 October 2027 in Berlin, which occurs twice")
async def twice(trial: Trial) -> str:
    answer = await convert(trial, "Europe/Berlin", "02:30", "UTC", date="2027-10-31")
    if not answer.is_error and "2027-10-31" not in answer.text:
        return "accepts no date, and converts today's 02:30"
    both = answer.text.count("2027-10-31T02:30") >= 2
    return "reports both, and uses one" if both else str(answer)


@CLOCKS("`EDT` as a zone")
async def edt(trial: Trial) -> str:
    return await _now(trial, "EDT")


@CLOCKS("`IST` as a zone, which may mean India, Ireland or Israel")
async def ist(trial: Trial) -> str:
    return await _now(trial, "IST")


@CLOCKS("`W. Europe Standard Time`, as Windows calls it")
async def windows(trial: Trial) -> str:
    return await _now(trial, "W. Europe Standard Time")


@CLOCKS("`+05:30` as a zone")
async def offset(trial: Trial) -> str:
    return await _now(trial, "+05:30")


@CLOCKS("`europe/berlin`, in lower case")
async def lower(trial: Trial) -> str:
    return await _now(trial, "europe/berlin")


@CLOCKS("No zone")
async def none(trial: Trial) -> str:
    async with trial.talk(command(trial)) as talk:
        answer = await talk.call("get_current_time")
    return f"uses {answer.data['timezone']}" if not answer.is_error else str(answer)


@CLOCKS("`25:00`, `9:5` and `noon` as times")
async def times(trial: Trial) -> str:
    refused = 0
    async with trial.talk(command(trial)) as talk:
        for time in ("25:00", "9:5", "noon"):
            answer = await talk.call("convert_time", source_timezone="UTC", time=time, target_timezone="Asia/Tokyo")
            refused += answer.is_error
    return counted(refused, 3, "refused")


@CLOCKS("Start on a machine whose `TZ` is `EDT`, with no setting")
async def start(trial: Trial) -> str:
    plain = trial.references.of_python("mcp_server_time") if trial.references else trial.ours({})
    try:
        async with trial.talk(plain, env={"TZ": "EDT"}) as talk:
            answer = await talk.call("get_current_time", timezone="UTC", timeout=WAIT_TIMEOUT)
    except MCPTrioError as error:
        return f"does not start: {Answer(str(error), is_error=True)}"
    return "starts" if not answer.is_error else str(answer)


@CLOCKS("One month after 31 January, the time between two dates, a search for a zone")
async def arithmetic(trial: Trial) -> str:
    calls: tuple[tuple[str, dict[str, Any]], ...] = (
        ("add_duration", {"duration": "P1M", "start": "2027-01-31T12:00:00Z"}),
        ("time_difference", {"start": "2027-01-01", "end": "2027-03-01"}),
        ("list_timezones", {"query": "Tokyo"}),
    )
    can = 0
    async with trial.talk(command(trial)) as talk:
        for tool, arguments in calls:
            can += not (await talk.call(tool, **arguments)).is_error
    return counted(can, 3, "possible")


async def _now(trial: Trial, zone: str) -> str:
    async with trial.talk(command(trial)) as talk:
        answer = await talk.call("get_current_time", timezone=zone)
    return f"understands it as {answer.data['timezone']}" if not answer.is_error else str(answer)
