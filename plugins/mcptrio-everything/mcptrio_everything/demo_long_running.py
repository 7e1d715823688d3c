"""Demo tools that run for some time: with progress, log messages at every level, updates, and a question to the user.

Names and arguments are those of the reference server "everything". There, simulated logging and updates are background
tasks that outlive the call; here, they end with the call.
"""

from __future__ import annotations

from typing import Annotated, Final

import trio
from msgspec import Meta

from mcptrio import Context, tool

__all__ = [
    "simulate_logging",
    "simulate_research_query",
    "trigger_long_running_operation",
    "trigger_resource_updates",
]

_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

_STAGES = ("Gathering sources", "Analyzing content", "Synthesizing findings", "Generating report")


@tool(name="trigger-long-running-operation", title="Long-running operation", read_only=True)
async def trigger_long_running_operation(
    ctx: Context,
    duration: Annotated[float, Meta(ge=0, le=3600)] = 10,
    steps: Annotated[int, Meta(ge=1, le=1000)] = 5,
) -> str:
    """Run for the given time, and report progress at each step.

    Args:
        duration: Seconds in all.
        steps: The number of steps, and of progress reports.
    """
    for step in range(1, steps + 1):
        await trio.sleep(duration / steps)
        await ctx.report_progress(step, total=steps, message=f"Step {step} of {steps}")
    return f"Long running operation completed. Duration: {duration:g} seconds, Steps: {steps}."


@tool(name="simulate-logging", title="Simulated logging", read_only=True)
async def simulate_logging(
    ctx: Context,
    rounds: Annotated[int, Meta(ge=1, le=100)] = 1,
    interval: Annotated[float, Meta(ge=0, le=60)] = 0.1,
) -> str:
    """Log one message at every level, in several rounds; the client receives those at its log level or above.

    Args:
        rounds: How often to log all levels.
        interval: Seconds between two messages.
    """
    for _ in range(rounds):
        for level in _LEVELS:
            await ctx.log(level, f"{level.capitalize()}-level message", logger="everything")
            await trio.sleep(interval)
    return f"Logged {rounds * len(_LEVELS)} messages"


@tool(name="trigger-resource-updates", title="Resource updates", read_only=True)
async def trigger_resource_updates(
    ctx: Context,
    count: Annotated[int, Meta(ge=1, le=100)] = 1,
    interval: Annotated[float, Meta(ge=0, le=60)] = 0.1,
) -> str:
    """Notify the subscribers of test://watched-resource several times that it has changed.

    Args:
        count: The number of notifications.
        interval: Seconds between two notifications.
    """
    for _ in range(count):
        ctx.notify_resource_updated("test://watched-resource")
        await trio.sleep(interval)
    return f"Notified the subscribers {count} times"


@tool(name="simulate-research-query", title="Research", read_only=True)
async def simulate_research_query(
    ctx: Context, topic: str, ambiguous: bool = False, pace: Annotated[float, Meta(ge=0, le=60)] = 1.0
) -> str:
    """Simulate research of a topic in four stages; asks the user about an ambiguous topic.

    Args:
        topic: What to look into.
        ambiguous: Whether to ask the user which meaning is intended.
        pace: Seconds a stage takes.
    """
    meaning = topic
    for number, stage in enumerate(_STAGES, 1):
        await ctx.report_progress(number, total=len(_STAGES), message=stage)
        await trio.sleep(pace)
        if number == 2 and ambiguous and ctx.supports("elicitation.form"):
            form = {
                "type": "object",
                "properties": {"interpretation": {"type": "string", "enum": ["technical", "historical", "current"]}},
                "required": ["interpretation"],
            }
            answer = await ctx.elicit(f'What about "{topic}" is meant?', form, key="interpretation")
            if answer.content is not None:
                meaning = f"{topic} ({answer.content['interpretation']})"
    return f"# Research report: {meaning}\n\nThis simulated report went through {len(_STAGES)} stages."
