"""The plugin has every name that the conformance suite and the demo use; its functions are plain functions.

The suite, run from the project's tests, covers everything that needs a client.
"""

from __future__ import annotations

import base64
import gzip
import inspect
import io
import pkgutil
import wave
from importlib import import_module
from typing import Any

import mcptrio_everything as everything
import pytest
from mcptrio_everything import demo_content, samples, tools_client_requests

from mcptrio import Elicit, ToolError
from mcptrio.errors import ResourceNotFound
from mcptrio.types import ElicitResult

__all__: list[str] = []

SUITE = {
    *("json_schema_2020_12_tool", "test_audio_content", "test_elicitation", "test_elicitation_sep1034_defaults"),
    *("test_elicitation_sep1330_enums", "test_embedded_resource", "test_error_handling", "test_image_content"),
    *("test_input_required_result_capabilities", "test_input_required_result_elicitation"),
    *("test_input_required_result_list_roots", "test_input_required_result_multi_round"),
    *("test_input_required_result_multiple_inputs", "test_input_required_result_prompt"),
    *("test_input_required_result_request_state", "test_input_required_result_sampling"),
    *("test_input_required_result_tampered_state", "test_logging_tool", "test_missing_capability"),
    *("test_multiple_content_types", "test_prompt_with_arguments", "test_prompt_with_embedded_resource"),
    *("test_prompt_with_image", "test_reconnection", "test_sampling", "test_simple_prompt", "test_simple_text"),
    *("test_streaming_elicitation", "test_tool_with_logging", "test_tool_with_progress"),
    *("test_trigger_prompt_change", "test_trigger_tool_change", "test_x_mcp_header"),
}
"""Tools and prompts the suite calls by name, tasks excepted."""


def functions(module: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if inspect.iscoroutinefunction(value)}


def test_plugin_has_every_name_of_the_suite() -> None:
    assert set(functions(everything)) >= SUITE
    assert set(everything.__all__) == {*functions(everything), "setup"}


def test_first_function_takes_no_argument() -> None:
    """The suite calls the first tool listed with an empty object."""
    first = next(iter(functions(everything).values()))

    assert first.__name__ == "test_simple_text"
    assert not inspect.signature(first).parameters


def test_functions_of_every_module_are_exported() -> None:
    for found in pkgutil.iter_modules(everything.__path__, "mcptrio_everything."):
        module = import_module(found.name)
        own = {
            name
            for name, value in functions(module).items()
            if value.__module__ == found.name and not name.startswith("_") and name != "embed"
        }

        assert own <= set(everything.__all__), found.name


def test_every_function_has_a_description() -> None:
    for name, function in functions(everything).items():
        assert inspect.getdoc(function), name


def test_samples_match_their_media_types() -> None:
    png = base64.b64decode(samples.PNG, validate=True)
    with wave.open(io.BytesIO(base64.b64decode(samples.WAV, validate=True))) as sound:
        frames = sound.readframes(10)

    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert png.endswith(b"IEND\xaeB`\x82")
    assert frames == b"\0\0"


async def test_failing_tool_raises_with_a_reason() -> None:
    with pytest.raises(ToolError, match="intentionally"):
        await everything.test_error_handling()


async def test_kinds_of_content_are_returned_in_order() -> None:
    kinds = [block.type for block in await everything.test_multiple_content_types()]

    assert kinds == ["text", "image", "resource"]


@pytest.mark.parametrize(
    ("url", "content"),
    [
        ("data:text/plain;base64,aGVsbG8=", b"hello"),
        ("data:text/plain;charset=utf-8;base64,aGVsbG8%3D", b"hello"),
        ("data:,hello%20there", b"hello there"),
        ("data:,", b""),
    ],
)
async def test_data_url_is_compressed(url: str, content: bytes) -> None:
    result = await everything.gzip_file_as_resource(url, "../a b.gz")

    assert gzip.decompress(base64.b64decode(result.resource.blob)) == content
    assert result.resource.uri == "demo://resource/session/..-a-b.gz"


@pytest.mark.parametrize("url", ["https://example.com/", "file:///etc/passwd", "data:nothing", "data:;base64,?", ""])
async def test_other_url_is_refused(url: str) -> None:
    with pytest.raises(ToolError, match="expected"):
        await everything.gzip_file_as_resource(url)


@pytest.mark.parametrize("text", ["x" * 101, "x" * 401])
async def test_data_over_the_size_limit_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(demo_content, "MAX_DATA_BYTES", 100)

    with pytest.raises(ToolError, match="expected at most 100 bytes"):
        await everything.gzip_file_as_resource(f"data:,{text}")


@pytest.mark.parametrize("id", ["0", "-1", "x", "", "1.0", "٣", "1" * 10])
async def test_dynamic_resource_of_another_name_is_not_found(id: str) -> None:
    with pytest.raises(ResourceNotFound):
        await everything.dynamic_text(id)
    with pytest.raises(ResourceNotFound):
        await everything.dynamic_blob(id)


async def test_links_name_existing_resources() -> None:
    heading, *links = await everything.get_resource_links(10)

    assert heading.type == "text"
    assert len(links) == 10
    for link in links:
        kind, id = link.uri.rsplit("/", 2)[1:]
        assert await {"text": everything.dynamic_text, "blob": everything.dynamic_blob}[kind](id)


@pytest.mark.parametrize("kind", ["Text", "Blob"])
async def test_reference_and_prompt_embed_the_resource(kind: Any) -> None:
    reference = await everything.get_resource_reference(kind, 7)
    _, message = await everything.resource_prompt("7", kind)

    assert reference.resource.uri.endswith("/7")
    assert message.content == reference


async def test_completion_returns_values_with_the_prefix() -> None:
    assert "paris" in await everything.complete_arg1("par")
    assert await everything.complete_text_id("9") == ["9", *(str(number) for number in range(90, 100))]
    assert await everything.complete_department("S") == ["Sales", "Support"]
    assert await everything.complete_name("A", {}) == ["Alice"]


async def test_completion_of_the_name_depends_on_the_department() -> None:
    assert await everything.complete_name("", {"department": "Sales"}) == ["David", "Grace", "Henry"]
    assert await everything.complete_name("A", {"department": "Nowhere"}) == []


@pytest.mark.parametrize(
    ("schema", "answer"),
    [
        (tools_client_requests.USER, {"username": "testuser", "email": "test@example.com"}),
        (
            tools_client_requests.DEFAULTS,
            {"name": "Jane", "age": 31, "score": 90.5, "status": "pending", "verified": False},
        ),
        (tools_client_requests.DEFAULTS, {}),
        (
            tools_client_requests.CHOICES,
            {
                "untitledSingle": "option1",
                "titledSingle": "value1",
                "legacyEnum": "opt1",
                "untitledMulti": ["option1", "option2"],
                "titledMulti": ["value1", "value2"],
            },
        ),
    ],
)
def test_answers_of_the_suite_match_the_forms(schema: dict[str, Any], answer: dict[str, Any]) -> None:
    read = Elicit("?", schema).read(ElicitResult(action="accept", content=answer))

    assert answer.items() <= read.content.items()


async def test_binary_resource_is_the_sample() -> None:
    assert await everything.static_binary() == base64.b64decode(samples.PNG)
