"""The client under test of the official conformance suite, one run for each scenario.

The suite starts it as ``<command> <server-url>``, with the task in the environment. It uses only public names of
mcptrio. A failed scenario ends with a traceback and status 1, so that a run fails even if the suite's server sees no
problem.

Source: @modelcontextprotocol/conformance, src/scenarios/client; src/runner/client.ts (MCP_CONFORMANCE_*).
"""

from __future__ import annotations

import http.client
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import trio
from attrs import field, frozen

from mcptrio import Client, Endpoint, Secret, connect
from mcptrio.auth import (
    ClientCredentials,
    EnterpriseManaged,
    IdentityProvider,
    Key,
    OAuth,
    OwnRedirects,
    PreRegistered,
    WorkloadIdentity,
)
from mcptrio.client import Form, Handlers
from mcptrio.errors import AuthorizationError
from mcptrio.types import CallToolResult, TextContent

__all__ = ["DONE", "SCENARIOS", "Task", "Unexpected", "main"]

SECONDS: Final = 60
"""For one scenario; the suite gives 90."""
DONE: Final = "done"
"""Written at the end."""


@frozen(kw_only=True)
class Task:
    """The task of a scenario."""

    url: str
    scenario: str
    revision: str
    context: Mapping[str, Any] = field(factory=dict)

    @classmethod
    def read(cls, url: str, environment: Mapping[str, str]) -> Task:
        return cls(
            url=url,
            scenario=environment["MCP_CONFORMANCE_SCENARIO"],
            revision=environment["MCP_CONFORMANCE_PROTOCOL_VERSION"],
            context=json.loads(environment.get("MCP_CONFORMANCE_CONTEXT", "{}")),
        )

    @asynccontextmanager
    async def connected(self, handlers: Handlers | None = None) -> AsyncIterator[Client]:
        """Yield a client that has negotiated the tested revision."""
        async with connect(self.url, handlers=handlers) as client:
            expect(client.revision == self.revision, f"expected to speak {self.revision}, not {client.revision}")
            yield client


class Unexpected(Exception):
    """The server's response differs from that of the scenario's server."""


def expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Unexpected(otherwise)


def text_of(result: CallToolResult) -> str:
    expect(not result.is_error, f"expected no tool error, got {result.content}")
    return "".join(block.text for block in result.content if isinstance(block, TextContent))


# The scenarios


async def list_tools(task: Task) -> None:
    async with task.connected() as client:
        await client.tools().all()


async def initialize(task: Task) -> None:
    """Pinned: this server would agree to any revision, and 2025-06-18 is one to test."""
    async with connect(task.url, revision=task.revision) as client:
        expect(client.server_info is not None and client.server_info.name == "test-server", "expected a server's name")
        # This server declares no tools, but answers the request.
        listed = await client.request("tools/list", {})
        expect(listed.tools == (), f"expected no tools, got {listed}")


async def call_a_tool(task: Task) -> None:
    async with connect(task.url, revision=task.revision) as client:
        [tool] = await client.tools().all()
        text = text_of(await client.call_tool(tool.name, {"a": 5, "b": 3}))
        expect(text == "The sum of 5 and 3 is 8", f"expected a sum, got {text!r}")


async def accept_defaults(task: Task) -> None:
    async def elicit(form: Form) -> object:
        return form.accept()

    async with task.connected(Handlers(elicit=elicit)) as client:
        text_of(await client.call_tool("test_client_elicitation_defaults"))


async def resume_a_stream(task: Task) -> None:
    """Not through ``connected``: this server answers ``initialize`` with an older revision."""
    async with connect(task.url) as client:
        text = text_of(await client.call_tool("test_reconnection"))
        expect(text == "Reconnection test completed successfully", f"expected the delayed answer, got {text!r}")


async def declare_everything(task: Task) -> None:
    async def elicit(form: Form) -> object:
        return form.decline()

    async def sample(params: object) -> str:
        return "nothing"

    async with task.connected(Handlers(elicit=elicit, sample=sample, roots=["/tmp"])) as client:
        await client.request("tools/list", {})  # a capability that this server does not declare
        await client.ping()


async def echo_request_state(task: Task) -> None:
    async with trio.open_nursery() as nursery:
        question_asked = trio.Event()
        called = trio.Event()

        async def elicit(form: Form) -> dict[str, Any]:
            question_asked.set()
            await called.wait()
            return {"confirmed": True}

        async with task.connected(Handlers(elicit=elicit)) as client:

            async def call_in_between() -> None:
                await question_asked.wait()
                expect(text_of(await client.call_tool("test_mrtr_unrelated")) == "unrelated-ok", "expected another")
                called.set()

            nursery.start_soon(call_in_between)
            for name, expected in (
                ("test_mrtr_echo_state", "echo-state-ok"),
                ("test_mrtr_no_state", "no-state-ok"),
                ("test_mrtr_no_result_type", "no-result-type-test-ok"),
            ):
                text = text_of(await client.call_tool(name))
                expect(text == expected, f"{name}: expected {expected!r}, got {text!r}")


async def use_each_kind(task: Task) -> None:
    async with task.connected() as client:
        for tool in await client.tools().all():
            text_of(await client.call_tool(tool.name))
        for resource in await client.resources().all():
            await client.read_resource(resource.uri)
        for prompt in await client.prompts().all():
            await client.get_prompt(prompt.name)


async def make_the_calls(task: Task) -> None:
    """Without listing the tools before: the client must find out which arguments to repeat in headers."""
    async with task.connected() as client:
        for call in task.context["toolCalls"]:
            text_of(await client.call_tool(call["name"], call["arguments"]))


async def call_what_is_shown(task: Task) -> None:
    async with task.connected() as client:
        shown = await client.tools().all()
        for tool in shown:
            text_of(await client.call_tool(tool.name, dict.fromkeys(tool.input_schema["required"], "x")))
        expect([tool.name for tool in shown] == ["valid_tool"], f"expected the valid tool, got {shown}")


async def send_a_schema_back(task: Task) -> None:
    async with task.connected() as client:
        schemas = {tool.name: tool.input_schema async for tool in client.tools()}
        text_of(await client.call_tool("json_schema_echo", {"schema": schemas["json_schema_2020_12_tool"]}))


# Those with authorization


async def approve(url: str) -> str:
    """A user who opens the page and approves: the suite's authorization servers redirect the browser at once."""

    def get() -> str:
        parsed_url = urlsplit(url)
        connection = http.client.HTTPConnection(parsed_url.netloc, timeout=SECONDS)
        try:
            connection.request("GET", f"{parsed_url.path}?{parsed_url.query}")
            location = connection.getresponse().getheader("Location")
        finally:
            connection.close()
        expect(location is not None, "expected to be sent back")
        return str(location)

    return await trio.to_thread.run_sync(get)


BACK: Final = OwnRedirects(uri="http://127.0.0.1:8976/callback", send=approve)


async def use(task: Task, auth: Any) -> None:
    """Use a client with authorization."""
    async with connect(Endpoint(url=task.url, auth=auth), revision=task.revision) as client:
        [tool] = await client.tools().all()
        text_of(await client.call_tool(tool.name, {}))


async def authorize(task: Task) -> None:
    await use(task, OAuth(client_name="conformance", redirects=BACK))


async def authorize_with_a_document(task: Task) -> None:
    document = "https://conformance-test.local/client-metadata.json"
    await use(task, OAuth(client_name="conformance", redirects=BACK, client_metadata_url=document))


async def authorize_as_registered(task: Task) -> None:
    await use(task, OAuth(redirects=BACK, client=own_client(task, issuer=task.context["issuer"])))


def own_client(task: Task, *, issuer: str | None = None) -> PreRegistered:
    """Return the client that the suite has registered, with its secret or its key."""
    context = task.context
    key = None
    if "private_key_pem" in context:
        key = Key.from_pem(context["private_key_pem"], algorithm=context["signing_algorithm"])
    return PreRegistered(
        client_id=context["client_id"], client_secret=context.get("client_secret"), key=key, issuer=issuer
    )


def issuer_of(task: Task) -> str:
    """Return the authorization server of the suite's server: the suite omits it from its data about the client."""
    parsed_url = urlsplit(task.url)
    connection = http.client.HTTPConnection(parsed_url.netloc, timeout=SECONDS)
    connection.request("GET", f"/.well-known/oauth-protected-resource{parsed_url.path}")
    issuer: str = json.loads(connection.getresponse().read())["authorization_servers"][0]
    connection.close()
    return issuer


async def authorize_as_itself(task: Task) -> None:
    await use(task, ClientCredentials(client=own_client(task, issuer=issuer_of(task))))


async def authorize_by_the_company(task: Task) -> None:
    context = task.context

    async def identity() -> Secret:
        return Secret(context["idp_id_token"])

    provider = IdentityProvider(
        issuer=context["idp_issuer"],
        client=PreRegistered(client_id=context["idp_client_id"]),
        identity=identity,
        token_endpoint=context["idp_token_endpoint"],
    )
    await use(task, EnterpriseManaged(provider=provider, client=own_client(task, issuer=issuer_of(task))))


async def authorize_as_a_workload(task: Task) -> None:
    async def assertion() -> Secret:
        return Secret(task.context["valid_jwt"])

    await use(task, WorkloadIdentity(assertion=assertion))


def refuse(why: str) -> Callable[[Task], Awaitable[None]]:
    """Return a scenario in which the client must detect that the server lies."""

    async def scenario(task: Task) -> None:
        try:
            await authorize(task)
        except AuthorizationError as error:
            expect(why in str(error), f"expected {why!r} in {str(error)!r}")
        else:
            raise Unexpected("expected a refusal")

    return scenario


SCENARIOS: Final[Mapping[str, Callable[[Task], Awaitable[None]]]] = {
    **dict.fromkeys(
        (
            "auth/2025-03-26-oauth-endpoint-fallback",
            "auth/2025-03-26-oauth-metadata-backcompat",
            "auth/authorization-server-migration",
            "auth/dpop",
            "auth/dpop-nonce",
            "auth/iss-not-advertised",
            "auth/iss-supported",
            "auth/metadata-default",
            "auth/metadata-var1",
            "auth/metadata-var2",
            "auth/metadata-var3",
            "auth/offline-access-not-supported",
            "auth/offline-access-scope",
            "auth/scope-from-scopes-supported",
            "auth/scope-from-www-authenticate",
            "auth/scope-omitted-when-undefined",
            "auth/scope-step-up",
            "auth/token-endpoint-auth-basic",
            "auth/token-endpoint-auth-none",
            "auth/token-endpoint-auth-post",
        ),
        authorize,
    ),
    "auth/basic-cimd": authorize_with_a_document,
    "auth/client-credentials-basic": authorize_as_itself,
    "auth/client-credentials-jwt": authorize_as_itself,
    "auth/enterprise-managed-authorization": authorize_by_the_company,
    "auth/iss-normalized": refuse("another authorization server has answered"),
    "auth/iss-supported-missing": refuse("in the redirect, got none"),
    "auth/iss-unexpected": refuse("another authorization server has answered"),
    "auth/iss-wrong-issuer": refuse("another authorization server has answered"),
    "auth/metadata-issuer-mismatch": refuse("issuer: expected "),
    "auth/pre-registration": authorize_as_registered,
    "auth/resource-mismatch": refuse("expected the server's own URL"),
    "auth/scope-retry-limit": refuse("the token has all that it names"),
    "auth/wif-jwt-bearer": authorize_as_a_workload,
    "elicitation-sep1034-client-defaults": accept_defaults,
    "http-custom-headers": make_the_calls,
    "http-invalid-tool-headers": call_what_is_shown,
    "http-standard-headers": use_each_kind,
    "initialize": initialize,
    "json-schema-2020-12-preservation": send_a_schema_back,
    "json-schema-ref-no-deref": list_tools,
    "request-metadata": declare_everything,
    "sep-2322-client-request-state": echo_request_state,
    "sse-retry": resume_a_stream,
    "tools_call": call_a_tool,
}


async def main() -> None:
    task = Task.read(sys.argv[1], os.environ)
    with trio.fail_after(SECONDS):
        await SCENARIOS[task.scenario](task)
    # The suite tolerates an exit with an error in some scenarios, but never a missing line.
    print(DONE)


if __name__ == "__main__":
    trio.run(main)
