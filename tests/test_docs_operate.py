"""docs/operate.md: its server, its collector, its Prometheus and its commands run, and show what the page says."""

from __future__ import annotations

import html
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import httpx2

from tests.processes import WAIT_TIMEOUT, Served, environment, serving
from tests.telemetry.test_prometheus import free_port
from tests.test_readme import blocks_of

__all__: list[str] = []

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "operate.md").read_text("utf-8")
BLOCKS = list(blocks_of(PAGE, "docs/operate.md"))
SCRIPTS = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def eventually(read: Callable[[], str], pattern: str) -> re.Match[str]:
    """Read until there is a match."""
    ends = time.monotonic() + WAIT_TIMEOUT
    while not (match := re.search(pattern, text := read())):
        assert time.monotonic() < ends, f"no {pattern!r} in {text}"
        time.sleep(0.1)
    return match


def plain(page: httpx2.Response) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page.text)).split())


class Guide:
    """Runs blocks of the page, with free ports in place of those on it."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self.ports = {name: str(free_port()) for name in ("4318", "8000", "9464", "9090")}
        for block in BLOCKS:
            if block.language == "python":
                self._write(block.text.partition("\n")[0].removeprefix("# "), block.text)
            elif block.language == "yaml":
                self._write("prometheus.yml", block.text)

    def here(self, text: str) -> str:
        return re.sub(r"\b(4318|8000|9464|9090)\b", lambda found: self.ports[found[0]], text)

    def start(self, beginning: str) -> Served:
        """Start the command that contains a text. Its output goes to its standard error."""
        [line] = [
            line for block in BLOCKS if block.language == "sh" for line in block.text.splitlines() if beginning in line
        ]
        env = {"PATH": SCRIPTS, "MCPTRIO_HTTP_PORT": self.ports["8000"]}
        script = f"exec 1>&2\nexec env {self.here(line)}"
        return self._stack.enter_context(serving(command=["bash", "-c", script], cwd=self._folder, env=env))

    def run(self, command: str) -> str:
        result = subprocess.run(
            shlex.split(self.here(command)),
            cwd=self._folder,
            env=environment(PATH=SCRIPTS),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=WAIT_TIMEOUT,
            check=False,
        )
        return result.stdout

    def _write(self, name: str, text: str) -> None:
        (self._folder / name).write_text(self.here(text))


def examples() -> list[tuple[str, str]]:
    """Return each command with a pattern of its output."""
    parts = [
        part
        for block in BLOCKS
        if block.language == "console"
        for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]
    ]
    pairs = [part.rstrip().partition("\n") for part in parts]
    return [(command, re.escape(output).replace("…", r"[\s\S]*")) for command, _, output in pairs]


def test_guide_leads_to_a_console_a_dashboard_and_a_trace(tmp_path: Path) -> None:
    (works, one), (slow, late), (top, tree), (query, failed) = examples()
    with ExitStack() as stack:
        guide = Guide(tmp_path, stack)
        collector = guide.start("python collector.py")
        server = guide.start("mcptrio serve")
        link = server.until(r"(?m)^console (http://\S+)$")[1]
        browser = stack.enter_context(httpx2.Client(follow_redirects=True, timeout=WAIT_TIMEOUT))
        assert browser.get(link).status_code == 200
        base = link.partition("?")[0]

        assert re.fullmatch(one, guide.run(works).rstrip("\n"))
        call = subprocess.Popen(
            shlex.split(guide.here(slow)),
            cwd=tmp_path,
            env=environment(PATH=SCRIPTS),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        stack.callback(call.kill)
        trace = eventually(
            lambda: plain(browser.get(base)),
            r"“water” of mcptrio [^“]*? runs in orchard; its deadline is in [^“]*? s\.",
        )[0]
        requests = plain(browser.get(f"{base}tree"))
        assert re.fullmatch(tree, guide.run(top).rstrip("\n"))
        # On a busy machine it notices some hundredths of a second later.
        text = re.sub(r"after 8\.\d\d s", "after 8 s", call.communicate(timeout=WAIT_TIMEOUT)[0])
        assert re.fullmatch(late, text.rstrip("\n"))

        [quoted] = re.findall(r"^> (.*)$", PAGE, re.MULTILINE)
        assert re.sub(r"\d+(\.\d)?", "0", trace) == re.sub(r"\d+(\.\d)?", "0", quoted)
        assert re.search(r"mcptrio session \d+, http, .*water tools/call \d+ age .* deadline in .* of 30", requests)

        prometheus = guide.start("prometheus ")
        prometheus.until("Server is ready to receive web requests")
        eventually(lambda: guide.run(query), failed)

        collector.until(r"(?m)^[0-9a-f]{8} tools/call pick 0\.\d{3} s")
        collector.until(r"(?m)^[0-9a-f]{8} tools/call water 8\.\d{3} s water timed out after 8(\.\d\d)? s")
