"""Tools with input schemas that contain more than names and types.

Source: SEP-1613 and SEP-2106 (JSON Schema 2020-12); SEP-2243 (parameters mirrored into HTTP headers).
"""

from __future__ import annotations

from typing import Annotated, Any

from mcptrio import Header, tool

__all__ = ["json_schema_2020_12_tool", "test_x_mcp_header"]

_ADDRESS_BOOK: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
"""A schema that is not generated. mcptrio lists it unchanged."""


@tool(read_only=True, input_schema=_ADDRESS_BOOK)
async def json_schema_2020_12_tool(
    name: str = "",
    address: dict[str, str] | None = None,
    contactMethod: str = "email",
    phone: str = "",
    email: str = "",
) -> str:
    """Take a contact, under a schema with references, compositions and conditions."""
    street = f", {address.get('street', '')} {address.get('city', '')}" if address else ""
    return f"{name or 'nobody'}{street}: {phone if contactMethod == 'phone' else email}"


@tool(read_only=True)
async def test_x_mcp_header(region: Annotated[str, Header("Region")] = "") -> str:  # noqa: PT028
    """Take a parameter that an HTTP client also sends as the header Mcp-Param-Region.

    Args:
        region: Any name.
    """
    return f"region={region or '<none>'}"
