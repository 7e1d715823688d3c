"""Language servers that misbehave; the processes run hostile_server.py."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from mcptrio_code.frames import BrokenFrame, FrameReader, frame

from .conftest import Connect, answer, refusal, until


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("dies", "the language server python has ended"),
        ("huge", "got 999999999"),
        ("endless-header", "expected a header of at most 4096 bytes"),
        ("two-lengths", "expected one Content-Length, got 2"),
        ("not-json", "expected JSON after the header"),
        ("deep", "expected JSON after the header"),
        ("wrong-form", "answered in a form that LSP does not have"),
    ],
)
async def test_broken_answer_fails_the_call(fake_client: Connect, mode: str, message: str) -> None:
    async with fake_client(mode) as client:
        assert message in await refusal(client, "outline", path="shapes.py")


async def test_request_to_a_silent_server_times_out(fake_client: Connect, project: Path) -> None:
    async with fake_client("silent", request_timeout=0.5) as client:
        message = await refusal(client, "outline", path="shapes.py")
        assert message == "python: the language server has not answered textDocument/documentSymbol within 0.5 seconds"
        await until((project / "cancelled").exists)


@pytest.mark.parametrize("mode", ["never-starts", "ignores-input"])
async def test_server_that_hangs_does_not_outlive_the_plugin(fake_client: Connect, mode: str) -> None:
    async with fake_client(mode, start_timeout=1, request_timeout=1) as client:
        assert "has not answered" in await refusal(client, "outline", path="shapes.py")


async def test_call_is_repeated_once_if_the_server_dies(fake_client: Connect, project: Path) -> None:
    async with fake_client("dies-once") as client:
        assert (
            "pid" in (await client.call_tool("outline", {"path": "shapes.py"})).structured_content["items"][0]["name"]
        )
        assert (project / "died").exists()


async def test_restarts_are_spaced(fake_client: Connect) -> None:
    async with fake_client("dies") as client:
        for _ in range(3):
            assert "has ended" in await refusal(client, "outline", path="shapes.py")
        message = ""
        while "next attempt" not in message:
            message = await refusal(client, "outline", path="shapes.py")


async def test_missing_program_is_named(code_client: Connect) -> None:
    server = {"command": ["no-such-server"], "globs": ["*.py"]}
    async with code_client(servers={"python": server}) as client:
        message = await refusal(client, "diagnostics", path="shapes.py")
        assert (
            message == "the language server python: cannot start no-such-server: 'no-such-server' was not found in PATH"
        )


async def test_message_about_a_missing_default_server_says_how_to_install_it(
    code_client: Connect, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "a.ts").write_text("let x = 1\n")
    monkeypatch.setenv("PATH", str(project))
    async with code_client() as client:
        message = await refusal(client, "diagnostics", path="a.ts")
    assert message.endswith("; install it with `npm install -g typescript-language-server typescript@5`")


async def test_unexpected_messages_are_ignored(fake_client: Connect, project: Path) -> None:
    async with fake_client("asks") as client:
        await answer(client, "outline", path="shapes.py")
        answers = project / "answers"
        await until(lambda: answers.exists() and answers.read_text().count("\n") == 3)
        lines = [json.loads(line) for line in answers.read_text().splitlines()]
        refused = {"applied": False, "failureReason": "only the tools change files"}
        assert lines == [["a", [None, None], False], ["b", None, True], ["c", refused, False]]
        assert await answer(client, "outline", path="shapes.py")


async def test_positions_out_of_range_are_no_error(fake_client: Connect) -> None:
    async with fake_client("out-of-range") as client:
        assert await answer(client, "outline", path="shapes.py") == "shapes.py: 18 lines\n1000000001: far"


async def test_published_diagnostics_are_awaited(fake_client: Connect) -> None:
    async with fake_client("publishes") as client:
        found = await answer(client, "diagnostics", path="shapes.py")
        assert found == "shapes.py:3: hint: hint\nshapes.py:3: error: late word"
    async with fake_client("silent", request_timeout=0.3) as client:
        message = await refusal(client, "diagnostics", path="shapes.py")
        assert message == "python: the language server has reported no diagnostics within 0.3 seconds"


async def test_standard_error_does_not_block(fake_client: Connect) -> None:
    async with fake_client("noisy") as client:
        assert await answer(client, "outline", path="shapes.py")


async def test_idle_server_ends_with_its_children_and_starts_again(fake_client: Connect) -> None:
    async with fake_client("child", idle_timeout=0.3) as client:
        first = await _pid(client)
        await until(lambda: not _is_running(first))
        assert await _pid(client) != first


@pytest.mark.parametrize(
    "data",
    [
        b"Content-Length: -1\r\n\r\n",
        b"Content-Length: 1e3\r\n\r\n",
        b"Content-Length: 9999999999999\r\n\r\n",
        b"Other: 1\r\n\r\n{}",
        b"\r\n\r\n",
        b"Content-Length: 2\r\n\r\n[]",
        b"Content-Length: 2\r\n\r\n\xff\xff",
        b"Content-Length: 101\r\n\r\n",
        b"GET / HTTP/1.1\r\n" * 300,
    ],
)
def test_frames_that_are_refused(data: bytes) -> None:
    with pytest.raises(BrokenFrame):
        FrameReader(100).feed(data)


def test_frames_arrive_in_pieces() -> None:
    data = frame({"id": 1}) + frame({"method": "ä"})
    reader = FrameReader(100)
    found = [message for byte in data for message in reader.feed(bytes([byte]))]
    assert found == FrameReader(100).feed(data) == [{"id": 1}, {"method": "ä"}]


async def _pid(client: object) -> int:
    result = await client.call_tool("outline", {"path": "shapes.py"})  # type: ignore[attr-defined]
    match = re.fullmatch(r"pid(\d+)", result.structured_content["items"][0]["name"])
    assert match
    return int(match[1])


def _is_running(pid: int) -> bool:
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    return True
