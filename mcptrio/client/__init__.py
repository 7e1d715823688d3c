"""A client of one server: calls, lists, subscriptions, and handlers for the server's questions.

Each name is imported on first use.
"""

from typing import TYPE_CHECKING

from mcptrio.ground.lazy_names import lazy_names

if TYPE_CHECKING:
    from mcptrio.client.calls import OnProgress as OnProgress
    from mcptrio.client.calls import Progress as Progress
    from mcptrio.client.forms import Form as Form
    from mcptrio.client.forms import OpenURL as OpenURL
    from mcptrio.client.handlers import Handlers as Handlers
    from mcptrio.client.handlers import Roots as Roots
    from mcptrio.client.listings import Listing as Listing
    from mcptrio.client.subscriptions import Change as Change
    from mcptrio.client.subscriptions import ChangeKind as ChangeKind
    from mcptrio.client.subscriptions import Changes as Changes
    from mcptrio.client.tasks import ClientTask as ClientTask
    from mcptrio.client.tasks import ServerTask as ServerTask
    from mcptrio.client.timeouts import ClientTimeouts as ClientTimeouts
    from mcptrio.client.tool_calls import ToolCall as ToolCall
    from mcptrio.connecting.targets import Stderr as Stderr
    from mcptrio.connecting.targets import Target as Target
    from mcptrio.schema.form_fields import Choice as Choice
    from mcptrio.schema.form_fields import FieldKind as FieldKind
    from mcptrio.schema.form_fields import FormField as FormField

_HOMES = {
    # Answering the server
    "Choice": "mcptrio.schema.form_fields",
    "FieldKind": "mcptrio.schema.form_fields",
    "Form": "mcptrio.client.forms",
    "FormField": "mcptrio.schema.form_fields",
    "Handlers": "mcptrio.client.handlers",
    "OpenURL": "mcptrio.client.forms",
    "Roots": "mcptrio.client.handlers",
    # Calls
    "ClientTask": "mcptrio.client.tasks",
    "ClientTimeouts": "mcptrio.client.timeouts",
    "OnProgress": "mcptrio.client.calls",
    "Progress": "mcptrio.client.calls",
    "ServerTask": "mcptrio.client.tasks",
    "ToolCall": "mcptrio.client.tool_calls",
    # Lists and changes
    "Change": "mcptrio.client.subscriptions",
    "ChangeKind": "mcptrio.client.subscriptions",
    "Changes": "mcptrio.client.subscriptions",
    "Listing": "mcptrio.client.listings",
    # Targets
    "Stderr": "mcptrio.connecting.targets",
    "Target": "mcptrio.connecting.targets",
}
"""Every public name and the module that defines it."""

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll] - the imports above define them for type checkers

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
