"""JSON Schemas of Python types, the validation of values, and the conversion of values from and to JSON.

Each name is imported when it is first used.
"""

from typing import TYPE_CHECKING

from mcptrio.ground.lazy_names import lazy_names

if TYPE_CHECKING:
    from mcptrio.schema.argument_repair import repair_arguments as repair_arguments
    from mcptrio.schema.signatures import encode_value as encode_value
    from mcptrio.schema.signatures import schema_of as schema_of
    from mcptrio.schema.validation import Validator as Validator

_HOMES = {
    # Schemas
    "Validator": "mcptrio.schema.validation",
    "encode_value": "mcptrio.schema.signatures",
    "repair_arguments": "mcptrio.schema.argument_repair",
    "schema_of": "mcptrio.schema.signatures",
}
"""Every public name, and the module that defines it."""

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll] - type checkers read the imports above

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
