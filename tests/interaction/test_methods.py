"""Which methods exist: discover, capabilities on both sides, unknown methods."""

from __future__ import annotations

from typing import Any

from mcptrio import Context, prompt, resource, tool
from tests.error_codes import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from tests.interaction.applies import HANDSHAKE, MODERN, REVISIONS, only, without
from tests.interaction.serving import Serve


@tool
async def echo(text: str) -> str:
    """Echo."""
    return text


@resource("memo://one")
async def memo() -> str:
    """A memo."""
    return "one"


@prompt
async def greet(name: str) -> str:
    """Greet."""
    return f"Greet {name}"


@tool
async def sample(ctx: Context) -> str:
    """Have the client's model say something."""
    await ctx.sample("hello")
    return "sampled"


async def _capabilities(serve: Serve, *functions: Any) -> Any:
    peer = await serve(*functions)
    answer = peer.initialized if peer.initialized is not None else await peer.request("server/discover")
    return answer["capabilities"]


@only(revisions=MODERN, because="discover is new in 2026-07-28")
async def test_discover_returns_versions_capabilities_and_a_lifetime(serve: Serve) -> None:
    peer = await serve(echo, instructions="Use echo.", list_ttl_ms=5000)

    answer = await peer.request("server/discover")

    assert answer["supportedVersions"] == ["2026-07-28"]
    assert answer["instructions"] == "Use echo."
    assert answer["ttlMs"] == 5000
    assert answer["cacheScope"] in ("public", "private")
    assert set(answer["capabilities"]) >= {"tools"}


async def test_only_existing_features_are_advertised(serve: Serve) -> None:
    capabilities = await _capabilities(serve, echo)

    assert capabilities["tools"] == {"listChanged": True}
    assert "resources" not in capabilities
    assert "prompts" not in capabilities
    assert "completions" not in capabilities


async def test_every_existing_feature_is_advertised(serve: Serve) -> None:
    capabilities = await _capabilities(serve, echo, memo, greet)

    assert capabilities["resources"] == {"subscribe": True, "listChanged": True}
    assert capabilities["prompts"] == {"listChanged": True}
    assert ("completions" in capabilities) == (serve.revision != "2024-11-05")
    assert capabilities["logging"] == {}


async def test_prompt_added_at_run_time_is_advertised_to_the_next_client(serve: Serve) -> None:
    await serve(echo)
    serve.server.add_prompt(greet)

    peer = await serve.connect()

    answer = peer.initialized if peer.initialized is not None else await peer.request("server/discover")
    assert "prompts" in answer["capabilities"]


async def test_unknown_method_is_not_found(serve: Serve) -> None:
    peer = await serve(echo)

    for method in ("nobody/knows", "tools/listt", "rpc.discover", "tools/call/x", "notifications/cancelled"):
        call = await peer.start(method)

        assert (await call.error())["code"] == METHOD_NOT_FOUND
        if call.exchange is not None and not peer.handshake:
            assert call.exchange.status == 404


async def test_method_of_an_unadvertised_capability_is_not_found(serve: Serve) -> None:
    peer = await serve(echo)

    for method in ("resources/list", "resources/templates/list", "prompts/list", "resources/subscribe"):
        assert (await peer.error(method, {"uri": "memo://one"}))["code"] == METHOD_NOT_FOUND


@only(revisions=MODERN, because="these methods were removed in 2026-07-28")
async def test_removed_method_is_not_found(serve: Serve) -> None:
    peer = await serve(echo, memo)

    for method in ("ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"):
        assert (await peer.error(method, {"level": "info", "uri": "memo://one"}))["code"] == METHOD_NOT_FOUND


@only(revisions=HANDSHAKE, because="these methods are new in 2026-07-28")
async def test_method_of_a_later_revision_is_not_found(serve: Serve) -> None:
    peer = await serve(echo)

    for method in ("server/discover", "subscriptions/listen"):
        assert (await peer.error(method, {"notifications": {}}))["code"] == METHOD_NOT_FOUND


async def test_client_method_is_not_found_on_the_server(serve: Serve) -> None:
    peer = await serve(echo)

    for method in ("sampling/createMessage", "elicitation/create", "roots/list"):
        assert (await peer.error(method))["code"] == METHOD_NOT_FOUND


async def test_server_request_without_the_client_capability_is_not_sent(serve: Serve) -> None:
    peer = await serve(sample, capabilities={"roots": {}})

    call = await peer.start_call("sample")
    error = await call.error()

    assert "sampling" in error["message"]
    assert error["data"] == {"requiredCapabilities": {"sampling": {}}}
    assert peer.asked == []
    if not peer.handshake:
        assert error["code"] == MISSING_CLIENT_CAPABILITY
        assert call.exchange is None or call.exchange.status == 400


@only(revisions=HANDSHAKE, because="the code belongs to 2026-07-28")
async def test_handshake_client_never_gets_an_error_code_of_a_later_revision(serve: Serve) -> None:
    peer = await serve(sample)

    error = await (await peer.start_call("sample")).error()

    assert error["code"] not in (HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY, UNSUPPORTED_PROTOCOL_VERSION)


@only(revisions=MODERN, because="capabilities come with every request there")
async def test_capabilities_of_one_request_do_not_apply_to_the_next(serve: Serve) -> None:
    peer = await serve(sample, capabilities={"sampling": {}})
    assert (await (await peer.start_call("sample")).result())["resultType"] == "input_required"

    peer.capabilities = {}

    assert (await (await peer.start_call("sample")).error())["code"] == MISSING_CLIENT_CAPABILITY


@only(revisions=REVISIONS[:1], because="2024-11-05 has no capability for completion")
async def test_completion_exists_without_a_capability_in_the_first_revision(serve: Serve) -> None:
    peer = await serve(greet)

    ref = {"type": "ref/prompt", "name": "greet"}
    result = await peer.request("completion/complete", {"ref": ref, "argument": {"name": "name", "value": ""}})

    assert result["completion"]["values"] == []


@without(revisions=REVISIONS[:1], because="2024-11-05 has the method without a capability")
async def test_completion_is_not_found_without_completions(serve: Serve) -> None:
    peer = await serve(echo)

    ref = {"type": "ref/prompt", "name": "greet"}
    error = await peer.error("completion/complete", {"ref": ref, "argument": {"name": "name", "value": ""}})

    assert error["code"] == METHOD_NOT_FOUND


MALFORMED: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("tools/call", {}, "name"),
    ("tools/call", {"name": 3}, "name"),
    ("tools/call", {"name": "echo", "arguments": []}, "arguments"),
    ("tools/list", {"cursor": 3}, "cursor"),
    ("resources/read", {"uri": None}, "uri"),
    ("prompts/get", {"name": "greet", "arguments": {"name": 3}}, "arguments"),
)


async def test_error_about_malformed_params_names_the_place(serve: Serve) -> None:
    peer = await serve(echo, memo, greet)

    for method, params, where in MALFORMED:
        call = await peer.start(method, params)
        error = await call.error()

        # Over HTTP in 2026-07-28, the header that repeats a name is checked first.
        header = call.exchange is not None and not peer.handshake
        assert error["code"] in ((INVALID_PARAMS, HEADER_MISMATCH) if header else (INVALID_PARAMS,))
        assert where in error["message"].lower()
