"""The ASGI application: routes, checks of each request, and headers of each response.

The pages, their updates and the actions need a browser session; only the style sheet, the script, the redirects to the
first page and the sign-in do not. An action also needs the token of a form that this process has rendered. A POST
request with a foreign ``Origin`` is refused.

Source: Content Security Policy level 3; Fetch Metadata Request Headers; RFC 6265bis section 5.6.7 (SameSite).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256
from hmac import compare_digest
from importlib.resources import files
from typing import Any, Final
from urllib.parse import urlsplit

import orjson
from attrs import frozen
from jinja2 import Environment, PackageLoader
from quart import Response, request
from quart_trio import QuartTrio
from werkzeug.exceptions import HTTPException

from mcptrio.abc import RequestHead
from mcptrio.serving import ConsoleOptions

from .access import ConsoleAccess, Visitor
from .actions import Actions, audit
from .live import LiveBody
from .status_watch import MAX_VIEWERS, StatusWatch
from .text import byte_count, cut, duration, milliseconds, state_of, user_of
from .tool_calls import ToolCaller
from .tool_forms import PREFIX, arguments_of, fields_of
from .wire import WireRecorder

__all__ = ["PATH", "ConsolePage", "make_app"]

PATH: Final = "/console"
_PACKAGE: Final = "mcptrio_console"
_MAX_BODY_BYTES: Final = 256 * 1024
_REQUEST_TIMEOUT: Final = 20.0
_MAX_SCHEMA_CHARS: Final = 32 * 1024
_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self';"
    " form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_SAFE_SITES: Final = ("same-origin", "none")
"""Accepted values of ``Sec-Fetch-Site``: our own pages, and addresses that the user has typed."""
_STATIC: Final = {
    name: (kind, files(_PACKAGE).joinpath("static", name).read_bytes())
    for name, kind in (("console.css", "text/css"), ("console.js", "text/javascript"))
}
_VERSION: Final = sha256(b"".join(content for _, content in _STATIC.values())).hexdigest()[:12]

_log = logging.getLogger("mcptrio.console")


@frozen
class ConsolePage:
    """One page of the console.

    Args:
        name: The name of its template and its path. The first page is at the root.
        values: Returns the values of the template for a query. Raises LookupError if there is nothing to show.
        is_live: True if the page is updated while it is open.
    """

    name: str
    title: str
    values: Callable[[Mapping[str, str]], dict[str, Any]]
    is_live: bool = True
    is_in_menu: bool = True


class ConsoleWeb:
    """The handlers of the application."""

    def __init__(
        self,
        name: str,
        pages: list[ConsolePage],
        access: ConsoleAccess,
        actions: Actions,
        tools: ToolCaller,
        watch: StatusWatch,
        options: ConsoleOptions,
        wire: WireRecorder,
    ) -> None:
        self._wire = wire
        self._pages = {page.name: page for page in pages}
        self._access = access
        self._actions = actions
        self._tools = tools
        self._watch = watch
        self._options = options
        self._templates = Environment(
            loader=PackageLoader(_PACKAGE), autoescape=True, trim_blocks=True, lstrip_blocks=True
        )
        self._templates.filters.update(duration=duration, milliseconds=milliseconds, cut=cut, bytes=byte_count)
        self._templates.filters.update(user=user_of, state=state_of)
        self._templates.globals.update(
            server=name,
            path=PATH,
            version=_VERSION,
            pages=[(page.name, page.title) for page in pages if page.is_in_menu],
            read_only=options.read_only,
            accepts_tokens=access.accepts_tokens,
        )

    # Pages

    async def static(self, name: str) -> Response:
        kind, content = _STATIC[name]
        return Response(content, content_type=f"{kind}; charset=utf-8", headers={"Cache-Control": "max-age=86400"})

    async def start_page(self) -> Response:
        token = request.args.get("token")
        if token is not None:
            cookie = self._access.redeem(token, request.remote_addr)
            if cookie is None:
                return self._refuse(
                    "This link was used before, or another process has printed it. The log has a new one."
                )
            return self._start_session(cookie)
        return await self.page("now")

    async def page(self, name: str) -> Response:
        visitor, page = await self._visitor(), self._pages.get(name)
        if visitor is None:
            return self._refuse(None)
        if page is None:
            return self._problem(404, "There is no such page.")
        query = request.args.to_dict()
        try:
            values = page.values(query)
        except LookupError as error:
            return self._problem(404, str(error))
        values |= {"notes": list(visitor.notes), "page": page, "query": query, "visitor": visitor}
        visitor.notes.clear()
        html = self._templates.get_template(f"{name}.html").render(**values)
        return Response(html, content_type="text/html; charset=utf-8")

    async def tool(self) -> Response:
        """Show the form of a tool."""
        visitor = await self._visitor()
        return self._refuse(None) if visitor is None else await self._tool(request.args.get("name", ""), visitor, {})

    async def download(self) -> Response:
        """Send the recording as JSON Lines."""
        visitor, recorded = await self._visitor(), self._wire.recorded
        if visitor is None:
            return self._refuse(None)
        if recorded is None:
            return self._problem(404, "Nothing was recorded.")
        audit(visitor, "download", recorded.subject)
        headers = {"Content-Disposition": 'attachment; filename="recording.jsonl"'}
        return Response(b"".join(recorded.recording.lines), content_type="application/jsonl", headers=headers)

    async def live(self, name: str) -> Response:
        visitor, page = await self._visitor(), self._pages.get(name)
        if visitor is None:
            return self._problem(401, "The session has expired.")
        if page is None or not page.is_live:
            return self._problem(404, "There is no such page.")
        if self._watch.viewers >= MAX_VIEWERS:
            return self._problem(503, "Too many pages are open.")
        template, query = self._templates.get_template(f"{name}_live.html"), request.args.to_dict()
        query.pop("token", None)
        cookie = self._cookie()

        def render() -> str:
            return template.render(**page.values(query), page=page, query=query, visitor=visitor)

        async def has_access() -> bool:
            return await self._access.visitor_of(cookie) is visitor

        body = LiveBody(self._watch, render, has_access)
        response = Response(b"", content_type="text/event-stream")
        response.response = body
        response.headers.pop("Content-Length", None)
        response.headers["X-Accel-Buffering"] = "no"
        response.timeout = None
        return response

    # Forms

    async def sign_in(self) -> Response:
        form = await request.form
        headers = {name.lower(): [value] for name, value in request.headers.items() if name.lower() != "authorization"}
        token = form.get("token", "").strip()
        head = RequestHead(
            method="POST",
            url=request.base_url,
            headers={**headers, "authorization": [f"Bearer {token}"]},
            address=request.remote_addr,
            is_outside_endpoint=True,
        )
        cookie = await self._access.sign_in(token, head) if token.isascii() and token.isprintable() else None
        if cookie is None:
            return self._refuse(
                "This access token is not accepted. It may be unknown or expired, or lack the scope of the console."
            )
        return self._start_session(cookie)

    async def act(self, name: str) -> Response:
        visitor = await self._visitor()
        if visitor is None:
            return self._refuse(None)
        form = await request.form
        if not compare_digest(form.get("form_token", "").encode(), visitor.form_token.encode()):
            return self._problem(403, "This form has expired. Reload the page, and send the form again.")
        if name == "leave":
            self._access.sign_out(self._cookie())
            response = _redirect("")
            response.delete_cookie(self._cookie_name(), path=PATH)
            return response
        if self._options.read_only:
            return self._problem(403, "The console is read-only.")
        if name == "call":
            return await self._tool(form.get("tool", ""), visitor, form.to_dict())
        result = await self._actions.run(name, form.to_dict(), visitor)
        if result is None:
            return self._problem(404, "There is no such action.")
        self._watch.renew()
        visitor.notes.append(result)
        return _redirect(_console_path(form.get("back", "")))

    # Every request

    async def check(self) -> Response | None:
        """Refuse requests from other hosts and origins."""
        if not self._options.is_host_served(request.headers.get("Host")):
            return self._problem(421, "Host: not served here.")
        if request.method != "POST":
            return None
        site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
        is_own = origin is None or urlsplit(origin).netloc == request.headers.get("Host")
        if not is_own or (site is not None and site not in _SAFE_SITES):
            _log.warning("a form of another origin was refused: %s", cut(origin, 100))
            return self._problem(403, "Origin: not allowed.")
        return None

    async def add_headers(self, response: Response) -> Response:
        headers = response.headers
        headers.setdefault("Cache-Control", "no-store")
        headers["Content-Security-Policy"] = _POLICY
        headers["X-Content-Type-Options"] = "nosniff"
        headers["X-Frame-Options"] = "DENY"
        # Other sites must not get the token in the query of the link. "no-referrer" would also hide the origin of our
        # own forms.
        headers["Referrer-Policy"] = "same-origin"
        headers["Cross-Origin-Opener-Policy"] = "same-origin"
        headers["Cross-Origin-Resource-Policy"] = "same-origin"
        return response

    async def http_error(self, error: HTTPException) -> Response:
        return self._problem(error.code or 500, error.name)

    async def internal_error(self, _error: Exception) -> Response:
        return self._problem(500, "The console has failed; the log has the traceback.")

    # Private

    async def _tool(self, name: str, visitor: Visitor, form: Mapping[str, str]) -> Response:
        """Show a tool, and its result if a form was sent."""
        tool = await self._tools.find(name)
        if tool is None:
            return self._problem(404, "There is no such tool, or anonymous clients may not see it.")
        fields = fields_of(tool.input_schema, form)
        outcome, problem = None, ""
        if form:
            try:
                arguments = arguments_of(fields)
            except ValueError as error:
                problem = str(error)
            else:
                audit(visitor, "call", cut(name))
                outcome = await self._tools.call(name, arguments)
                self._watch.renew()
        schema = orjson.dumps(tool.input_schema, option=orjson.OPT_INDENT_2).decode()
        values = {"tool": tool, "fields": fields, "prefix": PREFIX, "outcome": outcome, "problem": problem}
        values["schema"] = cut(schema, _MAX_SCHEMA_CHARS)
        html = self._templates.get_template("tool.html").render(**values, page=self._pages["tools"], visitor=visitor)
        return Response(html, content_type="text/html; charset=utf-8")

    async def _visitor(self) -> Visitor | None:
        return await self._access.visitor_of(self._cookie())

    def _cookie(self) -> str | None:
        return request.cookies.get(self._cookie_name())

    def _cookie_name(self) -> str:
        # Browsers send a cookie to all ports of a host, and a machine may run several consoles.
        port = urlsplit(f"//{request.headers.get('Host', '')}").port
        return f"mcptrio_console_{port or 0}"

    def _start_session(self, cookie: str) -> Response:
        response = _redirect("")
        secure = request.scheme == "https"
        response.set_cookie(self._cookie_name(), cookie, path=PATH, httponly=True, samesite="Strict", secure=secure)
        return response

    def _refuse(self, problem: str | None) -> Response:
        html = self._templates.get_template("sign_in.html").render(problem=problem)
        return Response(html, 401, content_type="text/html; charset=utf-8")

    def _problem(self, status: int, text: str) -> Response:
        html = self._templates.get_template("problem.html").render(text=text)
        return Response(html, status, content_type="text/html; charset=utf-8")


def make_app(
    name: str,
    pages: list[ConsolePage],
    access: ConsoleAccess,
    actions: Actions,
    tools: ToolCaller,
    watch: StatusWatch,
    options: ConsoleOptions,
    wire: WireRecorder,
) -> QuartTrio:
    """Return the application.

    Args:
        name: The name of the server.
        pages: The pages, in the order of the menu.
    """
    app = QuartTrio("mcptrio_console", static_folder=None)
    app.config.update(
        MAX_CONTENT_LENGTH=_MAX_BODY_BYTES,
        BODY_TIMEOUT=_REQUEST_TIMEOUT,
        RESPONSE_TIMEOUT=_REQUEST_TIMEOUT,
        PROPAGATE_EXCEPTIONS=False,
    )
    web = ConsoleWeb(name, pages, access, actions, tools, watch, options, wire)

    def route(path: str, handler: Any, method: str = "GET", **given: str) -> None:
        name = f"{method} {path}"
        view = partial(handler, **given)
        app.add_url_rule(f"{PATH}{path}", name, view, methods=[method], provide_automatic_options=False)

    async def redirect_to_start() -> Response:
        return _redirect("")

    for file in _STATIC:
        route(f"/{file}", web.static, name=file)
    app.add_url_rule("/", "root", redirect_to_start, methods=["GET"], provide_automatic_options=False)
    route("", redirect_to_start)
    route("/", web.start_page)
    route("/tool", web.tool)
    route("/recording.jsonl", web.download)
    route("/<name>", web.page)
    route("/live/<name>", web.live)
    route("/sign_in", web.sign_in, "POST")
    route("/actions/<name>", web.act, "POST")
    app.before_request(web.check)
    app.after_request(web.add_headers)
    app.register_error_handler(HTTPException, web.http_error)
    app.register_error_handler(500, web.internal_error)
    return app


def _redirect(path: str) -> Response:
    """Return a redirect to a page."""
    return Response(b"", 303, headers={"Location": f"{PATH}/{path}"})


def _console_path(path: str) -> str:
    """Return the page to which a form leads back; the first page if the path is not one of the console."""
    parts = urlsplit(path)
    is_own = not parts.scheme and not parts.netloc and path[:1].isalpha() and path.isascii() and path.isprintable()
    return path if is_own and "\\" not in path and len(path) < 500 else ""
