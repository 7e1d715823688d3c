"""Resources: fixed URIs and templates, reading, and errors."""

from __future__ import annotations

import base64

from mcptrio import Blob, Context, ResourceNotFound, ToolError, resource
from mcptrio.types import TextResourceContents
from tests.error_codes import INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND
from tests.interaction.applies import MODERN, SINCE_2025_06, only
from tests.interaction.client import Peer
from tests.interaction.serving import Serve


@resource("memo://one", title="One", mime_type="text/markdown", size=3)
async def one() -> str:
    """The first memo."""
    return "one"


@resource("memo://binary", mime_type="image/png")
async def binary() -> bytes:
    """Bytes."""
    return b"\x89PNG"


@resource("memo://blob")
async def blob() -> Blob:
    """Bytes with a type."""
    return Blob(b"%PDF", "application/pdf")


@resource("memo://object")
async def some_object() -> dict[str, int]:
    """An object."""
    return {"a": 1}


@resource("memo://several")
async def several() -> list[TextResourceContents]:
    """A directory."""
    return [TextResourceContents(uri="memo://a", text="a"), TextResourceContents(uri="memo://b", text="b")]


@resource("memo://fails")
async def fails() -> str:
    """A resource that cannot be read."""
    raise OSError("/etc/secret: permission denied")


@resource("memo://tells")
async def tells() -> str:
    """A resource that says why it cannot be read."""
    raise ToolError("the disk is asleep")


@resource("notes://{name}")
async def note(name: str) -> str:
    """A note."""
    return f"note {name}"


@resource("pages://{book}/{page}")
async def page(book: str, page: int) -> str:
    """A page."""
    return f"{book} {page + 1}"


@resource("files:///{+path}")
async def file(path: str) -> str:
    """A file."""
    return f"file {path}"


@resource("gone://{id}")
async def gone(id: str) -> str:
    """Return a removed document."""
    raise ResourceNotFound(f"gone://{id}")


@resource("who://asks")
async def who(ctx: Context) -> str:
    """Return the caller."""
    return f"{ctx.client_info.name if ctx.client_info else None}"


async def _read(peer: Peer, uri: str) -> dict[str, object]:
    (contents,) = (await peer.request("resources/read", {"uri": uri}))["contents"]
    return dict(contents)


async def _not_found(peer: Peer, uri: str) -> None:
    call = await peer.start("resources/read", {"uri": uri})
    error = await call.error()

    assert error["code"] == (INVALID_PARAMS if peer.revision in MODERN else RESOURCE_NOT_FOUND), uri
    assert error["data"] == {"uri": uri}


async def test_text_resource_is_read_with_its_mime_type(serve: Serve) -> None:
    peer = await serve(one)

    assert await _read(peer, "memo://one") == {"uri": "memo://one", "mimeType": "text/markdown", "text": "one"}


async def test_bytes_are_read_as_base64(serve: Serve) -> None:
    peer = await serve(binary, blob)

    data = base64.b64encode(b"\x89PNG").decode()
    assert await _read(peer, "memo://binary") == {"uri": "memo://binary", "mimeType": "image/png", "blob": data}
    assert (await _read(peer, "memo://blob"))["mimeType"] == "application/pdf"


async def test_other_values_are_read_as_json(serve: Serve) -> None:
    peer = await serve(some_object)

    contents = await _read(peer, "memo://object")

    assert contents["mimeType"] == "application/json"
    assert contents["text"] == '{"a":1}'


async def test_resource_can_have_several_parts(serve: Serve) -> None:
    peer = await serve(several)

    contents = (await peer.request("resources/read", {"uri": "memo://several"}))["contents"]

    assert [part["uri"] for part in contents] == ["memo://a", "memo://b"]


async def test_fixed_resources_and_templates_are_listed_separately(serve: Serve) -> None:
    peer = await serve(one, note)

    (listed,) = (await peer.request("resources/list"))["resources"]
    (template,) = (await peer.request("resources/templates/list"))["resourceTemplates"]

    assert (listed["uri"], listed["name"], listed["mimeType"]) == ("memo://one", "one", "text/markdown")
    assert listed["description"] == "The first memo."
    assert ("title" in listed) == (serve.revision in SINCE_2025_06)
    assert template["uriTemplate"] == "notes://{name}"


async def test_template_variables_are_converted_to_their_types(serve: Serve) -> None:
    peer = await serve(note, page)

    assert (await _read(peer, "notes://a%20b"))["text"] == "note a b"
    assert (await _read(peer, "pages://moby/41"))["text"] == "moby 42"


async def test_template_variable_of_the_wrong_type_is_not_found(serve: Serve) -> None:
    peer = await serve(page)

    await _not_found(peer, "pages://moby/last")


async def test_reserved_variable_matches_a_path(serve: Serve) -> None:
    peer = await serve(file)

    assert (await _read(peer, "files:///a/b.txt"))["text"] == "file a/b.txt"


async def test_path_traversal_is_refused(serve: Serve) -> None:
    peer = await serve(file, note)

    for uri in (
        "files:///../etc/passwd",
        "files:///a/../../etc/passwd",
        "files:///a/%2e%2e/%2e%2e/etc/passwd",
        "files:///%2e%2e%2fetc%2fpasswd",
        "files:///..%5c..%5cwindows",
        "files:////etc/passwd",
        "files:///a%00b",
        "notes://..",
        "notes://%2e%2e",
        "notes://..%2fsecret",
    ):
        await _not_found(peer, uri)


async def test_unknown_uri_is_not_found(serve: Serve) -> None:
    peer = await serve(one, note)

    for uri in ("memo://two", "notes://a/b", "memo://one/", "MEMO://one", "no uri at all", "gone://1"):
        await _not_found(peer, uri)


async def test_resource_can_raise_not_found(serve: Serve) -> None:
    peer = await serve(gone)

    await _not_found(peer, "gone://1")


async def test_uri_over_the_length_limit_is_refused(serve: Serve) -> None:
    peer = await serve(note)

    error = await peer.error("resources/read", {"uri": "notes://" + "a" * 9000})

    assert error["code"] == INVALID_PARAMS


async def test_unexpected_error_of_a_resource_is_not_disclosed(serve: Serve) -> None:
    peer = await serve(fails)

    error = await peer.error("resources/read", {"uri": "memo://fails"})

    assert error["code"] == INTERNAL_ERROR
    assert "secret" not in str(error)


async def test_public_error_of_a_resource_reaches_the_client(serve: Serve) -> None:
    peer = await serve(tells)

    assert "asleep" in (await peer.error("resources/read", {"uri": "memo://tells"}))["message"]


async def test_resource_receives_the_caller(serve: Serve) -> None:
    peer = await serve(who)

    assert (await _read(peer, "who://asks"))["text"] == "raw"


@only(revisions=MODERN, because="only 2026-07-28 allows clients to cache results")
async def test_read_result_carries_ttl_and_cache_scope(serve: Serve) -> None:
    @resource("kept://one", ttl_ms=9000, cache_scope="public")
    async def kept() -> str:
        """Return a cacheable document."""
        return "one"

    peer = await serve(kept, one)

    result = await peer.request("resources/read", {"uri": "kept://one"})
    other = await peer.request("resources/read", {"uri": "memo://one"})

    assert (result["ttlMs"], result["cacheScope"]) == (9000, "public")
    assert (other["ttlMs"], other["cacheScope"]) == (0, "private")


async def test_fixed_uri_precedes_templates_and_specific_templates_precede_others(serve: Serve) -> None:
    @resource("notes://fixed")
    async def fixed() -> str:
        """Fixed."""
        return "fixed"

    @resource("notes://a-{rest}")
    async def specific(rest: str) -> str:
        """More specific."""
        return f"specific {rest}"

    peer = await serve(note, fixed, specific)

    assert (await _read(peer, "notes://fixed"))["text"] == "fixed"
    assert (await _read(peer, "notes://a-b"))["text"] == "specific b"
    assert (await _read(peer, "notes://b-a"))["text"] == "note b-a"
