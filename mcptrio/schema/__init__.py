"""JSON Schemas of Python types, values checked by a schema, and values as JSON.

Each name is imported when it is first used.
"""

from typing import TYPE_CHECKING

from mcptrio.ground.lazy_names import lazy_names

if TYPE_CHECKING:
    from mcptrio.schema.forgiving_arguments import repair_arguments as repair_arguments
    from mcptrio.schema.signatures import encode_value as encode_value
    from mcptrio.schema.signatures import schema_of as schema_of
    from mcptrio.schema.validation import Validator as Validator

_HOMES = {
    # Schemas
    "Validator": "mcptrio.schema.validation",
    "encode_value": "mcptrio.schema.signatures",
    "repair_arguments": "mcptrio.schema.forgiving_arguments",
    "schema_of": "mcptrio.schema.signatures",
}
"""Every public name, and the module that has it."""

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll] - the imports above say it to type checkers

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
