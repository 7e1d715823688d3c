"""What a server asks its user, as values: a form to fill in, or a page to open.

Made from an elicitation's params and handed to whoever answers it: a handler, the terminal form, a test. The one rule:
``accept`` is the only way to an accepted answer, and it fills in the defaults and checks every value; nothing here
opens or fetches anything.

Source: MCP 2025-06-18, 2025-11-25 and 2026-07-28, client/elicitation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from attrs import field, frozen

from mcptrio.client.url_checks import URLCheck
from mcptrio.ground.quoting import printable, quote_name
from mcptrio.protocol.model.elicitation import ElicitFormParams, ElicitResult, ElicitURLParams
from mcptrio.protocol.model.fields import ABSENT
from mcptrio.schema.form_fields import Choice, FormField
from mcptrio.schema.form_schemas import ElicitationLimits, check_text, read_fields
from mcptrio.schema.validation_messages import suggest

__all__ = ["Choice", "ElicitationLimits", "Form", "FormField", "OpenURL", "read_form", "read_url"]

_DEFAULT = ElicitationLimits()


@frozen(kw_only=True)
class Form:
    """A form that a server wants filled in."""

    server: str
    """Who asks, as the user knows the server."""
    message: str
    fields: tuple[FormField, ...]
    """In the server's order; none where only consent is asked for."""
    schema: dict[str, Any] = field(repr=False)
    """As it came."""

    def defaults(self) -> dict[str, Any]:
        """The values of the fields that have a default, by name."""
        return {each.name: each.check(each.default) for each in self.fields if each.default is not ABSENT}

    def accept(self, values: Mapping[str, Any] | None = None) -> ElicitResult:
        """Answer with values, the defaults filled in.

        Args:
            values: by name. ``ABSENT`` leaves an optional field out although it has a default.

        Raises:
            ValueError: a value does not fit, is missing, or belongs to no field; which one.
        """
        return ElicitResult(action="accept", content=self.check({**self.defaults(), **(values or {})}))

    def check(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Check an answer's content as it stands; nothing is filled in.

        Returns:
            The content as it is sent, in the order of the form.

        Raises:
            ValueError: a value does not fit, is missing, or belongs to no field; which one.
        """
        names = [each.name for each in self.fields]
        for name in content:
            if name not in names:
                known = suggest(str(name), [printable(each) for each in names])
                raise ValueError(f"unknown field {quote_name(str(name))}{known}")
        checked: dict[str, Any] = {}
        for each in self.fields:
            value = content.get(each.name, ABSENT)
            if value is not ABSENT:
                try:
                    checked[each.name] = each.check(value)
                except ValueError as error:
                    raise ValueError(f"field {quote_name(each.name)}: {error}") from error
            elif each.required:
                raise ValueError(f"field {quote_name(each.name)}: expected {each.expected}, got nothing")
        return checked

    def decline(self) -> ElicitResult:
        """The user said no."""
        return ElicitResult(action="decline")

    def cancel(self) -> ElicitResult:
        """The user went away without saying."""
        return ElicitResult(action="cancel")


@frozen(kw_only=True)
class OpenURL:
    """A URL that a server asks the user to open, for what must not pass through the client.

    Whoever shows it shows the whole ``url``, ``host`` so that it stands out, and ``warnings``, and opens it only after
    the user has said so, in a browser of which the client sees nothing.
    """

    server: str
    """Who asks, as the user knows the server."""
    message: str
    url: str
    elicitation_id: str | None = None
    """Named again when the server tells that the user is done; only 2025-11-25 has it."""
    _check: URLCheck = field(
        init=False,
        repr=False,
        eq=False,
        default=attrs.Factory(lambda self: URLCheck.of(self.url), takes_self=True),
    )

    @property
    def host(self) -> str:
        """Where it leads, in ASCII, so that a host which looks like another does not; empty where it names none."""
        return self._check.host

    @property
    def is_punycode(self) -> bool:
        """Whether the host has letters beyond ASCII, and so may look like another elsewhere."""
        return self._check.is_punycode

    @property
    def is_openable(self) -> bool:
        """Whether it may be opened at all, if the user agrees."""
        return not self._check.refusals

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to tell the user before asking; first why it may not be opened. Text fit for a terminal."""
        return (*(f"it may not be opened: {refusal}" for refusal in self._check.refusals), *self._check.warnings)

    def accept(self) -> ElicitResult:
        """The user agrees to open it; that is not to say that anything was done there.

        Raises:
            ValueError: it may not be opened, whatever the user says.
        """
        if self._check.refusals:
            raise ValueError(f"url: {'; '.join(self._check.refusals)}")
        return ElicitResult(action="accept")

    def decline(self) -> ElicitResult:
        """The user said no."""
        return ElicitResult(action="decline")

    def cancel(self) -> ElicitResult:
        """The user went away without saying."""
        return ElicitResult(action="cancel")


def read_form(params: ElicitFormParams, *, server: str, limits: ElicitationLimits = _DEFAULT) -> Form:
    """Read a question.

    A default that does not fit its own field is left out, as if the server had not sent it.

    Args:
        server: shown to the user: the name that the user gave the server rather than one it gives itself.

    Raises:
        ValueError: the schema is no flat object of primitives, no answer could fit it, or it is over a limit;
            what was expected, what came, and in which field.
    """
    check_text("message", params.message, limits)
    schema = params.requested_schema
    return Form(server=server, message=params.message, fields=tuple(read_fields(schema, limits)), schema=schema)


def read_url(params: ElicitURLParams, *, server: str, limits: ElicitationLimits = _DEFAULT) -> OpenURL:
    """Read a question.

    Args:
        server: shown to the user: the name that the user gave the server rather than one it gives itself.

    Raises:
        ValueError: the message or the URL is over a limit.
    """
    check_text("message", params.message, limits)
    if len(params.url) > limits.url:
        raise ValueError(f"url: expected at most {limits.url} characters, got {len(params.url)}")
    return OpenURL(server=server, message=params.message, url=params.url, elicitation_id=params.elicitation_id)
