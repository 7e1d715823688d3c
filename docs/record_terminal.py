"""Records calls of the tutorial's plugin in a terminal as ``docs/terminal.svg``: ``python docs/record_terminal.py``.

A shell runs in a pseudo-terminal, and the steps type into it. The picture is one animated SVG: its frames are side by
side, and the animation moves one after the other into view. Needs Linux, ``mcptrio`` on the path, and the dependency
group ``docs``.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

import pyte
from attrs import frozen

__all__ = ["record"]

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "terminal.svg"

COLUMNS, LINES = 52, 20
KEY_SECONDS = 0.045
QUIET_SECONDS = 0.6
"""A program that prints nothing for this long waits for input."""
MAX_WAIT_SECONDS = 30
FRAME_SECONDS = 0.08
"""Changes within this time are one frame."""
END_SECONDS = 5

CELL_WIDTH, LINE_HEIGHT, MARGIN = 8.4, 19, 14
COLORS: Mapping[str, str] = {
    "default": "#d6dbe1",
    "black": "#6e7681",
    "red": "#ff7b72",
    "green": "#7ee787",
    "brown": "#e3b341",
    "blue": "#79c0ff",
    "magenta": "#d2a8ff",
    "cyan": "#76e3ea",
    "white": "#f0f3f6",
}
STYLE = """
  .frames { animation: play %.2fs steps(1, end) infinite }
  text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; white-space: pre; fill: #d6dbe1 }
  .b { font-weight: bold } .d { opacity: .6 }
  @keyframes play {%s }
  @media (prefers-reduced-motion: reduce) { .frames { animation: none; transform: translateX(%dpx) } }"""

STEPS: Sequence[tuple[str, str]] = (
    ("mcptrio list --plugin garden.py\r", "plan"),
    ("mcptrio call --plugin garden.py water beds=4\r", "watered 4 beds"),
    ("mcptrio call --plugin garden.py sow bed=north\r", "plant"),
    ("peas\r", "rows"),
    ("3\r", "Send?"),
    ("send\r", "3 rows of peas"),
)
"""Keys, and the text that appears afterwards.

The picture begins at the end of the first step, not with a blank screen.
"""


@frozen
class Frame:
    at: float
    """Seconds since the beginning."""
    lines: tuple[str, ...]
    """SVG elements of each line, without their position."""


def record(folder: Path) -> list[Frame]:
    """Play the steps in a shell in the folder, and return the frames.

    Raises:
        TimeoutError: a text has not appeared within 30 seconds.
    """
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        env = {**os.environ, "PS1": "$ ", "TERM": "xterm-256color", "LANG": "C.UTF-8", "HISTFILE": "/dev/null"}
        os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], env)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    screen = pyte.Screen(COLUMNS, LINES)
    stream = pyte.ByteStream(screen)
    frames: list[Frame] = []
    began = time.monotonic()

    def read(seconds: float) -> bool:
        if not select.select([terminal], [], [], seconds)[0]:
            return False
        stream.feed(os.read(terminal, 65536))
        lines = tuple(draw_line(screen, number) for number in range(LINES))
        at = time.monotonic() - began
        if frames and at - frames[-1].at < FRAME_SECONDS:
            frames[-1] = Frame(frames[-1].at, lines)
        elif not frames or frames[-1].lines != lines:
            frames.append(Frame(at, lines))
        return True

    def wait(seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            read(left)

    def settle(text: str) -> None:
        end = time.monotonic() + MAX_WAIT_SECONDS
        while time.monotonic() < end:
            if not read(QUIET_SECONDS) and any(text in line for line in screen.display):
                return
        raise TimeoutError(f"expected {text!r} within {MAX_WAIT_SECONDS} s, got\n" + "\n".join(screen.display))

    try:
        settle("$")
        for number, (keys, text) in enumerate(STEPS):
            for key in keys:
                # The whole line must be a separate frame before its output follows.
                wait(4 * FRAME_SECONDS if key == "\r" else KEY_SECONDS)
                os.write(terminal, key.encode())
            settle(text)
            if number == 0:
                del frames[:-1]
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(terminal)
    return frames


def draw_line(screen: pyte.Screen, number: int) -> str:
    """Return a line of the screen as SVG text, one element for each run of equal style."""
    cells = [screen.buffer[number][column] for column in range(COLUMNS)]
    runs: list[tuple[int, str, str]] = []
    for column, cell in enumerate(cells):
        classes = "b" if cell.bold else ""
        color = COLORS.get(cell.fg.removeprefix("bright"), COLORS["default"])
        style = f'fill="{color}"' + (f' class="{classes}"' if classes else "")
        if runs and runs[-1][2] == style:
            runs[-1] = (runs[-1][0], runs[-1][1] + cell.data, style)
        else:
            runs.append((column, cell.data, style))
    return "".join(
        f'<text x="{MARGIN + start * CELL_WIDTH:.1f}" textLength="{len(text.rstrip()) * CELL_WIDTH:.1f}" {style}>'
        f"{escape(text.rstrip())}</text>"
        for start, text, style in runs
        if text.strip()
    )


def draw(frames: Sequence[Frame]) -> str:
    """Return the recording as an animated SVG."""
    width, height = round(2 * MARGIN + COLUMNS * CELL_WIDTH), 2 * MARGIN + LINES * LINE_HEIGHT
    first = frames[0].at
    seconds = frames[-1].at - first + END_SECONDS
    moves = "".join(
        f" {100 * (frame.at - first) / seconds:.3f}% {{ transform: translateX({-number * width}px) }}"
        for number, frame in enumerate(frames)
    )
    names: dict[str, str] = {}
    for frame in frames:
        for line in frame.lines:
            if line:
                names.setdefault(line, f"l{len(names)}")
    return "\n".join(
        [
            # On a wide page the text has 17 px; on a narrow one, the picture shrinks with its column.
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width * 5 // 4}"',
            f' viewBox="0 0 {width} {height}" role="img">',
            "<title>A tool with a progress bar, and a tool that asks with a form, called in a terminal</title>",
            f"<style>{STYLE % (seconds, moves, -(len(frames) - 1) * width)}</style>",
            "<defs>",
            *(f'<g id="{name}">{line}</g>' for line, name in names.items()),
            "</defs>",
            f'<rect width="{width}" height="{height}" rx="8" fill="#161b22"/>',
            '<g class="frames">',
            *draw_frames(frames, names, width),
            "</g>",
            "</svg>",
            "",
        ]
    )


def draw_frames(frames: Sequence[Frame], names: Mapping[str, str], width: int) -> Iterator[str]:
    for number, frame in enumerate(frames):
        lines = "".join(
            f'<use href="#{names[line]}" y="{MARGIN + (row + 0.75) * LINE_HEIGHT:g}"/>'
            for row, line in enumerate(frame.lines)
            if line
        )
        yield f'<g transform="translate({number * width})">{lines}</g>'


def garden() -> str:
    """The plugin of the tutorial."""
    text = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
    found = re.search(r"^```python\n(# garden\.py\n.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "garden.py").write_text(garden(), "utf-8")
        frames = record(Path(folder))
    TARGET.write_text(draw(frames), "utf-8")
    sys.stdout.write(f"{TARGET}: {len(frames)} frames\n")
