"""A headless Chromium, controlled through the DevTools protocol.

The tests of the pages use it. They send keys, and read the accessibility tree, so they work with scripts disabled. On a
machine without Chromium they fail and name what to install.

Source: chromedevtools.github.io/devtools-protocol (Target, Page, Input, Accessibility, Emulation).
"""

from __future__ import annotations

import base64
import itertools
import json
import re
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import trio
import trio_websocket
from attrs import define, field

from tests.node import find_node

OPTIONS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-features=Translate,MediaRouter,OptimizationHints",
    "--remote-debugging-port=0",
]
MISSING = "expected Chromium, found none: apt-get install -y --no-install-recommends chromium"
SECONDS = 300
"""The limit for a whole test. A test takes four seconds, but the first start on a busy machine reads 300 MB."""
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
"""The rules of axe-core that pages must follow."""
KEYS = {"Tab": 9, "Enter": 13, "Space": 32}


@define(eq=False)
class Browser:
    """One page of the browser."""

    socket: Any
    session: str = ""
    answers: dict[int, trio.MemorySendChannel[Any]] = field(factory=dict)
    events: list[Mapping[str, Any]] = field(factory=list)
    heard: trio.Condition = field(factory=trio.Condition)
    numbers: Any = field(factory=lambda: itertools.count(1))

    async def call(self, method: str, **params: Any) -> Any:
        """Call a method of the protocol and return its result."""
        number = next(self.numbers)
        send, receive = trio.open_memory_channel[Any](1)
        self.answers[number] = send
        message = {"id": number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        await self.socket.send_message(json.dumps(message))
        async with receive:
            answer = await receive.receive()
        if "error" in answer:
            raise AssertionError(f"{method}: {answer['error']}")
        return answer["result"]

    async def listen(self) -> None:
        """Receive events until the browser ends."""
        try:
            while True:
                message = json.loads(await self.socket.get_message())
                if "id" in message:
                    await self.answers.pop(message["id"]).send(message)
                else:
                    async with self.heard:
                        self.events.append(message)
                        self.heard.notify_all()
        except trio_websocket.ConnectionClosed:
            return

    async def until(self, is_it: Callable[[Mapping[str, Any]], bool], begin: int = 0) -> Mapping[str, Any]:
        """Return the first event from position ``begin`` for which the condition holds."""
        while True:
            for event in self.events[begin:]:
                if is_it(event):
                    return event
            async with self.heard:
                await self.heard.wait()

    async def leads_on(self, action: Callable[[], Any]) -> None:
        """Do something that opens another page, and wait for that page."""
        begin = len(self.events)
        await action()
        await self.until(lambda event: event["method"] == "Page.loadEventFired", begin)

    async def open(self, url: str) -> None:
        await self.leads_on(partial(self.call, "Page.navigate", url=url))

    async def url(self) -> str:
        history = await self.call("Page.getNavigationHistory")
        return str(history["entries"][history["currentIndex"]]["url"])

    async def press(self, key: str) -> None:
        text = {"Enter": "\r", "Space": " "}.get(key)
        common = {"key": " " if key == "Space" else key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
        await self.call("Input.dispatchKeyEvent", type="keyDown", **common, **({"text": text} if text else {}))
        await self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    async def type(self, text: str) -> None:
        for character in text:
            await self.call("Input.dispatchKeyEvent", type="char", text=character)

    async def tree(self) -> list[dict[str, Any]]:
        """Return role, name and properties of every accessible node, in order."""
        nodes = (await self.call("Accessibility.getFullAXTree"))["nodes"]
        return [
            {
                "role": node["role"]["value"],
                "name": node.get("name", {}).get("value", ""),
                "description": node.get("description", {}).get("value", ""),
                **{each["name"]: each["value"].get("value") for each in node.get("properties", ())},
            }
            for node in nodes
            if not node["ignored"]
        ]

    async def focused(self) -> tuple[str, str]:
        """Return role and name of the focused node."""
        for node in await self.tree():
            if node.get("focused") and node["role"] not in ("RootWebArea", "WebArea"):
                return node["role"], node["name"]
        return "", ""

    async def show(self, *, scheme: str | None = None, width: int | None = None, height: int = 900) -> None:
        """Set the colour scheme, or the width of the window."""
        if scheme is not None:
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            await self.call("Emulation.setEmulatedMedia", features=features)
        if width is not None:
            size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
            await self.call("Emulation.setDeviceMetricsOverride", **size)

    async def screenshot(self) -> bytes:
        """Return a picture of the window, as WebP."""
        return base64.b64decode((await self.call("Page.captureScreenshot", format="webp", quality=70))["data"])

    async def evaluate(self, script: str) -> Any:
        """Return the value of a script of the test, on pages that allow scripts."""
        result = await self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")


def read_axe() -> str:
    """axe-core, which checks the accessibility of a page."""
    home = find_node().install(Path(__file__).parent / "axe")
    return (home / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")


async def check_accessibility(browser: Browser, axe: str) -> None:
    """Check the page in light and dark.

    Args:
        axe: The source of axe-core.
    """
    for scheme in ("light", "dark"):
        await browser.show(scheme=scheme)
        await browser.evaluate(axe)
        options = {"runOnly": list(RULES)}
        result = await browser.evaluate(
            f"axe.run(document, {options}).then(r => ({{bad: r.violations, unsure: r.incomplete.map(i => i.id),"
            " good: r.passes.map(p => p.id)}))"
        )
        wrong = [(each["id"], [node["html"] for node in each["nodes"]]) for each in result["bad"]]
        assert not wrong, scheme
        assert {"color-contrast", "document-title", "html-has-lang"} <= {*result["good"]}
        assert not result["unsure"], scheme
    tree = await browser.tree()
    headings = [node["level"] for node in tree if node["role"] == "heading"]
    assert headings[0] == 1
    assert headings.count(1) == 1
    assert sum(node["role"] == "main" for node in tree) == 1


@asynccontextmanager
async def open_browser(folder: Path) -> AsyncIterator[Browser]:
    """Start the browser.

    Args:
        folder: An empty folder for its profile.
    """
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        raise AssertionError(MISSING)
    command = [program, *OPTIONS, f"--user-data-dir={folder}", "about:blank"]
    with trio.fail_after(SECONDS):
        async with trio.open_nursery() as nursery:
            process = await nursery.start(_run, command)
            url = await _address(process)
            async with trio_websocket.open_websocket_url(url, max_message_size=64 * 2**20) as socket:
                browser = Browser(socket)
                nursery.start_soon(browser.listen)
                target = (await browser.call("Target.createTarget", url="about:blank"))["targetId"]
                attached = await browser.call("Target.attachToTarget", targetId=target, flatten=True)
                browser.session = attached["sessionId"]
                for domain in ("Page", "Accessibility", "Runtime", "Network"):
                    await browser.call(f"{domain}.enable")
                yield browser
                browser.session = ""
                await browser.call("Browser.close")
            await process.wait()


async def _run(command: list[str], task_status: trio.TaskStatus[trio.Process]) -> None:
    process = await trio.lowlevel.open_process(command, stdin=-3, stdout=-3, stderr=-1)
    task_status.started(process)
    try:
        await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
        assert process.stderr is not None
        await process.stderr.aclose()


async def _address(process: trio.Process) -> str:
    """Return the address of the DevTools protocol from the browser's output."""
    received = b""
    assert process.stderr is not None
    async for data in process.stderr:
        received += data
        if match := re.search(rb"DevTools listening on (ws://\S+)\s", received):
            return match[1].decode()
    raise AssertionError(f"expected Chromium to listen, got: {received.decode('utf-8', 'replace')[-2000:]}")
