"""Probes of fetch: allowed addresses, arguments, and the conversion of pages."""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from attrs import define, field

from plugin_probes.process import measured_call
from plugin_probes.trial import Probes, Trial, counted

__all__ = ["PAGES", "serve_site"]

_LOCAL: Mapping[str, Any] = {"allow_private": True}
_ARTICLE = (
    "<html><head><title>Peas</title></head><body><nav><a href='/menu'>The menu</a></nav><main><article><h1>Peas</h1>"
    + "<p>Sow them in April, two fingers deep, and give them something to climb, as gardeners always have.</p>" * 5
    + "<table><tr><th>Month</th><th>Work</th></tr><tr><td>April</td><td>sowing day</td></tr></table>"
    "<pre><code>plant --depth 2</code></pre></article></main></body></html>"
)
_PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d4944415478da63fcffff3f030005fe02fea7"
    "35c9a40000000049454e44ae426082"
)
_LARGE = 100_000_000


@define(eq=False)
class Site:
    """Pages on this machine; a proxy too, by which ``public.example`` leads here."""

    port: int
    asked: list[str] = field(factory=list)
    """The paths that were asked for."""
    robots: int = 404
    """The status of robots.txt."""

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"


def command(trial: Trial) -> tuple[str, ...]:
    return serve(trial, _LOCAL, "--allow-private-ips")


def serve(trial: Trial, settings: Mapping[str, Any], *arguments: str) -> tuple[str, ...]:
    """
    Args:
        settings: of ours.
        arguments: of the reference.
    """
    if trial.references is None:
        return trial.ours(settings)
    # It looks for node on PATH and, if it finds one, runs npm install during a call.
    path = f"PATH={trial.references.python.parent}"
    return ("/usr/bin/env", path, *trial.references.of_python("mcp_server_fetch", *arguments))


PAGES = Probes(
    "fetch",
    "`mcp-server-fetch` 2026.10.24",
    command,
    {},
    (
        "The arguments `max_length` and `start_index` are `limit` and `offset` in ours, as in all plugins.",
        "If Node is on `PATH`, the reference installs Mozilla's Readability for its first page and uses it; in this "
        "run it had no Node.",
        "Ours returns the text outside the article with `fetch_links` and `raw`, the reference with `raw`.",
        "Neither runs a page's scripts.",
    ),
    [],
)


@PAGES("An address of this machine, written in eight ways")
async def private(trial: Trial) -> str:
    with serve_site() as site:
        port = site.port
        hosts = ("127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "127.1")
        refused = 0
        async with trial.talk(serve(trial, {})) as talk:
            for host in hosts:
                refused += (await talk.call("fetch", url=f"http://{host}:{port}/page")).is_error
        return counted(refused, len(hosts), "refused") + f", {len(site.asked)} requests arrived"


@PAGES("A redirect from a public name to this machine (through a proxy)")
async def redirect(trial: Trial) -> str:
    with serve_site() as site:
        proxy = site.url("")
        async with trial.talk(serve(trial, {"proxy": proxy}, "--proxy-url", proxy)) as talk:
            answer = await talk.call("fetch", url="http://public.example/redirect")
        return "followed" if "Peas" in answer.text else str(answer)


@PAGES("A name that resolves to a public address for the check and to this machine for the connection (DNS rebinding)")
async def rebinding(trial: Trial) -> str:
    """Both processes have a resolver that answers in turn with a public address and with this machine's."""
    folder = trial.make_folder("resolver")
    (folder / "sitecustomize.py").write_text(_RESOLVER)
    with serve_site() as site:
        async with trial.talk(serve(trial, {"connect_timeout": 2}), env={"PYTHONPATH": str(folder)}) as talk:
            answer = await talk.call("fetch", url=f"http://rebinding.example:{site.port}/page")
        reached = f", {len(site.asked)} requests arrived"
        return ("returned the page of this machine" if "Peas" in answer.text else str(answer)) + reached


@PAGES("A request for one private host when only another private host is allowed")
async def one_host(trial: Trial) -> str:
    with serve_site() as site:
        settings = {"private_hosts": ["127.0.0.2"]}
        async with trial.talk(serve(trial, settings, "--allow-private-ips")) as talk:
            answer = await talk.call("fetch", url=site.url("/page"))
        return str(answer) if answer.is_error else "returned it: either all private addresses are allowed or none"


@PAGES("A page of 100 MB", is_measured=True)
async def large(trial: Trial) -> str:
    return await _memory(trial, "/large")


@PAGES("100 MB compressed to 100 kB", is_measured=True)
async def bomb(trial: Trial) -> str:
    return await _memory(trial, "/bomb")


@PAGES("A page that is sent one byte at a time and never ends (`request_timeout = 3` of ours)")
async def endless(trial: Trial) -> str:
    with serve_site() as site:
        settings = {**_LOCAL, "request_timeout": 3}
        async with trial.talk(serve(trial, settings, "--allow-private-ips")) as talk:
            return str(await talk.call("fetch", url=site.url("/endless"), timeout=8))


@PAGES("A long page read in four parts: requests that its site receives")
async def pieces(trial: Trial) -> str:
    with serve_site() as site:
        async with trial.talk(command(trial)) as talk:
            for start in range(0, 20_000, 5_000):
                await talk.call("fetch", url=site.url("/long"), **{"offset" if trial.is_ours else "start_index": start})
        return f"{site.asked.count('/long')} for the page, {site.asked.count('/robots.txt')} for robots.txt"


@PAGES("robots.txt answered with status 500")
async def robots(trial: Trial) -> str:
    with serve_site() as site:
        site.robots = 500
        async with trial.talk(command(trial)) as talk:
            return str(await talk.call("fetch", url=site.url("/page")))


@PAGES("An image")
async def picture(trial: Trial) -> str:
    with serve_site() as site:
        async with trial.talk(command(trial)) as talk:
            answer = await talk.call("fetch", url=site.url("/picture.png"))
        if answer.is_error:
            return str(answer)
        return "returned as an image" if "ImageContent" in answer.kinds else "returned as text: " + str(answer)


@PAGES("A page with a menu, an article, a table and code: contents of the Markdown")
async def markdown(trial: Trial) -> str:
    with serve_site() as site:
        async with trial.talk(command(trial)) as talk:
            text = (await talk.call("fetch", url=site.url("/page"))).text
        parts = {"menu": "The menu", "article": "two fingers", "table": "sowing day", "code": "plant --depth"}
        return ", ".join(name for name, words in parts.items() if words in text) or "nothing"


async def _memory(trial: Trial, path: str) -> str:
    with serve_site() as site:
        got = await measured_call(command(trial), "fetch", {"url": site.url(path)}, cwd=trial.folder, env={})
    return f"{got.milliseconds / 1000:.1f} s, memory up to {got.memory:,.0f} MiB"


@contextmanager
def serve_site() -> Iterator[Site]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.site = Site(server.server_port)  # type: ignore[attr-defined]
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever, name="site")
        thread.start()
        try:
            yield server.site  # type: ignore[attr-defined]
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        site: Site = self.server.site  # type: ignore[attr-defined]
        path = "/" + self.path.partition("://")[2].partition("/")[2] if "://" in self.path else self.path
        site.asked.append(path)
        try:
            self._answer(site, path)
        except OSError:
            pass  # it does not want to read on

    def _answer(self, site: Site, path: str) -> None:
        if path == "/robots.txt":
            self._send(site.robots, "text/plain", b"out of order" if site.robots == 500 else b"")
        elif path == "/redirect":
            self._send(302, "text/plain", b"", Location=site.url("/page"))
        elif path == "/page":
            self._send(200, "text/html", _ARTICLE.encode())
        elif path == "/long":
            self._send(200, "text/plain", b"A line of a long page.\n" * 1_000)
        elif path == "/picture.png":
            self._send(200, "image/png", _PNG)
        elif path == "/bomb":
            self._send(200, "text/plain", gzip.compress(b"a" * _LARGE, 5), **{"Content-Encoding": "gzip"})
        elif path == "/large":
            self._head(200, "text/plain", _LARGE)
            for _ in range(_LARGE // 1_000_000):
                self.wfile.write(b"a" * 1_000_000)
        elif path == "/endless":
            self._head(200, "text/plain", _LARGE)
            until = time.monotonic() + 15
            while time.monotonic() < until:
                self.wfile.write(b"a")
                time.sleep(0.1)
        else:
            self._send(404, "text/plain", b"")

    def _send(self, status: int, kind: str, body: bytes, **headers: str) -> None:
        self._head(status, kind, len(body), **headers)
        self.wfile.write(body)

    def _head(self, status: int, kind: str, length: int, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(length), **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


_RESOLVER = """
import socket

_real = socket.getaddrinfo
_asked = 0


def getaddrinfo(host, port, family=0, type=0, proto=0, flags=0):
    global _asked
    name = host.decode() if isinstance(host, bytes) else host
    if name == "rebinding.example":
        if flags & socket.AI_NUMERICHOST:
            raise socket.gaierror(socket.EAI_NONAME, "not a number")
        host = "127.0.0.1" if _asked % 2 else "93.184.216.34"
        _asked += 1
    return _real(host, port, family, type, proto, flags)


socket.getaddrinfo = getaddrinfo
"""
