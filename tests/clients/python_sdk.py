"""Drives a server with the official Python SDK's client, and reports its observations.

test_python_sdk.py runs it as a process under asyncio, like the SDK's users, and in-process under Trio. The process
takes a plan and writes reports; see running.py. The expectations are in behaviours.py. It uses only the SDK's public
API.

Source: mcp 2.3.0, mcp/client.
"""

from __future__ import annotations

import json
import re
import sys
import traceback
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, TypeAlias
from uuid import uuid4

import anyio
import httpx2
import mcp.client.session
import mcp.client.stdio
import mcp_types as types
from mcp import ClientSession, MCPError
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp.shared.message import ClientMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tests.clients.python_sdk_peer import WAIT_TIMEOUT, Connect, Peer, Target, connect, failure_of, text_of

__all__ = ["Target", "carry_out", "try_behaviours"]

# Lists


async def negotiated(peer: Peer) -> Any:
    client = peer.client
    return {
        "revision": client.protocol_version,
        "server": client.server_info.name if client.server_info else None,
        "instructions": client.instructions,
        "capabilities": sorted(client.server_capabilities.model_dump(by_alias=True, exclude_none=True)),
    }


async def lists(peer: Peer) -> Any:
    client = peer.client
    walks: dict[str, tuple[Callable[..., Awaitable[Any]], Callable[[Any], list[str]]]] = {
        "tools": (client.list_tools, lambda page: [tool.name for tool in page.tools]),
        "resources": (client.list_resources, lambda page: [str(resource.uri) for resource in page.resources]),
        "templates": (
            client.list_resource_templates,
            lambda page: [template.uri_template for template in page.resource_templates],
        ),
        "prompts": (client.list_prompts, lambda page: [prompt.name for prompt in page.prompts]),
    }
    found: dict[str, list[str]] = {}
    for name, (walk, names) in walks.items():
        page = await walk()
        found[name] = names(page)
        while page.next_cursor is not None:
            assert len(names(page)) == 2, page
            page = await walk(cursor=page.next_cursor)
            found[name] += names(page)
    return found


async def described(peer: Peer) -> Any:
    page = await peer.client.list_tools()
    tool = next(tool for tool in page.tools if tool.name == "greet")
    return {
        "title": tool.title,
        "description": tool.description,
        "required": tool.input_schema["required"],
        "argument": tool.input_schema["properties"]["name"],
        "read_only": tool.annotations.read_only_hint if tool.annotations else None,
        "icon": tool.icons[0].src if tool.icons else None,
    }


# Tools


async def called(peer: Peer) -> Any:
    return await peer.text("greet", name="Zoë 🌊")


async def structured(peer: Peer) -> Any:
    result = await peer.client.call_tool("area", {"width": 2, "height": 1.5})
    return {"text": json.loads(text_of(result)), "structured": result.structured_content}


async def contents(peer: Peer) -> Any:
    return [block.type for block in (await peer.client.call_tool("media")).content]


async def mirrored(peer: Peer) -> Any:
    """Call a tool with an annotated argument without listing it before."""
    async with peer.connect(peer.target, peer.revision, pinned=True) as fresh:
        return [await fresh.text("locate", region="Zürich"), await fresh.text("locate", region="Oslo")]


async def failed(peer: Peer) -> Any:
    return {
        "refused": await peer.text("refuse", reason="not today"),
        "crashed": re.sub(r"see id [0-9a-f]{8}", "see id …", await peer.text("crash")),
        "wrong type": await peer.text("area", width="wide", height=1),
        "unknown tool": await peer.text("no_such_tool"),
        "unknown prompt": await failure_of(peer.client.get_prompt("no_such_prompt")),
        "bad cursor": await failure_of(peer.client.list_tools(cursor="no such cursor")),
    }


async def missing(peer: Peer) -> Any:
    return await failure_of(peer.client.read_resource("note://nowhere"))


async def concurrent(peer: Peer) -> Any:
    name, parties = f"meeting {uuid4()}", 20
    places: list[str] = []

    async def come() -> None:
        places.append(await peer.text("meet", name=name, parties=parties))

    async with anyio.create_task_group() as group:
        for _ in range(parties):
            group.start_soon(come)
    return sorted(map(int, places)) == list(range(1, parties + 1))


# Progress and cancellation


async def progressed(peer: Peer) -> Any:
    reports: list[list[Any]] = []
    name = f"count {uuid4()}"

    async def report(progress: float, total: float | None, message: str | None) -> None:
        reports.append([progress, total, message])
        if len(reports) == 3:
            await peer.text("let_go", name=name)

    counted = text_of(await peer.client.call_tool("count", {"name": name, "to": 3}, progress_callback=report))
    return [sorted(reports), counted]  # The SDK starts a task for each report, in any order.


async def cancelled(peer: Peer) -> Any:
    name = f"hold {uuid4()}"
    async with anyio.create_task_group() as group:

        async def cancel(progress: float, total: float | None, message: str | None) -> None:
            group.cancel_scope.cancel()

        async def hold() -> None:
            await peer.client.call_tool("hold", {"name": name}, progress_callback=cancel)

        group.start_soon(hold)
    stopped = await peer.text("watch_cancelled", name=name)
    return [group.cancel_scope.cancelled_caught, stopped.removeprefix(name), await peer.text("greet", name="after")]


# Requests of the server


async def asked(peer: Peer) -> Any:
    answers = [await peer.text("order", message=message) for message in ("Which coffee?", "decline", "cancel")]
    return {"answers": answers, "asked": peer.heard.asked}


async def opened(peer: Peer) -> Any:
    return {"answer": await peer.text("sign_in"), "asked": peer.heard.asked}


async def sampled(peer: Peer) -> Any:
    return {"answer": await peer.text("think", about="tea"), "asked": peer.heard.asked}


async def rooted(peer: Peer) -> Any:
    return await peer.text("roots")


async def asked_together(peer: Peer) -> Any:
    return await peer.text("everything")


async def asked_twice(peer: Peer) -> Any:
    return await peer.text("checkout", name=f"checkout {uuid4()}")


async def asked_elsewhere(peer: Peer) -> Any:
    try:
        prompt = await peer.client.get_prompt("interview")
        read = await peer.client.read_resource("note://asked")
    except MCPError as error:
        return f"error {error.code}"
    return [prompt.messages[0].content.text, read.contents[0].text]  # type: ignore[union-attr]


# Resources, prompts, completion, log


async def read(peer: Peer) -> Any:
    read_resource = peer.client.read_resource
    logo, pair, note = [await read_resource(uri) for uri in ("note://logo", "note://pair", "note://monday/a%20b")]
    return [
        [content.model_dump(by_alias=True, exclude_none=True, mode="json") for content in result.contents]
        for result in (logo, pair, note)
    ]


async def cached(peer: Peer) -> Any:
    """Report whether the second read reached the server."""
    first, second = [await peer.client.read_resource("note://today") for _ in range(2)]
    return first.contents == second.contents


async def prompted(peer: Peer) -> Any:
    results = [
        await peer.client.get_prompt("review", {"code": "1 + 1", "language": "rust"}),
        await peer.client.get_prompt("plain"),
    ]
    return [[message.role, message.content.text] for result in results for message in result.messages]  # type: ignore[union-attr]


async def completed(peer: Peer) -> Any:
    language = types.PromptReference(type="ref/prompt", name="review")
    topic = types.ResourceTemplateReference(type="ref/resource", uri="note://{day}/{topic}")
    return [
        (await peer.client.complete(language, {"name": "language", "value": "r"})).completion.values,
        (await peer.client.complete(topic, {"name": "topic", "value": "ca"})).completion.values,
        (await peer.client.complete(topic, {"name": "topic", "value": ""}, {"day": "tuesday"})).completion.values,
    ]


async def logged(peer: Peer) -> Any:
    if peer.modern:
        opt_in: Any = {types.LOG_LEVEL_META_KEY: "warning"}
        await peer.client.call_tool("chat", meta=opt_in)
    else:
        await peer.client.set_logging_level("warning")
        await peer.client.call_tool("chat")
    await peer.heard.until(lambda: any(log["level"] == "error" for log in peer.heard.logs))
    await peer.text("greet", name="after")  # notifications sent before the response have been received
    return sorted(peer.heard.logs, key=lambda log: log["level"])


# Changes


async def updated(peer: Peer) -> Any:
    uri, other = "note://monday/cats", "note://monday/cars"
    if peer.modern:
        async with peer.client.listen(resource_subscriptions=[uri]) as stream:
            honored = stream.honored.resource_subscriptions
            for touched in (other, uri):
                await peer.text("touch", uri=touched)
            return [honored == [uri], str((await anext(stream)).uri)]  # type: ignore[union-attr]
    await peer.client.subscribe_resource(uri)
    for touched in (other, uri):
        await peer.text("touch", uri=touched)
    await peer.heard.until(lambda: peer.heard.count(types.ResourceUpdatedNotification))
    await peer.client.unsubscribe_resource(uri)
    await peer.text("touch", uri=uri)
    await peer.text("greet", name="after")
    heard = [each for each in peer.heard.notifications if isinstance(each, types.ResourceUpdatedNotification)]
    uris = [str(each.params.uri) for each in heard]
    return [len(uris) == 1, uris[0]]


async def list_changed(peer: Peer) -> Any:
    kinds = {
        "prompts": types.PromptListChangedNotification,
        "resources": types.ResourceListChangedNotification,
        "tools": types.ToolListChangedNotification,
    }
    seen: list[Any] = []
    if peer.modern:
        async with peer.client.listen(
            tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True
        ) as stream:
            for change in ("extend", "shrink"):
                await peer.text(change)
                events = {type(await anext(stream)).__name__ for _ in kinds}
                seen += [sorted(event.removesuffix("ListChanged").lower() for event in events), await _extras(peer)]
        return seen
    for change in ("extend", "shrink"):
        peer.heard.notifications.clear()
        await peer.text(change)
        await peer.heard.until(lambda: all(map(peer.heard.count, kinds.values())))
        seen += [[name for name, kind in kinds.items() if peer.heard.count(kind)], await _extras(peer)]
    return seen


async def _extras(peer: Peer) -> list[str]:
    found = await lists(peer)
    return [name for names in found.values() for name in names if "extra" in name]


async def pinged(peer: Peer) -> Any:
    return (await peer.client.send_ping()).model_dump(exclude_none=True)


# HTTP


async def released(peer: Peer) -> Any:
    """The server ends the response early, and the client reconnects automatically."""
    resumed: list[bool] = []

    async def note(request: httpx2.Request) -> None:
        if "last-event-id" in request.headers:
            resumed.append(request.method == "GET")

    async with peer.connect(peer.target, peer.revision, hooks={"request": [note]}) as own:
        return [await own.text("break_off"), resumed]


async def resumed(peer: Peer) -> Any:
    """The client loses its connection during a call, and receives the result on another one."""
    name = f"resumed hold {uuid4()}"
    session_id = ""
    token: str | None = None
    came = anyio.Event()
    call = types.CallToolRequest(params=types.CallToolRequestParams(name="hold", arguments={"name": name}))

    async def note(response: httpx2.Response) -> None:
        nonlocal session_id
        session_id = response.headers.get("mcp-session-id", session_id)

    async def take(new: str) -> None:
        nonlocal token
        token = new

    async def begun(progress: float, total: float | None, message: str | None) -> None:
        came.set()

    async with httpx2.AsyncClient(event_hooks={"response": [note]}, timeout=WAIT_TIMEOUT) as http:
        transport = peer.target.transport(http_client=http, terminate_on_close=False)
        async with connect(peer.target, peer.revision, transport=transport) as lost:
            agreed = lost.agreed
            async with anyio.create_task_group() as group:
                metadata = ClientMessageMetadata(on_resumption_token_update=take)
                send = partial(lost.client.session.send_request, metadata=metadata, progress_callback=begun)
                group.start_soon(send, call, types.CallToolResult)
                await came.wait()
                while token is None:  # the SDK calls it after the message
                    await anyio.lowlevel.checkpoint()
                group.cancel_scope.cancel()
    await peer.text("let_go", name=name)

    async with httpx2.AsyncClient(headers={"mcp-session-id": session_id}, timeout=WAIT_TIMEOUT) as http:
        async with peer.target.transport(http_client=http) as streams, ClientSession(*streams) as session:
            session.adopt(agreed)
            metadata = ClientMessageMetadata(resumption_token=token)
            result = await session.send_request(call, types.CallToolResult, metadata=metadata)
            return text_of(result).removeprefix(name)


async def ended(peer: Peer) -> Any:
    """The client deletes its session when it closes, and no later request can use it."""
    session_id = ""
    statuses: list[int] = []

    async def note(response: httpx2.Response) -> None:
        nonlocal session_id
        session_id = response.headers.get("mcp-session-id", session_id)
        if response.request.method == "DELETE":
            statuses.append(response.status_code)

    async def note_post(response: httpx2.Response) -> None:
        if response.request.method == "POST":
            statuses.append(response.status_code)

    async with peer.connect(peer.target, peer.revision, hooks={"response": [note]}) as own:
        agreed = own.agreed
    headers, hooks = {"mcp-session-id": session_id}, {"response": [note_post]}
    async with httpx2.AsyncClient(headers=headers, event_hooks=hooks, timeout=WAIT_TIMEOUT) as http:
        async with peer.target.transport(http_client=http) as streams, ClientSession(*streams) as session:
            session.adopt(agreed)
            await failure_of(session.send_ping())
    return statuses


Behaviour: TypeAlias = Callable[[Peer], Awaitable[Any]]

_BEHAVIOURS: Mapping[str, Behaviour] = {
    behaviour.__name__: behaviour
    for behaviour in (
        negotiated,
        lists,
        described,
        called,
        structured,
        contents,
        mirrored,
        failed,
        missing,
        concurrent,
        progressed,
        cancelled,
        asked,
        opened,
        sampled,
        rooted,
        asked_together,
        asked_twice,
        asked_elsewhere,
        read,
        cached,
        prompted,
        completed,
        logged,
        updated,
        list_changed,
        pinged,
        released,
        resumed,
        ended,
    )
}


async def try_behaviours(
    target: Target, revision: str, names: Sequence[str], connect: Connect = connect
) -> dict[str, Any]:
    """Try the behaviours on one connection; return outcomes by name: ``{"saw": …}`` or ``{"failed": traceback}``."""
    report: dict[str, Any] = {}
    async with connect(target, revision) as peer:
        for name in names:
            peer.heard.clear()
            try:
                with anyio.fail_after(WAIT_TIMEOUT):
                    report[name] = {"saw": await _BEHAVIOURS[name](peer)}
                if peer.heard.faults:
                    raise ExceptionGroup("the client could not make sense of something", peer.heard.faults)
            except Exception:
                report[name] = {"failed": traceback.format_exc()}
    return report


async def carry_out(plan: Sequence[Mapping[str, Any]], connect: Connect = connect) -> dict[str, Any]:
    """Execute the runs of a plan. Revisions run one after the other; runs without a common server run concurrently."""
    reports: dict[str, Any] = {run["name"]: None for run in plan}

    async def carry_out_one(run: Mapping[str, Any]) -> None:
        target = Target(**run["target"])
        reports[run["name"]] = await try_behaviours(target, run["revision"], run["behaviours"], connect)

    for (revision, _), runs in groupby(plan, key=lambda run: (run["revision"], "sse" in run["target"])):
        if revision not in MODERN_PROTOCOL_VERSIONS:
            # A client offers the newest handshake revision that it supports; an old client supports only an old one.
            mcp.client.session.LATEST_HANDSHAKE_VERSION = revision  # type: ignore[attr-defined]
        async with anyio.create_task_group() as group:
            for run in runs:
                group.start_soon(carry_out_one, run)
    return reports


def main() -> None:
    # Half of the tested features are deprecated since 2026-07-28, which the SDK warns about.
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    print(json.dumps(anyio.run(carry_out, json.loads(sys.argv[1]))))


if __name__ == "__main__":
    main()
