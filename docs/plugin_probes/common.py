"""Rows that every plugin has: the tools, computed from both lists; hints; revisions; start-up and memory."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from mcptrio.types import Tool
from plugin_probes.process import measured_start
from plugin_probes.trial import Probes, Talk, Trial

__all__ = ["COMMON", "common_rows", "differences"]

COMMON = (
    "Tools",
    "The reference's tools that ours has too, with the same argument names (in snake case) and types",
    "Tools with an output schema, with a title, with all four hints",
    "Prompts, resources, templates",
    "Newest revision supported",
    "Time from start to the list of tools, with only this plugin",
    "Memory (RSS) at that time",
)
"""The titles, in order."""

_STARTS = 5
"""The shortest counts, because other programs of the machine only make a start longer."""
_HINTS = ("read_only_hint", "destructive_hint", "idempotent_hint", "open_world_hint")


async def common_rows(probes: Probes, reference: Trial | None, ours: Trial) -> list[tuple[str, str, str]]:
    """Title, the reference's cell, our cell; without a reference its cells are empty."""
    theirs: Sequence[str] = [""] * len(COMMON)
    known: list[Tool] | None = None
    if reference is not None:
        theirs, known = await _cells(probes, reference, None)
    mine, _ = await _cells(probes, ours, known)
    return list(zip(COMMON, theirs, mine, strict=True))


async def _cells(probes: Probes, trial: Trial, known: list[Tool] | None) -> tuple[Sequence[str], list[Tool]]:
    command = probes.command(trial)
    async with trial.talk(command, env=probes.env) as talk:
        tools = list(await talk.client.tools().all())
        surface = await _surface(talk)
        revision = talk.client.revision
    starts = [await measured_start(command, cwd=trial.folder, env=probes.env) for _ in range(_STARTS)]
    fit = "" if known is None else _fit(known, tools, f"{trial.plugin}_")
    return (
        str(len(tools)),
        fit or f"{len(tools)} of {len(tools)}",
        _qualities(tools),
        surface,
        revision,
        f"{min(start.milliseconds for start in starts):.0f} ms",
        f"{median(start.memory for start in starts):.0f} MiB",
    ), tools


def _fit(reference: Sequence[Tool], ours: Sequence[Tool], prefix: str) -> str:
    by_name = {tool.name: tool for tool in ours}
    found = []
    for tool in reference:
        mine = by_name.get(tool.name) or by_name.get(prefix + tool.name)
        if mine is None:
            found.append(f"no `{tool.name}`")
        else:
            found += [f"`{tool.name}`: {each}" for each in differences(tool.input_schema, mine.input_schema)]
    whole = len(reference)
    return f"{whole} of {whole}" if not found else "; ".join(found)


def differences(theirs: Mapping[str, Any], ours: Mapping[str, Any], where: str = "") -> list[str]:
    """Return the reasons for which a call that fits their schema, with names in snake case, may fail with ours."""
    found = []
    properties: Mapping[str, Any] = ours.get("properties", {})
    wanted_properties = {
        name if name in properties else _snake_case(name): schema
        for name, schema in theirs.get("properties", {}).items()
    }
    required = {name if name in properties else _snake_case(name) for name in theirs.get("required", [])}
    for name, schema in wanted_properties.items():
        path = f"{where}{name}"
        if name not in properties:
            found.append(f"no `{path}`")
            continue
        wanted, offered = _resolved(schema, theirs), _resolved(properties[name], ours)
        if missing := _types(wanted) - _understood(wanted, offered):
            found.append(f"`{path}` is no {' or '.join(sorted(missing))}")
        if unknown := set(map(str, _values(wanted))) - set(map(str, _values(offered))) if _values(offered) else set():
            found.append(f"`{path}` may not be {', '.join(sorted(unknown))}")
        if "items" in wanted and "items" in offered:
            below = (_whole(wanted["items"], theirs), _whole(offered["items"], ours))
            found += differences(*below, where=f"{path}[].")
    found += [f"`{where}{name}` is required" for name in ours.get("required", []) if name not in required]
    return found


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z])[A-Z]", lambda found: f"_{found[0].lower()}", name)


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without references, and without the alternative of null."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return _resolved((root.get("$defs") or root.get("definitions") or {})[name], root)
    options = schema.get("anyOf") or schema.get("oneOf")
    if not options:
        return schema
    known = [_resolved(option, root) for option in options]
    one = next((option for option in known if "items" in option or "properties" in option), {})
    types = sorted(set().union(*(_types(option) for option in known)))
    return {**one, "type": types}


def _whole(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**_resolved(schema, root), "$defs": root.get("$defs", {})}


def _types(schema: Mapping[str, Any]) -> set[str]:
    """Return the types of a schema. An integer is a number as well. Null is left out, like a missing argument."""
    if "type" not in schema:
        values = _values(schema)
        return {"string"} if values and all(isinstance(value, str) for value in values) else set()
    types = {schema["type"]} if isinstance(schema["type"], str) else set(schema["type"])
    return {"number" if each == "integer" else each for each in types} - {"null"}


def _understood(wanted: Mapping[str, Any], offered: Mapping[str, Any]) -> set[str]:
    """Return the types of values that mcptrio accepts for a schema. It repairs a number or boolean in a string, if the
    reference takes that too; a row about thinking tries it."""
    types = _types(offered)
    return types | {"string"} if types & _types(wanted) & {"boolean", "number"} else types


def _values(schema: Mapping[str, Any]) -> Sequence[Any]:
    return [schema["const"]] if "const" in schema else schema.get("enum", [])


def _qualities(tools: Sequence[Tool]) -> str:
    count = len(tools)
    hinted = sum(
        tool.annotations is not None and all(isinstance(getattr(tool.annotations, hint), bool) for hint in _HINTS)
        for tool in tools
    )
    schemas = sum(bool(tool.output_schema) for tool in tools)
    titled = sum(bool(tool.title or (tool.annotations and tool.annotations.title)) for tool in tools)
    return ", ".join(str(each) if each != count else "all" for each in (schemas, titled, hinted)) + f" of {count}"


async def _surface(talk: Talk) -> str:
    capabilities, client = talk.client.capabilities, talk.client
    prompts = len(await client.prompts().all()) if capabilities.prompts else 0
    resources = len(await client.resources().all()) if capabilities.resources else 0
    templates = len(await client.resource_templates().all()) if capabilities.resources else 0
    return f"{prompts}, {resources}, {templates}"
