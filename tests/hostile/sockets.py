"""Plays the WebSocket cases against a server, and judges the results.

The tests of this directory use it. Received frames are compared one by one, and then the connection is used once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import trio
from attrs import define, field

from tests.hostile.answers import Answers, NotHTTP
from tests.hostile.cases import Pause, get
from tests.hostile.conversations import KEY, UPGRADE, VERSION
from tests.hostile.frames import CLOSE, PING, PONG, TEXT, Frame, FrameCase, frame, read_frames
from tests.hostile.playing import AT_ONCE, connect

__all__ = ["ReceivedFrames", "judge_frames", "open_socket", "play_all_frames", "play_frames"]

_LAST = b"still open?"


@define
class ReceivedFrames:
    """The frames that a client received on a WebSocket, and how it ended.

    Attributes:
        status: The HTTP status of the handshake.
        end: ``open``, ``closed``, ``reset`` or ``hung``.
    """

    status: int = 0
    frames: list[Frame] = field(factory=list)
    end: str = "hung"
    problem: str = ""

    def __str__(self) -> str:
        frames = [f"{each.opcode}:{each.code or each.payload[:20]!r}" for each in self.frames]
        return f"status {self.status}, frames {frames}, {self.end} {self.problem}".rstrip()


async def open_socket(port: int, path: bytes, *, extension: bytes = b"", window: int = 0) -> trio.SocketStream:
    """Open an accepted WebSocket.

    Raises:
        NotHTTP: The server refused the handshake.
    """
    stream = await connect(port, window=window)
    try:
        more = (b"sec-websocket-extensions: " + extension,) if extension else ()
        await stream.send_all(get(path, *UPGRADE, KEY, VERSION, *more))
        # Byte by byte, so that no frame is read here.
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            byte = await stream.receive_some(1)
            if not byte:
                break
            head += byte
        answers = Answers()
        answers.feed(head)
        if not answers.switched:
            raise NotHTTP(f"no WebSocket: {head[:100]!r}")
        accept = answers.complete[0].headers.get("sec-websocket-accept")
        if accept != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=":  # RFC 6455, 1.3
            raise NotHTTP(f"sec-websocket-accept: {accept}")
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return stream


async def play_all_frames(cases: Sequence[FrameCase], ports: Mapping[str, int]) -> dict[str, ReceivedFrames]:
    """Play all cases, and return the outcomes by name."""
    heard: dict[str, ReceivedFrames] = {}
    limiter = trio.CapacityLimiter(AT_ONCE)

    async def one(case: FrameCase) -> None:
        async with limiter:
            heard[case.name] = await play_frames(case, ports[case.port])

    async with trio.open_nursery() as nursery:
        for case in cases:
            nursery.start_soon(one, case)
    return heard


async def play_frames(case: FrameCase, port: int) -> ReceivedFrames:
    listener = ReceivedFrames()
    with trio.move_on_after(60):
        try:
            stream = await open_socket(port, case.path, extension=case.extension)
        except NotHTTP as problem:
            listener.problem = str(problem)
            return listener
        listener.status = 101
        async with stream, trio.open_nursery() as nursery:
            nursery.start_soon(_say, stream, case)
            await _listen(stream, listener)
            nursery.cancel_scope.cancel()
    return listener


async def _say(stream: trio.SocketStream, case: FrameCase) -> None:
    try:
        for step in case.says:
            if isinstance(step, Pause):
                await trio.sleep(step.seconds)
            else:
                await stream.send_all(step)
        if case.then == "open":
            await stream.send_all(frame(TEXT, _LAST) + frame(PING, _LAST))
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass


async def _listen(stream: trio.SocketStream, heard: ReceivedFrames) -> None:
    data = b""
    while True:
        try:
            chunk = await stream.receive_some(65536)
        except trio.BrokenResourceError:
            heard.end = "reset"
            break
        if not chunk:
            heard.end = "closed"
            break
        data += chunk
        try:
            heard.frames = read_frames(data)
        except ValueError:
            continue  # more data will follow
        if {Frame(TEXT, _LAST), Frame(PONG, _LAST)} <= set(heard.frames):
            heard.frames = [each for each in heard.frames if each.payload != _LAST]
            heard.end = "open"
            return
    try:
        heard.frames = read_frames(data)
    except ValueError as problem:
        heard.problem = str(problem)


def judge_frames(case: FrameCase, heard: ReceivedFrames) -> str | None:
    """Return the problem of the received frames; ``None`` if there is none."""
    if heard.status != 101 or heard.problem:
        return str(heard)
    ends = ("open",) if case.then == "open" else ("closed", "reset")
    if heard.end not in ends:
        return f"expected it to be {case.then}, got {heard}"
    frames = list(heard.frames)
    if case.then == "closed":
        last = frames.pop() if frames else None
        if last is None or last.opcode != CLOSE:
            return f"expected a close frame with {sorted(case.codes)}, got {heard}"
        if (last.code or 1005) not in case.codes:
            return f"expected a close frame with {sorted(case.codes)}, got {heard}"
    if _joined(frames) != list(case.hears):
        return f"expected {[str(each)[:80] for each in case.hears]}, got {heard}"
    return None


def _joined(frames: list[Frame]) -> list[Frame]:
    """Join fragmented messages of the server; interleaved control frames come first."""
    joined: list[Frame] = []
    open_: Frame | None = None
    for each in frames:
        if each.opcode >= CLOSE or (open_ is None and each.fin):
            joined.append(each)
        else:
            open_ = each if open_ is None else Frame(open_.opcode, open_.payload + each.payload, each.fin)
            if open_.fin:
                joined.append(open_)
                open_ = None
    return joined
