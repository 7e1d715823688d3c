"""Questions of a server to the user, as values: a form to fill in, or a URL to open.

They are made from the params of an elicitation, and passed to the handler, the terminal form or a test. ``accept``
makes an accepted answer. It applies defaults and checks each value.

Source: MCP 2025-06-18, 2025-11-25 and 2026-07-28, client/elicitation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from attrs import field, frozen

from mcptrio.client.url_checks import URLCheck
from mcptrio.ground.quoting import printable, quote_name
from mcptrio.ground.suggestions import suggest
from mcptrio.protocol.model.elicitation import ElicitFormParams, ElicitResult, ElicitURLParams
from mcptrio.protocol.model.fields import ABSENT
from mcptrio.schema.form_fields import Choice, FormField
from mcptrio.schema.form_schemas import ElicitationLimits, check_text, read_fields

__all__ = ["Choice", "ElicitationLimits", "Form", "FormField", "OpenURL", "read_form", "read_url"]

_DEFAULT = ElicitationLimits()


@frozen(kw_only=True)
class Form:
    """A form that a server asks the user to fill in. Handlers receive it as the argument of ``elicit``."""

    server: str
    """The name under which the user knows the server."""
    message: str
    fields: tuple[FormField, ...]
    """The fields in the server's order; empty if the server asks only for consent."""
    schema: dict[str, Any] = field(repr=False)
    """The JSON schema as received."""

    def defaults(self) -> dict[str, Any]:
        """Return the default values by field name; fields without a default are omitted."""
        return {each.name: each.check(each.default) for each in self.fields if each.default is not ABSENT}

    def accept(self, values: Mapping[str, Any] | None = None) -> ElicitResult:
        """Return the answer with these values; defaults fill in the rest.

        Args:
            values: Values by field name. ``ABSENT`` omits an optional field although it has a default.

        Raises:
            ValueError: A value is invalid, missing, or for an unknown field; the message names the field.
        """
        return ElicitResult(action="accept", content=self.check({**self.defaults(), **(values or {})}))

    def check(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Validate the content of an answer, without applying defaults.

        Returns:
            The content to send, in the order of the form.

        Raises:
            ValueError: A value is invalid, missing, or for an unknown field; the message names the field.
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
        """Return the answer for a user who refuses."""
        return ElicitResult(action="decline")

    def cancel(self) -> ElicitResult:
        """Return the answer for a user who closes the form without a decision."""
        return ElicitResult(action="cancel")


@frozen(kw_only=True)
class OpenURL:
    """A URL that a server asks the user to open, for data that must not pass through the client.

    A user interface must show the whole ``url``, with ``host`` emphasized, and ``warnings``. It opens the URL only
    after the user has agreed, in a browser whose content the client cannot see.
    """

    server: str
    """The name under which the user knows the server."""
    message: str
    url: str
    elicitation_id: str | None = None
    """Identifies the question in the server's completion notification (2025-11-25 only)."""
    _check: URLCheck = field(
        init=False,
        repr=False,
        eq=False,
        default=attrs.Factory(lambda self: URLCheck.of(self.url), takes_self=True),
    )

    @property
    def host(self) -> str:
        """The host of the URL in ASCII, which exposes look-alike letters; empty if the URL has none."""
        return self._check.host

    @property
    def is_punycode(self) -> bool:
        """True if the host has non-ASCII labels, so that it may be displayed as a name that looks like another one."""
        return self._check.is_punycode

    @property
    def is_openable(self) -> bool:
        """True if the URL may be opened, provided that the user agrees."""
        return not self._check.refusals

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings to show before asking the user, safe for a terminal; reasons not to open the URL come first."""
        return (*(f"it may not be opened: {refusal}" for refusal in self._check.refusals), *self._check.warnings)

    def accept(self) -> ElicitResult:
        """Return the answer for a user who agrees to open the URL. It does not mean that the user has finished there.

        Raises:
            ValueError: The URL must not be opened; see :attr:`is_openable`.
        """
        if self._check.refusals:
            raise ValueError(f"url: {'; '.join(self._check.refusals)}")
        return ElicitResult(action="accept")

    def decline(self) -> ElicitResult:
        """Return the answer for a user who refuses."""
        return ElicitResult(action="decline")

    def cancel(self) -> ElicitResult:
        """Return the answer for a user who closes the question without a decision."""
        return ElicitResult(action="cancel")


def read_form(params: ElicitFormParams, *, server: str, limits: ElicitationLimits = _DEFAULT) -> Form:
    """Return the form that a server's question describes.

    A default that does not fit its own field is ignored.

    Args:
        server: The name under which the user knows the server; not the name that the server gives itself.

    Raises:
        ValueError: The schema is not a flat object of primitives, has no valid answer, or exceeds a limit; the message
            names the field.
    """
    check_text("message", params.message, limits)
    schema = params.requested_schema
    return Form(server=server, message=params.message, fields=tuple(read_fields(schema, limits)), schema=schema)


def read_url(params: ElicitURLParams, *, server: str, limits: ElicitationLimits = _DEFAULT) -> OpenURL:
    """Return the URL that a server's question contains.

    Args:
        server: The name under which the user knows the server; not the name that the server gives itself.

    Raises:
        ValueError: The message or the URL exceeds a limit.
    """
    check_text("message", params.message, limits)
    if len(params.url) > limits.url:
        raise ValueError(f"url: expected at most {limits.url} characters, got {len(params.url)}")
    return OpenURL(server=server, message=params.message, url=params.url, elicitation_id=params.elicitation_id)
