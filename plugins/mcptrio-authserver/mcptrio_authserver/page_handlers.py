"""The HTTP handlers of the pages: login, consent, upstream login, grants and logout.

:mod:`.web` routes to them. Each step reads the client's request again from the query.

Source: OAuth 2.1 sections 4.1.1, 4.1.2 and 7.5.4 (303 after a password); MCP security best practices, "Confused Deputy
Problem".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .authorization_requests import ReturnedRefusal
from .browser_sessions import cookie_name, form_token, is_form_token
from .forms import body_of_request, read_form
from .opaque import new_opaque
from .pages import client_values, consent_forms, consent_values, grants_values, policy, problem_sentence
from .redirect_uris import host_of
from .refusals import Refusal
from .service import AuthServerRequest, Service

if TYPE_CHECKING:
    from quart import Response

__all__ = ["PageHandlers"]


class PageHandlers:
    """The handlers of the pages."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._config = service.config
        self._addresses = service.config.addresses

    async def authorize(self) -> Response:
        from quart import request

        query = bytes(request.query_string)
        cookie = self._cookie()
        authorization = await self._service.read_request(query, cookie, request.remote_addr)
        if authorization.request.silent:
            error = "login_required" if authorization.session is None else "consent_required"
            raise authorization.request.refusal(error, "prompt=none, but the user has to log in or consent")
        if authorization.session is None and self._config.upstream is None:
            return await self._login_page(authorization, cookie)
        return await self._consent_page(authorization, cookie)

    async def log_in(self) -> Response:
        from quart import request

        form = await self._form()
        cookie = self._cookie()
        query = bytes(request.query_string)
        # Without a client's request, the user comes from the page of grants.
        authorization = await self._service.read_request(query, None, request.remote_addr) if query else None
        self._check_form_token(form, cookie, _query_of(authorization), "login")
        name, password = form.get("username", "")[:64], form.get("password", "")
        result = await self._service.log_in(name, password, request.remote_addr)
        if result.cookie is None:
            if result.wait > 0:
                minutes = max(1, round(result.wait / 60))
                return await self._login_page(
                    authorization,
                    cookie,
                    problem=f"Too many attempts. Try again in {minutes} {'minute' if minutes == 1 else 'minutes'}.",
                    status=429,
                    wait=result.wait,
                )
            problem = "Wrong user name or password. Check both, and try again."
            return await self._login_page(authorization, cookie, problem=problem, name=name, status=403)
        url = self._addresses.url
        response = self._redirect(
            f"{url('authorize')}?{_query_of(authorization)}" if authorization is not None else url("grants")
        )
        self._set_cookie(response, result.cookie)
        return response

    async def consent(self) -> Response:
        from quart import request

        form = await self._form()
        cookie = self._cookie()
        authorization = await self._service.read_request(bytes(request.query_string), cookie, request.remote_addr)
        self._check_form_token(form, cookie, authorization.request.query, _consent_form(authorization))
        decision = form.get("decision")
        if decision == "switch" and cookie is not None:
            await self._service.log_out(cookie)
            response = self._redirect(f"{self._addresses.url('authorize')}?{authorization.request.query}")
            self._set_cookie(response, new_opaque())
            return response
        if decision != "allow":
            refusal = authorization.request.refusal("access_denied", "the user denied the request")
            return self._redirect(refusal.location)
        if self._config.upstream is not None and cookie is not None:
            return self._redirect(
                await self._service.send_upstream(authorization, authorization.scopes, cookie, request.remote_addr)
            )
        if authorization.session is None:
            raise Refusal("access_denied", "expected a logged-in user", status=403)
        return self._redirect(await self._service.allow(authorization, authorization.scopes))

    async def upstream(self) -> Response:
        from quart import request

        cookie = self._cookie()
        if cookie is None:
            raise Refusal("invalid_request", "expected the browser in which the login was started")
        try:
            location = await self._service.return_from_upstream(
                bytes(request.query_string), cookie, request.remote_addr
            )
        except ReturnedRefusal as refusal:
            # The user has consented to this client, so it may receive the error.
            return self._redirect(refusal.location)
        return self._redirect(location)

    async def logout(self) -> Response:
        cookie = self._cookie()
        session = await self._service.session(cookie)
        values: dict[str, Any] = {"user": None}
        if session is not None and cookie is not None:
            values = {
                "user": session.user,
                "action": self._addresses.path("logout"),
                "form_token": form_token(cookie, "", "logout"),
                "grants": self._addresses.path("grants"),
            }
        return await self._page("logout.html", values)

    async def log_out(self) -> Response:
        form = await self._form()
        cookie = self._check_form_token(form, self._cookie(), "", "logout")
        await self._service.log_out(cookie)
        response = self._redirect(self._addresses.url("logout"))
        self._set_cookie(response, new_opaque())
        return response

    async def grants(self) -> Response:
        cookie = self._cookie()
        session = await self._service.session(cookie)
        if session is None or cookie is None:
            return await self._login_page(None, cookie)
        grants = await self._service.grants(session)
        return await self._page(
            "grants.html",
            {
                **grants_values(self._config, grants),
                "user": session.user,
                "action": self._addresses.path("grants"),
                "logout": self._addresses.path("logout"),
                "form_tokens": {grant.id: form_token(cookie, "", f"end {grant.id}") for grant in grants},
            },
        )

    async def end_grant(self) -> Response:
        form = await self._form()
        grant = form.get("grant", "")
        cookie = self._check_form_token(form, self._cookie(), "", f"end {grant}")
        session = await self._service.session(cookie)
        if session is not None:
            await self._service.end_grant(session, grant)
        # If the session has ended, that page asks for the login first.
        return self._redirect(self._addresses.url("grants"))

    async def problem(self, error: Refusal) -> Response:
        """Show an error, or redirect it to a client that the operator registered."""
        client = location = None
        if isinstance(error, ReturnedRefusal):
            client, location = error.client, error.location
            # Any other client could register to turn this server into an open redirector, so the user sees the error
            # and a link.
            if client.is_trusted:
                return self._redirect(location)
        return await self._page(
            "problem.html",
            {
                "sentence": problem_sentence(error.error, client),
                "error": error.error,
                "description": error.description,
                "location": location,
                "host": host_of(location) if location is not None else None,
            },
            status=error.status,
            headers=error.headers,
        )

    # Private

    async def _login_page(
        self,
        authorization: AuthServerRequest | None,
        cookie: str | None,
        *,
        problem: str | None = None,
        name: str = "",
        status: int = 200,
        wait: float = 0,
    ) -> Response:
        browser_cookie = cookie if cookie is not None else new_opaque()
        query = _query_of(authorization)
        response = await self._page(
            "login.html",
            {
                **(client_values(authorization.request) if authorization is not None else {}),
                "action": f"{self._addresses.path('login')}?{query}" if query else self._addresses.path("login"),
                "form_token": form_token(browser_cookie, query, "login"),
                "problem": problem,
                "username": name,
            },
            status=status,
            headers={"Retry-After": str(max(1, round(wait)))} if wait > 0 else {},
        )
        if cookie is None:
            self._set_cookie(response, browser_cookie)
        return response

    async def _consent_page(self, authorization: AuthServerRequest, cookie: str | None) -> Response:
        browser_cookie = cookie if cookie is not None else new_opaque()
        request = authorization.request
        provider = await self._service.provider_endpoint()
        user = authorization.session.user if authorization.session is not None else None
        values = consent_values(self._config, request, authorization.scopes, user=user)
        response = await self._page(
            "consent.html",
            {
                **values,
                "action": f"{self._addresses.path('consent')}?{request.query}",
                "grants": self._addresses.path("grants"),
                "form_token": form_token(browser_cookie, request.query, _consent_form(authorization)),
            },
            headers={"Content-Security-Policy": policy(consent_forms(request, provider))},
        )
        if cookie is None:
            self._set_cookie(response, browser_cookie)
        return response

    async def _page(
        self, template: str, values: Mapping[str, Any], *, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> Response:
        from quart import Response, render_template

        text = await render_template(template, **values)
        return Response(text, status=status, headers=dict(headers or {}), content_type="text/html; charset=utf-8")

    async def _form(self) -> Mapping[str, str]:
        """Return the form of a request from a page of this server.

        Raises:
            Refusal: The request comes from another origin.
        """
        from quart import request

        origin = request.headers.get("Origin")
        if origin is not None and origin != self._addresses.origin:
            raise Refusal(
                "access_denied", f"expected a form of this server, opened at {self._addresses.origin}", status=403
            )
        return read_form(await body_of_request(), request.content_type)

    def _check_form_token(self, form: Mapping[str, str], cookie: str | None, query: str, name: str) -> str:
        """Check that a form was shown in this browser and for this request; return the cookie.

        Raises:
            Refusal: It was not.
        """
        if cookie is None or not is_form_token(form.get("form_token", ""), cookie, query, name):
            raise Refusal("access_denied", "expected a form that was shown in this browser; open it again", status=403)
        return cookie

    def _cookie(self) -> str | None:
        from quart import request

        cookie = request.cookies.get(cookie_name(self._config))
        return cookie if cookie is not None and 40 <= len(cookie) <= 64 else None

    def _set_cookie(self, response: Response, cookie: str) -> None:
        response.set_cookie(
            cookie_name(self._config),
            cookie,
            path="/",
            secure=self._addresses.is_https,
            httponly=True,
            # Lax: the browser must send the cookie when the client or the provider redirects it here.
            samesite="Lax",
        )

    def _redirect(self, location: str) -> Response:
        from quart import Response

        # OAuth 2.1 section 7.5.4: after 303 the browser does not repeat the form, which may contain a password.
        response = Response(b"", status=303)
        response.headers["Location"] = location
        return response


def _query_of(authorization: AuthServerRequest | None) -> str:
    """Return the query of a client's request; empty if the user came without one."""
    return authorization.request.query if authorization is not None else ""


def _consent_form(authorization: AuthServerRequest) -> str:
    """Return the name of a consent form."""
    user = authorization.session.user if authorization.session is not None else ""
    return f"consent {user} {' '.join(authorization.scopes)}"
