"""A plugin that returns its caller and restricts its entries; it runs in its own process."""

from __future__ import annotations

from typing import Any

from mcptrio import Context, PluginSetup, completion, hookimpl, prompt, resource, tool
from mcptrio.abc import Principal
from mcptrio.serving import Component

__all__: list[str] = []

CLOSED: set[str] = set()


@hookimpl
def setup(server: PluginSetup) -> None:
    server.add_authorizer(may)


def may(component: Component, principal: Principal | None) -> bool:
    """Allow names with ``vault`` to Ann only, and a closed name to no caller."""
    if component.name in CLOSED:
        return False
    return "vault" not in component.name or (principal is not None and principal.subject == "ann")


@tool
async def who(ctx: Context) -> dict[str, Any]:
    principal = ctx.principal
    return {
        "caller": ctx.caller,
        "meta": sorted(ctx.meta),
        "session": ctx.session_id,
        "principal": None
        if principal is None
        else {
            "subject": principal.subject,
            "issuer": principal.issuer,
            "client_id": principal.client_id,
            "scopes": sorted(principal.scopes),
            "claims": dict(principal.claims),
        },
    }


@tool
async def asked(ctx: Context) -> str:
    answer = await ctx.elicit("Which colour?", ["red", "blue"])
    return f"{ctx.principal.subject if ctx.principal else 'nobody'} {answer.content}"


@tool
async def vault() -> str:
    return "open"


@tool
async def close(name: str) -> str:
    CLOSED.add(name)
    return "closed"


@tool(scopes=["write"])
async def write(ctx: Context) -> str:
    return ctx.principal.subject if ctx.principal else "nobody"


@resource("vault://gold")
async def gold() -> str:
    return "gold"


@resource("vault://{name}/box")
async def box(name: str) -> str:
    return name


@prompt
async def vault_prompt(what: str) -> str:
    return what


@prompt
async def greet(whom: str) -> str:
    return f"Hello {whom}"


@completion("prompt", "greet", "whom")
async def whom(ctx: Context) -> list[str]:
    return [ctx.principal.subject if ctx.principal else "nobody"]


@completion("prompt", "vault_prompt", "what")
async def what() -> list[str]:
    return ["gold"]
