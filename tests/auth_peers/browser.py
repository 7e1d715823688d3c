"""A browser without scripts, with a user who knows what to type and which buttons to press.

The tests with a login and a consent page use it. It follows redirects, keeps cookies, and sends every field of a form
unchanged, and only the pressed button. It knows nothing about OAuth.
"""

from __future__ import annotations

from collections.abc import Mapping
from html.parser import HTMLParser
from urllib.parse import urlencode, urljoin

import httpx2
from attrs import define, field, frozen

from tests.auth_peers.guarded import plain_http

__all__ = ["Browser", "Form"]

_STEPS = 20


@frozen
class Form:
    action: str
    method: str
    fields: list[tuple[str, str]] = field(factory=list)
    """Fields with a value: hidden ones and prefilled ones."""
    blanks: list[str] = field(factory=list)
    """Names of the fields to fill in."""
    buttons: list[tuple[str, str, str]] = field(factory=list)
    """Name, value and label of each button."""


@define
class Browser:
    """A browser without scripts that fills in and submits the forms of an authorization server.

    Args:
        typed: Values by field name.
        pressed: Labels of the buttons to press; the first one in the form is used.
        back: The client's redirect URI, which the browser does not visit.
        ticked: Values of the checkboxes to tick; ``None`` ticks all.
    """

    typed: Mapping[str, str]
    pressed: tuple[str, ...]
    back: str
    ticked: frozenset[str] | None = None
    pages: list[str] = field(factory=list)
    """The pages shown so far."""
    _cookies: httpx2.Cookies = field(factory=httpx2.Cookies)

    async def visit(self, url: str) -> str:
        """Return the redirect URI, with its query, at which the browser arrives."""
        async with plain_http() as http:
            http.cookies = self._cookies
            response = await http.get(url)
            for _ in range(_STEPS):
                if response.is_redirect:
                    url = urljoin(str(response.url), response.headers["location"])
                    if url.startswith(self.back):
                        self._cookies = http.cookies
                        return url
                    response = await http.get(url)
                    continue
                self.pages.append(response.text)
                assert response.status_code == 200, f"{response.status_code} @ {response.url}: {response.text[:2000]}"
                response = await self._submit(http, str(response.url), response.text)
        raise AssertionError(f"no way back to {self.back} after {_STEPS} steps: {self.pages[-1][:2000]}")

    async def _submit(self, http: httpx2.AsyncClient, url: str, page: str) -> httpx2.Response:
        forms = forms_of(page, self.ticked)
        assert forms, f"no form @ {url}: {page[:2000]}"
        form = next((each for each in forms if set(each.blanks) <= self.typed.keys()), forms[0])
        sent = [*form.fields, *((name, self.typed[name]) for name in form.blanks)]
        if form.buttons:
            wanted = [button for text in self.pressed for button in form.buttons if button[2] == text]
            assert wanted, f"none of {self.pressed} among {form.buttons} @ {url}"
            name, value, _ = wanted[0]
            sent += [(name, value)] if name else []
        target = urljoin(url, form.action) if form.action else url
        if form.method != "post":
            return await http.get(f"{target.partition('?')[0]}?{urlencode(sent)}")
        return await http.post(
            target,
            content=urlencode(sent).encode(),
            headers={
                "content-type": "application/x-www-form-urlencoded",
                "origin": str(httpx2.URL(target).copy_with(path="/", query=None)).rstrip("/"),
                "referer": url,
            },
        )


def forms_of(page: str, ticked: frozenset[str] | None) -> list[Form]:
    parser = _Forms(ticked)
    parser.feed(page)
    return parser.forms


class _Forms(HTMLParser):
    def __init__(self, ticked: frozenset[str] | None) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self._ticked = ticked
        self._open: Form | None = None
        self._button: tuple[str, str, list[str]] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        name, value = given.get("name", ""), given.get("value", "")
        if tag == "form":
            self._open = Form(given.get("action", ""), given.get("method", "get").lower())
            self.forms.append(self._open)
        elif self._open is None or "disabled" in given:
            return
        elif tag == "button":
            self._button = (name, value, [])
        elif tag == "input":
            self._input(self._open, given.get("type", "text").lower(), name, value, "checked" in given)

    def _input(self, form: Form, kind: str, name: str, value: str, checked: bool) -> None:
        if kind == "submit":
            form.buttons.append((name, value, value))
        elif kind in ("checkbox", "radio"):
            if name and (checked if self._ticked is None else value in self._ticked):
                form.fields.append((name, value or "on"))
        elif name and (kind == "hidden" or value):
            form.fields.append((name, value))
        elif name:
            form.blanks.append(name)

    def handle_data(self, data: str) -> None:
        if self._button is not None:
            self._button[2].append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._open = None
        elif tag == "button" and self._button is not None and self._open is not None:
            name, value, text = self._button
            self._open.buttons.append((name, value, " ".join("".join(text).split())))
            self._button = None
